//! Delivers notes: what became of the members of batches, which stands beside the queue in which that was decided until everything that follows
//! from it is at the server. Each step may be repeated, by anyone, and does nothing then.

use std::collections::BTreeMap;

use crate::client::Client;
use crate::envelope::belongs;
use crate::shards;
use crate::store::{
    Connection, DueCallback, Fault, Queue, apply_batch, create_batch, did_batch, read_batch,
};

pub(crate) use crate::store::BatchEntry;

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
        let (batch, which) = of.strip_prefix("b.")?.split_once('.')?;
        let is_number = |text: &str| {
            (1..=8).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        let is_callback = |text: &str| matches!(text, "c0" | "c1" | "c2");
        let is_sound = is_id(batch) && (is_number(which) || is_callback(which));
        is_sound.then_some(Self { batch, which, is_good, how, id })
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

/// Whether this is the id of a batch: 32 hexadecimal digits.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Delivers notes of this queue, by their leases, and drops those of which everything that follows is in. A batch that cannot be told, as its server
/// is away or its key is of another type, holds up no other; the fault is that of the first.
pub(crate) async fn deliver(
    client: &Client,
    queue: &Queue,
    notes: &[(String, String)],
) -> Result<(), Fault> {
    let mut by_batch = BTreeMap::<_, Vec<_>>::new();
    let mut dropped = Vec::new();
    for (lease, text) in notes {
        match Note::parse(text) {
            Some(note) => by_batch.entry(note.batch).or_default().push((lease, note)),
            // Nobody can be told of it.
            None => dropped.push(lease.clone()),
        }
    }
    let mut untold = Ok(());
    for (batch, notes) in by_batch {
        for some in notes.chunks(AT_A_TIME) {
            match tell(client, batch, some.iter().map(|(_, note)| *note)).await {
                Ok(()) => dropped.extend(some.iter().map(|(lease, _)| (*lease).clone())),
                Err(fault) => {
                    untold = untold.and(Err(fault));
                    break;
                }
            }
        }
    }
    let on = client.connection(queue).await?;
    for some in dropped.chunks(1_000) {
        queue.drop_notes(&on, some).await?;
    }
    untold
}

/// Tells a batch, and enqueues the callbacks that follow.
async fn tell(
    client: &Client,
    batch: &str,
    notes: impl Iterator<Item = Note<'_>>,
) -> Result<(), Fault> {
    let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
    let word = |is_good| if is_good { "good" } else { "bad" };
    let ends = notes.map(|note| [note.which, word(note.is_good), note.how, note.id]);
    let mut due = apply_batch(&on, &keys, ends).await?;
    while !due.is_empty() {
        for callback in &due {
            let queue = Queue::of_label(client.key_space(), &callback.queue, client.limits());
            let on = client.connection(&queue).await?;
            queue.push_once(&on, batch, callback).await?;
        }
        due = did_batch(&on, &keys, due.iter().map(|callback| &*callback.name)).await?;
    }
    Ok(())
}

/// The connection to the server of a batch.
async fn connection(client: &Client, batch: &str) -> Result<Connection, Fault> {
    client.connection_to_slot(shards::slot(batch)).await
}

/// Begins a batch with these callbacks; false where there is one.
pub(crate) async fn create(
    client: &Client,
    batch: &str,
    name: &str,
    callbacks: &[DueCallback],
) -> Result<bool, Fault> {
    let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
    create_batch(&on, &keys, name, callbacks).await
}

/// What there is of a batch.
pub(crate) async fn read(client: &Client, batch: &str) -> Result<Option<BatchEntry>, Fault> {
    let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
    read_batch(&on, &keys).await
}

/// Seals a batch: no more members follow. By a note at this queue, so that it is done whatever happens here after that was written.
pub(crate) async fn seal(
    client: &Client,
    home: &Queue,
    batch: &str,
    total: usize,
) -> Result<(), Fault> {
    let (total, lease) = (total.to_string(), format!("seal.{batch}"));
    let note = Note { batch, which: "seal", is_good: true, how: &total, id: "-" }.text();
    let on = client.connection(home).await?;
    home.add_note(&on, &lease, &note).await?;
    // A worker does it where this fails.
    let _ = deliver(client, home, &[(lease, note)]).await;
    Ok(())
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
