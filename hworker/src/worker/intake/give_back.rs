//! No job waits here for long if another worker could run it. If a job waits for a runner, others are called, because a body may block the
//! first one. If it waits longer, it goes back to the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::worker::state::{AHEAD_AT_MOST, Consumer, WaitingJob};

/// How often waiting jobs are checked.
const TICK: Duration = Duration::from_millis(5);

/// How long runners are called as if a body blocked one of them, after a job had to wait for a runner.
const BLOCKED_FOR: Duration = Duration::from_millis(100);

/// Checks the waiting jobs of a queue.
pub(crate) async fn run(consumer: Arc<Consumer>) {
    let mut queue = Waits::new(&consumer);
    loop {
        consumer.job_waits.notified().await;
        loop {
            sleep(TICK).await;
            queue.call_runners();
            queue.give_back();
            if consumer.buffer.is_empty() && queue.waited.is_none() {
                break;
            }
        }
    }
}

/// The waiting jobs of one queue.
struct Waits<'a> {
    consumer: &'a Arc<Consumer>,
    /// When a job last had to wait for a runner.
    waited: Option<Instant>,
}

impl<'a> Waits<'a> {
    fn new(consumer: &'a Arc<Consumer>) -> Self {
        Self { consumer, waited: None }
    }

    /// Calls all runners to a job that has waited, and for a while calls a runner to each job at once.
    fn call_runners(&mut self) {
        if self.consumer.buffer.call_all_runners(TICK) {
            self.waited = Some(Instant::now());
        }
        self.waited = self.waited.filter(|at| at.elapsed() < BLOCKED_FOR);
        self.consumer.pace.set_blocked(self.waited.is_some());
    }

    /// Gives back jobs that were fetched ahead and have waited, and those with a slot too, if no runner runs.
    fn give_back(&self) {
        let consumer = self.consumer;
        // Jobs in flight are younger, and would be started first.
        if !consumer.claims.are_over(consumer.claims.sent()) {
            return;
        }
        let waited = consumer.buffer.take_late(AHEAD_AT_MOST, consumer.freshness.is_fresh());
        if waited.is_empty() {
            return;
        }
        consumer.pace.halt();
        for lease in waited.iter().map(WaitingJob::lease) {
            consumer.give_back(lease);
        }
        // They wait at the server now, and no attempt here is about to end.
        consumer.look();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;
    use crate::registry::Registry;
    use crate::store::Lease;
    use crate::worker::builder::WorkerBuilder;
    use crate::worker::state::Session;

    #[hworker::job]
    fn waits_for_a_slot() {}

    #[test]
    fn older_jobs_go_back_when_no_younger_ones_are_in_flight() {
        // Guard: `are_over`: a job that a call in flight brings would start before the older ones that went back.
        let client = Client::new("redis://localhost").expect("a client");
        let worker = WorkerBuilder::default().client(&client);
        let worker =
            worker.registry(Registry::new().with::<waits_for_a_slot>()).build().expect("a worker");
        let session = Session::new(&worker.core);
        let consumer = &session.consumers()[0];
        let mut jobs = vec![(Lease::Token(1), b"{}".to_vec())];
        consumer.leases.reserved(0, &mut jobs);
        let job = |(lease, payload)| WaitingJob::Reserved(lease, payload);
        consumer.buffer.push(jobs.into_iter().map(job), None);
        // They have waited by a clock.
        std::thread::sleep(AHEAD_AT_MOST);
        consumer.claims.one_is_sent();
        Waits::new(consumer).give_back();
        assert_eq!((consumer.buffer.count(), consumer.outbox.count()), (1, 0));
        consumer.claims.one_is_over();
        Waits::new(consumer).give_back();
        assert_eq!((consumer.buffer.count(), consumer.outbox.count()), (0, 1));
        assert!(consumer.take_look(), "the server has jobs");
    }
}
