//! No job waits long here that another worker could run. Where one waits for a runner, others are called: a body may block the one that
//! was. What waits longer goes back to the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::consumer::Lane;
use super::pace::AHEAD_AT_MOST;
use super::ready::WaitingJob;

/// What waits is looked at so often.
const TICK: Duration = Duration::from_millis(5);

/// Where a job had to wait for a runner, runners are called as if a body blocked one of them, for so long.
const BLOCKED_FOR: Duration = Duration::from_millis(100);

/// Looks after what waits in a queue.
pub(super) async fn run(lane: Arc<Lane>) {
    let mut queue = Waits::new(&lane);
    loop {
        lane.job_waits.notified().await;
        loop {
            sleep(TICK).await;
            queue.call_runners();
            queue.give_back();
            if lane.ready.is_empty() && queue.waited.is_none() {
                break;
            }
        }
    }
}

/// What waits in one queue.
struct Waits<'a> {
    lane: &'a Arc<Lane>,
    /// When a job last had to wait for a runner.
    waited: Option<Instant>,
}

impl<'a> Waits<'a> {
    fn new(lane: &'a Arc<Lane>) -> Self {
        Self { lane, waited: None }
    }

    /// Calls all runners to a job that has waited, and for a while each time at once.
    fn call_runners(&mut self) {
        if self.lane.ready.call_all_runners(TICK) {
            self.waited = Some(Instant::now());
        }
        self.waited = self.waited.filter(|at| at.elapsed() < BLOCKED_FOR);
        self.lane.pace.set_blocked(self.waited.is_some());
    }

    /// Gives back what was fetched ahead and has waited; what has a slot too, where no runner runs.
    fn give_back(&self) {
        let lane = self.lane;
        // What is under way is younger, and would be started before it.
        if !lane.asks.are_over(lane.asks.sent()) {
            return;
        }
        let waited = lane.ready.take_late(AHEAD_AT_MOST, lane.pulse.is_fresh());
        if waited.is_empty() {
            return;
        }
        lane.pace.halt();
        for lease in waited.iter().map(WaitingJob::lease) {
            lane.give_back(lease);
        }
        // They wait at the server now, and nothing here is due to end.
        lane.look();
    }
}
