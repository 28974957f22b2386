//! The timer of a queue: the process that keeps it promotes scheduled jobs when they are due, and fires what runs again and again.

use std::time::Duration;

#[cfg(feature = "cron")]
use crate::log::say;
#[cfg(feature = "cron")]
use crate::store::FaultKind;
use crate::store::{Connection, Fault, Promoted, Queue};

/// The bell is awaited at most so long at a time.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Promotes some of what is due, and fires the entries that are due.
pub(crate) async fn promote(queue: &Queue, on: &Connection) -> Result<Promoted, Fault> {
    let promoted = queue.promote(on).await?;
    #[cfg(feature = "cron")]
    for due in &promoted.entries {
        match crate::cron::fire(queue, on, due, promoted.now).await {
            Err(fault) if fault.kind == FaultKind::Connection => return Err(fault),
            // One that cannot run holds up no other. It is told of again.
            Err(fault) => {
                let (name, fault) = (due.name.clone(), fault.to_string());
                say!(WARN, { queue = queue.name.clone() }, %queue, entry = name, "a cron entry that is due could not run: {fault}");
            }
            Ok(()) => {}
        }
    }
    Ok(promoted)
}

/// Promotes everything that is due, in chunks; gives how long until the next is due.
async fn promote_due(queue: &Queue, on: &Connection) -> Result<Option<Duration>, Fault> {
    loop {
        let promoted = promote(queue, on).await?;
        match promoted.next_due {
            Some(next_due) if promoted.moved > 0 && next_due.is_zero() => {}
            next_due => return Ok(next_due),
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
