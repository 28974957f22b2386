//! Whether the server holds for this worker what the worker knows, by heartbeats.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use crate::store::{Connection, Fault, Heard, Lease, lengths};
use crate::worker::intake::accept::report_lost;
use crate::worker::state::consumer::Consumer;

/// What differs at a heartbeat is looked at again after this, since it may only be under way.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

/// What the heartbeats of one queue have found.
#[derive(Default)]
pub(crate) struct Verifier {
    unseen: Option<Unseen>,
}

/// Leases that the server was seen to hold and that nobody here knew, and how many calls had been sent then, which might bring them yet.
struct Unseen {
    leases: HashSet<Lease>,
    asked: u64,
}

impl Verifier {
    /// Holds what the server has for us against what we know. What differs may be under way, so it must differ twice.
    /// `wait` tells the wait that was under way when the heartbeat was sent.
    pub(crate) async fn verify(
        &mut self,
        consumer: &Consumer,
        connection: &Connection,
        wait: u64,
        heard: &Heard,
    ) -> Result<(), Fault> {
        // A wait is lost only if it is the same all the time: under load one follows another, and jobs come in between.
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
        // An answer that is large for the network brings them yet. One of which nothing arrives has to be taken for lost.
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

/// Cancels what was lost, settles again what was revived, and gives the names of leases that we never saw.
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
    Ok(comparison.unseen.into_iter().collect())
}
