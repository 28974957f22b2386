//! Delivers the notes of a queue: those that this worker wrote at once, and those that somebody left, as where their worker died, where it keeps
//! the timer. That one looks after batches too.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::state::{Consumer, Core};
use crate::log::say;
use crate::relay::{deliver, mind};
use crate::store::{Connection, Fault};

/// After so long it is assumed that the worker that wrote a note does not deliver it.
const LEFT_AFTER_MS: u64 = 5_000;

/// The pause after a fault.
const PAUSE: Duration = Duration::from_millis(500);

/// After so many refusals of its batch a note is put aside.
const REFUSALS: u32 = 10;

/// Delivers notes until the session ends, and looks after batches.
pub(crate) async fn run(core: Arc<Core>, consumer: Arc<Consumer>) {
    let mut refusals = HashMap::new();
    loop {
        consumer.notes.told.notified().await;
        let written = consumer.notes.take();
        // What is not delivered stands at the server, and is found there with what others left.
        if !written.is_empty() {
            let delivered = deliver(&core.client, &consumer.queue, &written).await;
            let fault = delivered.map_or_else(Some, |delivered| delivered.fault);
            if let Some(fault) = fault {
                say!(DEBUG, { queue = consumer.queue.name.clone() },
                    job.queue = %queue, "a batch is not told yet of members that have ended, trying again: {fault}");
                sleep(PAUSE).await;
            }
        }
        if consumer.notes.take_left()
            && let Err(fault) = deliver_left(&core, &consumer, &mut refusals).await
        {
            say!(DEBUG, { queue = consumer.queue.name.clone() },
                job.queue = %queue, "notes that others left are not delivered yet, trying again: {fault}");
        }
        for batch in consumer.notes.take_batches() {
            if let Err(fault) = mind(&core.client, &consumer.queue, &batch).await {
                say!(DEBUG, { queue = consumer.queue.name.clone() },
                    job.queue = %queue, "a batch is not looked after yet, trying again: {fault}");
            }
        }
    }
}

/// Delivers those that have stood there for long.
async fn deliver_left(
    core: &Core,
    consumer: &Consumer,
    refusals: &mut HashMap<String, u32>,
) -> Result<(), Fault> {
    let on = core.client.connection(&consumer.queue).await?;
    let now = core.clock.unix_ms();
    // A lease begins with a token, which is the time in us; the other notes have none.
    let is_old = |lease: &str| {
        let token = lease.split('.').next().and_then(|token| token.parse::<u64>().ok());
        token.is_none_or(|token| now.saturating_sub(token / 1_000) > LEFT_AFTER_MS)
    };
    let (mut cursor, mut untold, mut refused) = (0, None, Vec::new());
    loop {
        let (next, mut notes) = consumer.queue.read_notes(&on, cursor).await?;
        notes.retain(|(lease, _)| is_old(lease));
        if !notes.is_empty() {
            let delivered = deliver(&core.client, &consumer.queue, &notes).await?;
            untold = untold.or(delivered.fault);
            refused.extend(delivered.refused);
        }
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    put_aside(consumer, &on, refused, refusals).await?;
    untold.map_or(Ok(()), Err)
}

/// Puts notes aside that their batch refused again and again: a key is of another type.
async fn put_aside(
    consumer: &Consumer,
    on: &Connection,
    refused: Vec<(String, String)>,
    refusals: &mut HashMap<String, u32>,
) -> Result<(), Fault> {
    // What was delivered meanwhile is forgotten.
    refusals.retain(|lease, _| refused.iter().any(|(other, _)| other == lease));
    let mut again_and_again = Vec::new();
    for note in refused {
        let times = refusals.entry(note.0.clone()).or_default();
        *times += 1;
        if *times >= REFUSALS {
            again_and_again.push(note);
        }
    }
    if again_and_again.is_empty() {
        return Ok(());
    }
    let notes = again_and_again.len();
    say!(WARN, { queue = consumer.queue.name.clone() },
        job.queue = %queue, notes, "notes of ended jobs are put aside, as the keys of their batches are of another type");
    for some in again_and_again.chunks(500) {
        consumer.queue.set_undelivered(on, some).await?;
    }
    Ok(())
}
