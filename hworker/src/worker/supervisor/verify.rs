//! Compares the leases at the server with those known here, at each heartbeat.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use crate::store::{Connection, Fault, Heard, Lease, lengths};
use crate::worker::intake::accept::report_lost;
use crate::worker::state::Consumer;

/// The pause before a difference is checked again, since the leases may only be in flight.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

/// The findings of the last heartbeats of one queue.
#[derive(Default)]
pub(crate) struct Verifier {
    unseen: Option<Unseen>,
}

/// Leases at the server that are unknown here, and how many calls had been sent by then, which might still bring them.
struct Unseen {
    leases: HashSet<Lease>,
    asked: u64,
}

impl Verifier {
    /// Compares the leases at the server with those known here. A difference may be in flight, so it must be found twice. `wait` identifies
    /// the wait that was in flight when the heartbeat was sent.
    pub(crate) async fn verify(
        &mut self,
        consumer: &Consumer,
        connection: &Connection,
        wait: u64,
        heard: &Heard,
    ) -> Result<(), Fault> {
        // A wait is lost only if it stays the same: under load waits follow each other, and jobs come in between.
        let same_wait =
            || !wait.is_multiple_of(2) && consumer.waits.load(Ordering::Acquire) == wait;
        let waits_in_vain = |waiting: u64| waiting > 0 && same_wait();
        let differs = heard.leases != consumer.leases.count() as u64;
        if !differs && heard.inbox == 0 && !waits_in_vain(heard.waiting) {
            return Ok(());
        }
        let before = self.unseen.as_ref().filter(|before| consumer.claims.are_over(before.asked));
        let unseen = compare(consumer, connection).await?;
        let (asked, passed) = (consumer.claims.sent(), consumer.line.passed());
        if before.is_some_and(|before| !before.leases.is_disjoint(&unseen)) {
            self.unseen = None;
            consumer.differs();
            return Ok(());
        }
        sleep(LOOK_AGAIN).await;
        // An answer that is large for the network may still bring them. If nothing of it arrives, it counts as lost.
        let arriving = || consumer.line.passed() != passed;
        if unseen.is_empty() {
            self.unseen = None;
        } else if consumer.claims.are_over(asked) || !arriving() {
            self.unseen = None;
            if !compare(consumer, connection).await?.is_disjoint(&unseen) {
                consumer.differs();
            }
        } else if self.unseen.as_ref().is_none_or(|before| consumer.claims.are_over(before.asked)) {
            self.unseen = Some(Unseen { leases: unseen, asked });
        }
        if heard.inbox > 0 || waits_in_vain(heard.waiting) {
            let (inbox, waiting) = lengths(connection, &consumer.queue, &consumer.keys).await?;
            if (heard.inbox > 0 && inbox > 0) || waits_in_vain(waiting) {
                if same_wait() {
                    consumer.wait_lost.notify_waiters();
                }
                consumer.look();
            }
        }
        Ok(())
    }
}

/// Cancels lost leases, settles revived ones again, and returns those that were never seen here.
async fn compare(consumer: &Consumer, connection: &Connection) -> Result<HashSet<Lease>, Fault> {
    let believed = consumer.leases.believed();
    let server = consumer.queue.leases(connection, &consumer.keys).await?;
    let comparison = consumer.leases.compare(&believed, server);
    for lease in &comparison.lost {
        report_lost(consumer, lease);
    }
    for settlement in comparison.revived {
        consumer.settle(Some(settlement));
    }
    Ok(comparison.unseen)
}
