//! Delivers the notes of a queue: those that this worker wrote at once, and those that somebody left, as where their worker died, where it keeps
//! the timer.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::state::{Consumer, Core};
use crate::log::say;
use crate::relay::deliver;
use crate::store::Fault;

/// After so long it is assumed that the worker that wrote a note does not deliver it.
const LEFT_AFTER_MS: u64 = 5_000;

/// The pause after a fault.
const PAUSE: Duration = Duration::from_millis(500);

/// Delivers notes until the session ends.
pub(crate) async fn run(core: Arc<Core>, consumer: Arc<Consumer>) {
    loop {
        consumer.notes.told.notified().await;
        let written = consumer.notes.take();
        // What is not delivered stands at the server, and is found there with what others left.
        if !written.is_empty()
            && let Err(fault) = deliver(&core.client, &consumer.queue, &written).await
        {
            say!(DEBUG, { queue = consumer.queue.name.clone() },
                job.queue = %queue, "a batch is not told yet of members that have ended, trying again: {fault}");
            sleep(PAUSE).await;
        }
        if consumer.notes.take_left()
            && let Err(fault) = deliver_left(&core, &consumer).await
        {
            say!(DEBUG, { queue = consumer.queue.name.clone() },
                job.queue = %queue, "notes that others left are not delivered yet, trying again: {fault}");
        }
    }
}

/// Delivers those that have stood there for long.
async fn deliver_left(core: &Core, consumer: &Consumer) -> Result<(), Fault> {
    let on = core.client.connection(&consumer.queue).await?;
    let now = core.clock.unix_ms();
    // A lease begins with a token, which is the time in us; the other notes have none.
    let is_old = |lease: &str| {
        let token = lease.split('.').next().and_then(|token| token.parse::<u64>().ok());
        token.is_none_or(|token| now.saturating_sub(token / 1_000) > LEFT_AFTER_MS)
    };
    let (mut cursor, mut untold) = (0, Ok(()));
    loop {
        let (next, mut notes) = consumer.queue.read_notes(&on, cursor).await?;
        notes.retain(|(lease, _)| is_old(lease));
        if !notes.is_empty() {
            untold = untold.and(deliver(&core.client, &consumer.queue, &notes).await);
        }
        cursor = next;
        if cursor == 0 {
            return untold;
        }
    }
}
