//! Whether a change of the shop's jobs would break those that wait: they are compared with `control/jobs.json`. After one that is meant,
//! `HWORKER_MANIFEST=write cargo test -p hworker-examples --test manifest` writes it anew.

#[path = "../control/jobs.rs"]
mod jobs;
#[allow(dead_code)] // what the demo asks of it
#[path = "../control/shop.rs"]
mod shop;

#[test]
fn manifest() {
    hworker::check_manifest("control/jobs.json");
}
