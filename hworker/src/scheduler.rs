//! The timer of a queue: the process that keeps it promotes scheduled jobs when they are due.

use std::time::Duration;

use crate::store::{Connection, Fault, Queue};

/// The bell is awaited at most so long at a time.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Promotes everything that is due, in chunks; gives how long until the next is due.
pub(crate) async fn promote_due(queue: &Queue, on: &Connection) -> Result<Option<Duration>, Fault> {
    loop {
        match queue.promote(on).await? {
            (0, next_due) => return Ok(next_due),
            (_, Some(next_due)) if next_due.is_zero() => {}
            (_, next_due) => return Ok(next_due),
        }
    }
}

/// Keeps the timer as long as the connection lasts: promotes, then waits until the next job is due or the bell says
/// that there is an earlier one.
pub(crate) async fn keep_timer(queue: &Queue, on: &Connection) -> Result<(), Fault> {
    loop {
        let next_due = promote_due(queue, on).await?;
        queue.await_bell(on, next_due.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)).await?;
    }
}
