//! Delivers notes: what became of the members of batches, which stands beside the queue in which that was decided until everything that follows
//! from it is at the server. Each step may be repeated, by anyone, and does nothing then.

use std::collections::{BTreeMap, BTreeSet};

mod grow;
mod mind;
mod order;
mod tell;

use self::tell::{connection, follow, tell};
use crate::client::Client;
use crate::store::{Fault, Queue, adding_of, children_of, done_bits, read_batch, recount_batch};

pub(crate) use self::grow::{Says, Where, abandon, added, child, give_up, given_up, numbers};
pub(crate) use self::mind::{list, look_after, mind};
pub(crate) use self::order::order;
pub(crate) use self::tell::{Note, batch_of_member, create, is_id, place};
pub(crate) use crate::store::{BatchEntry, Begun, Given};

/// A call tells a batch of so many members.
pub(crate) const AT_A_TIME: usize = 250;

/// What became of notes.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    /// Why some are not delivered; the first of several.
    pub(crate) fault: Option<Fault>,
    /// Those of batches that refused them: a key is of another type.
    pub(crate) refused: Vec<(String, String)>,
}

/// Delivers notes of this queue, by their leases, and drops those of which everything that follows from it is in. A batch that cannot be told, as its
/// server is away or its key is of another type, holds up no other.
pub(crate) async fn deliver(
    client: &Client,
    queue: &Queue,
    notes: &[(String, String)],
) -> Result<Delivered, Fault> {
    let mut by_batch = BTreeMap::<_, Vec<_>>::new();
    let mut dropped = Vec::new();
    for (lease, text) in notes {
        match Note::parse(text) {
            Some(note) => by_batch.entry(note.batch).or_default().push((lease, note)),
            // Nobody can be told of it.
            None => dropped.push(lease.clone()),
        }
    }
    let mut delivered = Delivered::default();
    for (batch, notes) in by_batch {
        for some in notes.chunks(AT_A_TIME) {
            match tell(client, batch, some.iter().map(|(_, note)| *note)).await {
                Ok(()) => dropped.extend(some.iter().map(|(lease, _)| (*lease).clone())),
                Err(fault) => {
                    if fault.is_of_another_type() {
                        let text =
                            |(lease, note): &(&String, Note<'_>)| ((*lease).clone(), note.text());
                        delivered.refused.extend(some.iter().map(text));
                    }
                    delivered.fault.get_or_insert(fault);
                    break;
                }
            }
        }
    }
    let on = client.connection(queue).await?;
    for some in dropped.chunks(1_000) {
        queue.drop_notes(&on, some).await?;
    }
    Ok(delivered)
}

/// What there is of a batch.
pub(crate) async fn read(client: &Client, batch: &str) -> Result<Option<BatchEntry>, Fault> {
    let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
    read_batch(&on, &keys).await
}

/// Seals a batch: no more members follow from outside. By a note at this queue, so that it is done whatever happens here after that was written.
pub(crate) async fn seal(client: &Client, home: &Queue, batch: &str) -> Result<(), Fault> {
    let lease = format!("seal.{batch}");
    let note = Note { batch, which: "seal", is_good: true, how: "-", id: "-" }.text();
    let on = client.connection(home).await?;
    home.add_note(&on, &lease, &note).await?;
    // A worker does it where this fails.
    let _ = deliver(client, home, &[(lease, note)]).await;
    Ok(())
}

/// Has members count as ended that are nowhere any more, counts all anew, and does what is due.
pub(crate) async fn repair(client: &Client, batch: &str, lost: &[u64]) -> Result<(), Fault> {
    for some in lost.chunks(AT_A_TIME) {
        let numbers: Vec<_> = some.iter().map(u64::to_string).collect();
        let note = |which| Note { batch, which, is_good: false, how: "lost", id: "-" };
        tell(client, batch, numbers.iter().map(|number| note(number.as_str()))).await?;
    }
    let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
    let due = recount_batch(&on, &keys).await?;
    follow(client, batch, due).await
}

/// The number of a member of this batch of which a note tells.
pub(crate) fn noted(text: &str, batch: &str) -> Option<u64> {
    Note::parse(text).filter(|note| note.batch == batch)?.which.parse().ok()
}

/// The numbers of members that have not ended: jobs that are in, and batches that are gone.
pub(crate) async fn unended(
    client: &Client,
    batch: &str,
    entry: &BatchEntry,
) -> Result<BTreeSet<u64>, Fault> {
    let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
    let done = done_bits(&on, &keys).await?;
    let has_ended = |number: &u64| {
        let byte = done.get((number / 8) as usize).copied().unwrap_or(0);
        byte & (0x80 >> (number % 8)) != 0
    };
    let mut unended: BTreeSet<u64> = (0..entry.given).filter(|number| !has_ended(number)).collect();
    // What is being added is looked after.
    for (first, count) in adding_of(&on, &keys).await? {
        unended.retain(|number| !(first..first + count).contains(number));
    }
    let mut cursor = 0;
    loop {
        let (next, children) = children_of(&on, &keys, cursor).await?;
        for (number, child) in children {
            if unended.contains(&number) && read(client, &child).await?.is_some() {
                unended.remove(&number);
            }
        }
        cursor = next;
        if cursor == 0 {
            return Ok(unended);
        }
    }
}
