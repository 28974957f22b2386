//! No job waits long here that another worker could run. Where one waits for a runner, others are called: a body may block the one that
//! was. What waits longer goes back to the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::worker::state::buffer::WaitingJob;
use crate::worker::state::consumer::Consumer;
use crate::worker::state::pace::AHEAD_AT_MOST;

/// What waits is looked at so often.
const TICK: Duration = Duration::from_millis(5);

/// Where a job had to wait for a runner, runners are called as if a body blocked one of them, for so long.
const BLOCKED_FOR: Duration = Duration::from_millis(100);

/// Looks after what waits in a queue.
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

/// What waits in one queue.
struct Waits<'a> {
    consumer: &'a Arc<Consumer>,
    /// When a job last had to wait for a runner.
    waited: Option<Instant>,
}

impl<'a> Waits<'a> {
    fn new(consumer: &'a Arc<Consumer>) -> Self {
        Self { consumer, waited: None }
    }

    /// Calls all runners to a job that has waited, and for a while each time at once.
    fn call_runners(&mut self) {
        if self.consumer.buffer.call_all_runners(TICK) {
            self.waited = Some(Instant::now());
        }
        self.waited = self.waited.filter(|at| at.elapsed() < BLOCKED_FOR);
        self.consumer.pace.set_blocked(self.waited.is_some());
    }

    /// Gives back what was fetched ahead and has waited; what has a slot too, where no runner runs.
    fn give_back(&self) {
        let consumer = self.consumer;
        // What is under way is younger, and would be started before it.
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
        // They wait at the server now, and nothing here is due to end.
        consumer.look();
    }
}
