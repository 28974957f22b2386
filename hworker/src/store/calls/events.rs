//! The stream of what happens to the jobs of a queue.

use redis::Value;

use crate::store::net::{Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;

/// About so many entries are kept.
pub(super) const KEPT: u64 = 4_000;

/// An entry has no more bytes than this, but for one line that is larger.
const ENTRY_BYTES: usize = 16 * 1024;

/// An entry of the stream.
#[derive(Debug, Default)]
pub(crate) struct EventEntry {
    /// When it was written, in ms, and its number among those of that time.
    pub(crate) id: (u64, u64),
    /// Who wrote it: a worker, or nobody.
    pub(crate) worker: String,
    /// Some of what it tells did not count.
    pub(crate) unsure: bool,
    /// Its lines.
    pub(crate) text: String,
}

impl Queue {
    /// Writes these lines.
    pub(crate) async fn tell_events(
        &self,
        on: &Connection,
        worker: &str,
        lines: &[String],
    ) -> Result<(), Fault> {
        let key = self.keys.events();
        for text in together(lines.iter().map(String::as_str)) {
            let entry = (&key, ("MAXLEN", "~", KEPT, "*"), ("w", worker, "e", text));
            on.ask("XADD", entry).await?;
        }
        Ok(())
    }

    /// So many entries, from this one on.
    pub(crate) async fn read_events(
        &self,
        on: &Connection,
        (ms, number): (u64, u64),
        count: usize,
    ) -> Result<Vec<EventEntry>, Fault> {
        let from = format!("{ms}-{number}");
        let reply = on.ask("XRANGE", (self.keys.events(), from, "+", "COUNT", count)).await?;
        entries(reply)
    }

    /// The last entry, if there is any.
    pub(crate) async fn last_event(&self, on: &Connection) -> Result<Option<(u64, u64)>, Fault> {
        let reply = on.ask("XREVRANGE", (self.keys.events(), "+", "-", "COUNT", 1)).await?;
        Ok(entries(reply)?.first().map(|entry| entry.id))
    }
}

/// The texts of entries that have all these lines, in their order.
pub(super) fn together<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for line in lines {
        match texts.last_mut() {
            Some(last) if last.len() + line.len() < ENTRY_BYTES => {
                last.push('\n');
                last.push_str(line);
            }
            _ => texts.push(line.to_owned()),
        }
    }
    texts
}

fn entries(mut reply: Reply) -> Result<Vec<EventEntry>, Fault> {
    reply.rest(|reply| {
        let mut entry = reply.list()?;
        let id = entry.text()?;
        let id = id
            .split_once('-')
            .and_then(|(ms, number)| Some((ms.parse().ok()?, number.parse().ok()?)));
        let id = id.ok_or_else(|| entry.fault("no id of an entry"))?;
        let mut read = EventEntry { id, ..EventEntry::default() };
        // One that was deleted while it was read has none.
        let Value::Array(fields) = entry.value()? else { return Ok(read) };
        let mut texts = fields.iter().map(|field| match field {
            Value::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        });
        while let (Some(field), Some(value)) = (texts.next(), texts.next()) {
            match &*field {
                "w" => read.worker = value,
                "u" => read.unsure = value != "0",
                "e" => read.text = value,
                _ => {}
            }
        }
        Ok(read)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_to_their_bound() {
        let (long, short) = ("x".repeat(ENTRY_BYTES * 2), "y".repeat(1_000));
        let lines = [&*short, &short, &long, &short].into_iter().chain([&*short; 20]);
        let texts = together(lines);
        assert_eq!(texts.iter().map(|text| text.lines().count()).sum::<usize>(), 24);
        assert!(
            texts.iter().filter(|text| text.len() > ENTRY_BYTES).count() == 1,
            "one that is larger stands alone"
        );
        assert_eq!(texts[1], long);
    }
}
