//! Orders to batches: seal, cancel, pause and resume.

use super::tell::{catch_up, connection};
use crate::client::Client;
use crate::store::{BatchOrdered, Fault, Queue, children_of, order_batch};

/// After so long a queue is looked at of which a batch was stopped, or goes on.
pub(super) const LOOK_MS: u64 = 10_000;

/// Gives an order to a batch, and has the workers of its queues know; `None` where there is none. Whoever looks after it does the rest where this is
/// cut off.
pub(crate) async fn order(
    client: &Client,
    batch: &str,
    order: &str,
) -> Result<Option<BatchOrdered>, Fault> {
    let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
    let Some(ordered) = order_batch(&on, &keys, order).await? else { return Ok(None) };
    let (stop, holds) = match order {
        "cancel" => (Some("cancelled"), ["cancelled", "abandoned"]),
        "pause" => (Some("paused"), ["paused", "paused"]),
        "resume" => (Some(""), ["open", "sealed"]),
        _ => (None, ["sealed", "sealed"]),
    };
    if ordered.is_changed || holds.contains(&ordered.state.as_str()) {
        for label in stop.and(Some(&ordered.queues)).into_iter().flatten() {
            spread(client, label, batch, stop.unwrap_or_default()).await?;
        }
        if order == "cancel" {
            cancel_children(client, batch).await?;
        }
        catch_up(client, batch).await?;
    }
    Ok(Some(ordered))
}

/// Has workers of a queue know how a batch is stopped.
pub(super) async fn spread(
    client: &Client,
    label: &str,
    batch: &str,
    stop: &str,
) -> Result<(), Fault> {
    let queue = Queue::of_label(client.key_space(), label, client.limits());
    let on = client.connection(&queue).await?;
    while queue.stop_batch(&on, batch, stop, Some(LOOK_MS)).await? > 0 {}
    Ok(())
}

/// Cancels the batches that are members of this one.
pub(super) async fn cancel_children(client: &Client, batch: &str) -> Result<(), Fault> {
    let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
    let mut cursor = 0;
    loop {
        let (next, children) = children_of(&on, &keys, cursor).await?;
        for (_, child) in children {
            Box::pin(order(client, &child, "cancel")).await?;
        }
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
    }
}
