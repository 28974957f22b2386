//! Tells a batch what became of its members, and does what follows from that: callbacks, and what the batch above it is to be told.

use crate::client::Client;
use crate::envelope::belongs;
use crate::shards;
use crate::store::{
    Begun, Connection, DueCallback, Fault, FaultKind, NewBatch, Queue, apply_batch, create_batch,
    did_batch,
};

/// A call whose answer is lost is sent so often.
const TRIES: usize = 3;

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

    pub(super) fn parse(text: &'a str) -> Option<Self> {
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

/// Tells a batch, and does what follows.
pub(super) async fn tell(
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
pub(super) async fn follow(
    client: &Client,
    batch: &str,
    mut due: Vec<DueCallback>,
) -> Result<(), Fault> {
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
pub(super) async fn catch_up(client: &Client, batch: &str) -> Result<(), Fault> {
    let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
    let due = did_batch(&on, &keys, std::iter::empty()).await?;
    follow(client, batch, due).await
}

/// The connection to the server of a batch.
pub(super) async fn connection(client: &Client, batch: &str) -> Result<Connection, Fault> {
    client.connection_to_slot(shards::slot(batch)).await
}

/// Repeats a call whose answer was lost, which does nothing more if it was executed.
pub(super) async fn repeated<T, F>(call: impl Fn() -> F) -> Result<T, Fault>
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
