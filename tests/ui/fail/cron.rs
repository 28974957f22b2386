//! Schedules that are wrong in themselves or together, each at its place, all at once.

#[hworker::job(cron = "0 25 * * *")]
fn no_such_hour() {}

#[hworker::job(cron = "0 9 * *")]
fn four_fields() {}

#[hworker::job(cron = "0 0 30 2 *")]
fn never() {}

#[hworker::job(cron = "0/12 * * * *")]
fn no_range() {}

#[hworker::job(cron = "@daily", timezone = "Europe/Berlim")]
fn no_zone() {}

#[hworker::job(cron("@daily", timezone = "tokyo", catch_up = "some", overlap = "maybe", splay = "soon", start = "today", count = 0, skip_days = "x", kay = 1))]
fn values() {}

#[hworker::job(every = "50ms")]
fn too_often() {}

#[hworker::job(every)]
fn missing() {}

#[hworker::job(cron(name = "x"))]
fn without_a_time() {}

#[hworker::job(timezone = "Europe/Berlin")]
fn no_time() {}

#[hworker::job(cron = "@daily")]
fn arguments(a: u8) { let _ = a; }

#[hworker::job(cron("@daily", args = (1, 2)))]
fn too_many(a: u8) { let _ = a; }

#[hworker::job(cron = "@daily", every = "1h")]
fn one_name() {}

#[hworker::job(unique, every("1h", overlap = "skip"))]
fn two_ways() {}

#[hworker::job(every("1h", args = (1,)), concurrency(limit = 1, key = key, when_full = "keep_newest"))]
fn when_full(key: u8) { let _ = key; }

#[hworker::job(every("1h", skip_days = "mon,tue,wed,thu,fri,sat,sun"))]
fn all_days() {}

#[hworker::job(cron = "0 0 9 1 1 * 2027")]
fn with_a_year() {}

#[hworker::job(every("1h", start = "2026-12-02", end = "2026-12-01"))]
fn ends_first() {}

#[hworker::job(every("1h", start = "2026-12-01T09:00+02:00"))]
fn with_an_offset() {}

fn main() {}
