//! Limits that are wrong in themselves or together, each at its place, all at once.

use hworker::State;

#[hworker::job(concurrency = 0, rate_limit = "100 per minute", fair = tenant)]
fn alone(tenant: u8) { let _ = tenant; }

#[hworker::job(concurrency = "5", rate_limit = 100, fair(tenant))]
fn kinds(tenant: u8) { let _ = tenant; }

#[hworker::job(
    concurrency(limit = , kay = tenant, per, limit = 4),
    rate_limit(rate = "0/s", burst = -1, period = 3),
    fair()
)]
fn inner_keys(tenant: u8) { let _ = tenant; }

#[hworker::job(
    concurrency(limit = -1, key = "tenant", name = "a b", order = "loose", per = "queue", when_full = "drop", max_waiting = 0),
    rate_limit(rate = "2/31d", key = (tenant, 3)),
    rate_limit(rate = "2/0s", key = |job| job.tenant)
)]
fn values(tenant: u8) { let _ = tenant; }

#[hworker::job(concurrency(key = tenant), rate_limit(burst = 3))]
fn missing(tenant: u8) { let _ = tenant; }

#[hworker::job(concurrency(limit = 2, order = "strict", when_full = "keep_newest", max_waiting = 1))]
fn without_a_key() {}

#[hworker::job(concurrency(limit = plan, per = "worker", key = plan, order = "strict"), concurrency(limit = plan), concurrency = plan)]
fn without_a_number(plan: u8) { let _ = plan; }

#[hworker::job(
    redact = "card",
    concurrency(limit = pool, key = (db, card)),
    rate_limit(rate = "1/s", key = tenant)
)]
fn no_arguments(card: u8, tenant: u8, State(db): State<u8>, pool: State<u8>) { let _ = (card, tenant, db, pool); }

#[hworker::job(concurrency = 5, concurrency = 6, rate_limit = "1/s", rate_limit = "1/m")]
fn twice() {}

#[hworker::job(concurrency(limit = 5, key = tenant), fair(key = (tenant)), fair(key = tenant))]
fn fair_twice(tenant: u8) { let _ = tenant; }

#[hworker::job(concurrency(limit = 5, key = tenant), rate_limit(rate = "1/s", key = (tenant, shop)))]
fn two_keys(tenant: u8, shop: u8) { let _ = (tenant, shop); }

#[hworker::job(concurrency(limit = 5, key = tenant), rate_limit(rate = "1/s", key = tenant, name = "shopify"))]
fn two_by_key(tenant: u8) { let _ = tenant; }

#[hworker::job(concurrency = 5, concurrency(limit = 6, name = "a"), rate_limit(rate = "1/s", name = "b"))]
fn three() {}

#[hworker::job(concurrency(limit = 1, per = "worker"), concurrency(limit = 1, per = "worker", name = "a"))]
fn two_per_worker() {}

#[hworker::job(fair(key = tenant))]
fn refused(tenant: &'static str, name: Option<&str>) { let _ = (tenant, name); }

fn main() {}
