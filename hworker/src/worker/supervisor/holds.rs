//! Frees limits that no lease holds: somebody removed their leases by hand.

use std::collections::HashSet;

use crate::log::say;
use crate::store::{Connection, Fault, Lease, Queue};

/// Looks at what has held a limit for longer than so many ms. What is younger may have been freed since it was read.
const OLDER_MS: u64 = 60_000;

/// Once a minute, after a heartbeat of the worker that keeps the timer.
pub(crate) async fn free_left(queue: &Queue, on: &Connection, now: u64) -> Result<(), Fault> {
    // First what is held, then the leases: one that ends in between frees the limit itself, and a lease never comes again.
    let mut held = queue.held_since_before(on, now.saturating_sub(OLDER_MS)).await?;
    if held.is_empty() {
        return Ok(());
    }
    for worker in queue.worker_ids(on).await? {
        let leases = match queue.leases(on, &queue.keys.worker(&worker)).await {
            // Somebody made the key another type: there are no leases in it.
            Err(fault) if fault.is_of_another_type() => continue,
            leases => leases?,
        };
        let tokens: HashSet<_> = leases.iter().map(Lease::token).collect();
        held.retain(|(_, token)| !tokens.contains(token));
    }
    let left: Vec<_> = held.into_iter().map(|(member, _)| member).collect();
    let freed = queue.free(on, &left).await?;
    if freed > 0 {
        say!(WARN, { queue = queue.name.clone() }, job.queue = %queue, freed, "limits were held by leases that are gone, and are free again");
    }
    Ok(())
}
