//! Keys that are unknown, reserved, given twice, or have no value: each is said at its place, all at once.

#[hworker::job(timeot = "1s", max_retries = 3, x = 1)]
async fn unknown() {}

#[hworker::job(retries = 3, delay = "5s", schedule = "0 9 * * *", max_concurrency = 3, burst = 2)]
async fn of_another_queue() {}

#[hworker::job(
    unique,
    cron = "* * * * *",
    every = "1h",
    timezone = "UTC",
    expires = "1h",
    isolate = true
)]
async fn reserved() {}

#[hworker::job(timeout = "1s", queue = "a", timeout = "2s", queue = "b")]
async fn twice() {}

#[hworker::job(timeout, queue = , name("x"), on_panic: "fail", crate, concurrency, rate_limit = , fair)]
async fn without_a_value() {}

#[hworker::job("1s", 5, timeout = "1s" queue = "b", = "c", on_panic = "fail")]
async fn without_a_key() {}

#[hworker::job]
#[hworker::job(timeout = "1s")]
async fn again() {}

fn main() {}
