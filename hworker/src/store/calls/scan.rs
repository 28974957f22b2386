//! Reads of large keys in portions.

use redis::ToRedisArgs;

use crate::store::net::{Connection, Fault};
use crate::store::reply::Reply;

/// A cursor over the keys of a server, or over the fields of a hash.
pub(super) struct Scan {
    command: &'static str,
    /// What stands before the cursor, and behind it.
    key: Option<String>,
    options: Vec<String>,
    /// Of the next portion; none after the last.
    cursor: Option<String>,
}

impl Scan {
    /// Over the keys that match, a thousand looked at at a time.
    pub(super) fn of_keys(pattern: String) -> Self {
        let options = vec!["COUNT".into(), "1000".into(), "MATCH".into(), pattern];
        Self { command: "SCAN", key: None, options, cursor: Some("0".into()) }
    }

    pub(super) fn of_hash(key: &str) -> Self {
        let (key, options) = (Some(key.into()), Vec::new());
        Self { command: "HSCAN", key, options, cursor: Some("0".into()) }
    }

    /// Reads the next portion, with these further options.
    pub(super) async fn next(
        &mut self,
        on: &Connection,
        options: impl ToRedisArgs,
    ) -> Result<Option<Reply>, Fault> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let mut reply = on.ask(self.command, (&self.key, cursor, &self.options, options)).await?;
        self.cursor = Some(reply.text()?).filter(|cursor| cursor != "0");
        reply.list().map(Some)
    }
}

/// How many payloads are asked for at once: so many that their bytes make a reply of some size, going by the largest that came
/// so far, and few at first.
#[derive(Debug)]
pub(crate) struct Portion {
    largest: usize,
    count: usize,
}

impl Portion {
    /// At first.
    pub(super) const FEW: usize = 16;
    /// At most.
    const MANY: usize = 2000;
    /// A reply of about so many bytes does not hold the server up.
    const BYTES: usize = 1 << 20;

    pub(crate) fn new() -> Self {
        Self { largest: 1, count: Self::FEW }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// A reply came, in which these have so many bytes.
    pub(crate) fn came(&mut self, sizes: impl IntoIterator<Item = usize>) {
        self.largest = sizes.into_iter().fold(self.largest, usize::max);
        // No more than four times as many: what comes next may be larger.
        let most = (4 * self.count).min(Self::MANY);
        self.count = (Self::BYTES / self.largest).clamp(1, most);
    }
}

pub(super) async fn scan_hash(
    on: &Connection,
    key: &str,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Fault> {
    // A hash may give a field twice while it is being rehashed.
    let mut entries = std::collections::BTreeMap::new();
    let (mut scan, mut portion) = (Scan::of_hash(key), Portion::new());
    while let Some(mut fields) = scan.next(on, ("COUNT", portion.count())).await? {
        let mut largest = 0;
        while fields.left() > 0 {
            let (field, value) = (fields.bytes()?, fields.bytes()?);
            largest = largest.max(field.len() + value.len());
            entries.insert(field, value);
        }
        portion.came([largest]);
    }
    Ok(entries.into_iter().collect())
}
