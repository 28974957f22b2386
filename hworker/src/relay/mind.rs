//! Looks after batches: does what those left undone that began it.

use std::collections::BTreeSet;

use super::grow::give_up;
use super::order::{LOOK_MS, cancel_children, spread};
use super::tell::{catch_up, connection, repeated};
use crate::client::Client;
use crate::store::{Fault, Queue, mind_batch};

/// What was to be added is given up after so long.
const ADDS_FOR_MS: u64 = 60_000;

/// One that is open and did not grow for so long is cancelled.
const OPEN_FOR_MS: u64 = 3_600_000;

/// One of which there is nothing to do is looked at so often.
const CALM_MS: u64 = 60_000;

/// Has a batch looked after from a queue, before it begins.
pub(crate) async fn look_after(client: &Client, home: &Queue, batch: &str) -> Result<(), Fault> {
    repeated(async || {
        let on = client.connection(home).await?;
        home.stop_batch(&on, batch, "", Some(CALM_MS)).await.map(drop)
    })
    .await
}

/// The batches that are looked after, at most so many.
pub(crate) async fn list(client: &Client, at_most: usize) -> Result<BTreeSet<String>, Fault> {
    let mut all = BTreeSet::new();
    for name in client.queue_names().await? {
        for shard in client.shards(&name, client.limits()) {
            let on = client.connection_to_inspect(&shard).await?;
            let left = at_most.saturating_sub(all.len());
            if left > 0 {
                all.extend(shard.read_batches(&on, at_most).await?.into_iter().take(left));
            }
        }
    }
    Ok(all)
}

/// Looks after a batch from a queue: gives up what nobody adds any more, cancels it where nobody goes on with it, does what is due, and has workers of
/// the queue know how it is stopped.
pub(crate) async fn mind(client: &Client, queue: &Queue, batch: &str) -> Result<(), Fault> {
    let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
    let minded = mind_batch(&on, &keys, (ADDS_FOR_MS, OPEN_FOR_MS)).await?;
    let (mut stop, mut look) = (String::new(), None);
    if let Some(minded) = minded {
        for (name, first, says) in &minded.left {
            give_up(client, batch, name, *first, says).await?;
        }
        catch_up(client, batch).await?;
        if !minded.is_done {
            let is_calm = minded.stop.is_empty() && minded.left.is_empty();
            look = Some(if is_calm { CALM_MS } else { LOOK_MS });
            if minded.stop == "cancelled" && minded.children > 0 {
                cancel_children(client, batch).await?;
            }
            if !minded.stop.is_empty() {
                for label in minded.queues.iter().filter(|label| **label != *queue.label) {
                    spread(client, label, batch, &minded.stop).await?;
                }
            }
            stop = minded.stop;
        }
    }
    let on = client.connection(queue).await?;
    while queue.stop_batch(&on, batch, &stop, look).await? > 0 {}
    Ok(())
}
