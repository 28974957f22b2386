//! Delivers notes: what became of the members of batches, which stands beside the queue in which that was decided until everything that follows
//! from it is at the server. Each step may be repeated, by anyone, and does nothing then.

use std::collections::{BTreeMap, BTreeSet};

mod grow;
mod mind;
mod order;

use crate::client::Client;
use crate::envelope::belongs;
use crate::shards;
use crate::store::{
    Connection, DueCallback, Fault, FaultKind, NewBatch, Queue, adding_of, apply_batch,
    children_of, create_batch, did_batch, done_bits, read_batch, recount_batch,
};

pub(crate) use self::grow::{Says, Where, abandon, added, child, give_up, given_up, numbers};
pub(crate) use self::mind::{list, look_after, mind};
pub(crate) use self::order::order;
pub(crate) use crate::store::{BatchEntry, Begun, Given};

/// A call whose answer is lost is sent so often.
const TRIES: usize = 3;

/// A call tells a batch of so many members.
pub(crate) const AT_A_TIME: usize = 250;

/// A note, as it stands at the server: `<batch> <which> <good or bad> <how> <id>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Note<'a> {
    pub(crate) batch: &'a str,
    /// The number of the member; of a callback `c` and its place, or `seal`.
    pub(crate) which: &'a str,
    pub(crate) is_good: bool,
    /// In a word. Of `seal`, how many members there are.
    pub(crate) how: &'a str,
    pub(crate) id: &'a str,
}

impl<'a> Note<'a> {
    /// Of what belongs to a batch in this way, which is the field `of` of its envelope; `None` where that says no such thing.
    pub(crate) fn of(of: &'a str, is_good: bool, how: &'a str, id: &'a str) -> Option<Self> {
        let (batch, which) = place(of)?;
        Some(Self { batch, which, is_good, how, id })
    }

    /// What the batch of a payload is to be told that did not end well, if it has one.
    pub(crate) fn of_payload(payload: &[u8], how: &str) -> Option<String> {
        let (id, of) = belongs(payload)?;
        Some(Note::of(&of, false, how, id.as_str())?.text())
    }

    pub(crate) fn text(&self) -> String {
        let Self { batch, which, is_good, how, id } = self;
        let good = if *is_good { "good" } else { "bad" };
        format!("{batch} {which} {good} {how} {id}")
    }

    fn parse(text: &'a str) -> Option<Self> {
        let mut words = text.splitn(5, ' ');
        let mut word = || words.next();
        let (batch, which, good, how) = (word()?, word()?, word()?, word()?);
        let id = word()?;
        is_id(batch).then_some(Self { batch, which, is_good: good == "good", how, id })
    }
}

/// The batch to which something belongs by the field `of` of its envelope, and as what: a number, or `c` and the place of a callback.
pub(crate) fn place(of: &str) -> Option<(&str, &str)> {
    let (batch, which) = of.strip_prefix("b.")?.split_once('.')?;
    let is_number = |text: &str| {
        (1..=8).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_callback = |text: &str| matches!(text, "c0" | "c1" | "c2");
    (is_id(batch) && (is_number(which) || is_callback(which))).then_some((batch, which))
}

/// The batch of which this is a member, by the field `of` of its envelope.
pub(crate) fn batch_of_member(of: &str) -> Option<&str> {
    place(of).filter(|(_, which)| !which.starts_with('c')).map(|(batch, _)| batch)
}

/// Whether this is the id of a batch: 32 hexadecimal digits.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

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

/// Tells a batch, and does what follows.
async fn tell(
    client: &Client,
    batch: &str,
    notes: impl Iterator<Item = Note<'_>>,
) -> Result<(), Fault> {
    let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
    let word = |is_good| if is_good { "good" } else { "bad" };
    let ends = notes.map(|note| [note.which, word(note.is_good), note.how, note.id]);
    let due = apply_batch(&on, &keys, ends).await?;
    follow(client, batch, due).await
}

/// Enqueues the callbacks that are due of a batch, and tells its parent where it has ended.
async fn follow(client: &Client, batch: &str, mut due: Vec<DueCallback>) -> Result<(), Fault> {
    while !due.is_empty() {
        for callback in &due {
            if let Some(is_good) = callback.of_parent() {
                let (parent, which, how) = (&callback.queue, &callback.list, &callback.at_once);
                if is_id(parent) {
                    let note = Note { batch: parent, which, is_good, how, id: batch };
                    Box::pin(tell(client, parent, std::iter::once(note))).await?;
                }
                continue;
            }
            let queue = Queue::of_label(client.key_space(), &callback.queue, client.limits());
            let on = client.connection(&queue).await?;
            queue.push_callback(&on, batch, callback).await?;
        }
        let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
        due = did_batch(&on, &keys, due.iter().map(|callback| &*callback.name)).await?;
    }
    Ok(())
}

/// Does what follows from a batch, whoever made it due.
async fn catch_up(client: &Client, batch: &str) -> Result<(), Fault> {
    let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
    let due = did_batch(&on, &keys, std::iter::empty()).await?;
    follow(client, batch, due).await
}

/// The connection to the server of a batch.
async fn connection(client: &Client, batch: &str) -> Result<Connection, Fault> {
    client.connection_to_slot(shards::slot(batch)).await
}

/// Repeats a call whose answer was lost, which does nothing more if it was executed.
async fn repeated<T, F>(call: impl Fn() -> F) -> Result<T, Fault>
where
    F: Future<Output = Result<T, Fault>>,
{
    let mut tries = 0;
    loop {
        tries += 1;
        let done = call().await;
        let is_lost =
            |fault: &Fault| matches!(fault.kind, FaultKind::Connection | FaultKind::Silent);
        if tries == TRIES || !done.as_ref().is_err_and(is_lost) {
            return done;
        }
    }
}

/// Begins a batch, unless there is one.
pub(crate) async fn create(client: &Client, batch: &str, new: &NewBatch) -> Result<Begun, Fault> {
    repeated(async || {
        let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
        create_batch(&on, &keys, new).await
    })
    .await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let batch = "0190a6c2f3d47b8e9a1b2c3d4e5f6071";
        for which in ["0", "9999999", "c0", "c2"] {
            let of = format!("b.{batch}.{which}");
            let note = Note::of(&of, false, "failed", "an id").expect("it belongs to a batch");
            assert_eq!(Note::parse(&note.text()), Some(note));
        }
        for wrong in ["", "b.", "b.x.1", "f.0190a6c2f3d47b8e9a1b2c3d4e5f6071.1"] {
            assert_eq!(Note::of(wrong, true, "done", "id"), None, "{wrong}");
        }
        for which in ["", "c3", "-1", "123456789", "1 2", "seal"] {
            assert_eq!(
                Note::of(&format!("b.{batch}.{which}"), true, "done", "id"),
                None,
                "{which}"
            );
        }
        assert_eq!(Note::parse("no note"), None);
    }
}
