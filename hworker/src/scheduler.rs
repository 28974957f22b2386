//! The timer of a queue: the process that keeps it promotes scheduled jobs when they are due, and fires cron entries.

use std::time::Duration;

use crate::store::{Connection, Fault, Promoted, Queue};

/// The bell is awaited at most so long at a time.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// What a process remembers of cron entries.
#[cfg(feature = "cron")]
pub(crate) type Notes = crate::cron::Notes;

/// It fires none.
#[cfg(not(feature = "cron"))]
#[derive(Debug, Default)]
pub(crate) struct Notes {}

/// Promotes some of what is due, and fires the cron entries that are due.
#[cfg(feature = "cron")]
pub(crate) async fn promote(
    queue: &Queue,
    on: &Connection,
    notes: &mut Notes,
) -> Result<Promoted, Fault> {
    let promoted = queue.promote(on, Some(&notes.left_to_others())).await?;
    for due in &promoted.entries {
        crate::cron::fire(queue, on, due, promoted.now, notes).await?;
    }
    Ok(promoted)
}

/// Promotes some of what is due. Cron entries are left to workers that fire them.
#[cfg(not(feature = "cron"))]
pub(crate) async fn promote(
    queue: &Queue,
    on: &Connection,
    _: &mut Notes,
) -> Result<Promoted, Fault> {
    queue.promote(on, None).await
}

/// Promotes everything that is due, in chunks; gives how long until the next is due.
async fn promote_due(
    queue: &Queue,
    on: &Connection,
    notes: &mut Notes,
) -> Result<Option<Duration>, Fault> {
    loop {
        let promoted = promote(queue, on, notes).await?;
        match promoted.next_due {
            Some(next_due) if promoted.moved > 0 && next_due.is_zero() => {}
            next_due => return Ok(next_due),
        }
    }
}

/// Keeps the timer as long as the connection lasts: promotes, then waits until the next job is due or the bell says
/// that there is an earlier one.
pub(crate) async fn keep_timer(queue: &Queue, on: &Connection) -> Result<(), Fault> {
    let mut notes = Notes::default();
    loop {
        let next_due = promote_due(queue, on, &mut notes).await?;
        queue.await_bell(on, next_due.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)).await?;
    }
}
