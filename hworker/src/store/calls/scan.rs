//! Reads of large keys in portions.

use redis::ToRedisArgs;

use crate::store::net::{Connection, Fault};
use crate::store::reply::Reply;

/// Keys that one `SCAN` looks at.
pub(super) const SCAN: usize = 1000;

/// A cursor over the keys of a server, or over the fields of a hash.
pub(super) struct Scan {
    command: &'static str,
    hash: Option<String>,
    /// Of the next portion; none after the last.
    cursor: Option<String>,
}

impl Scan {
    pub(super) fn of_keys() -> Self {
        Self { command: "SCAN", hash: None, cursor: Some("0".into()) }
    }

    pub(super) fn of_hash(key: &str) -> Self {
        Self { command: "HSCAN", hash: Some(key.into()), ..Self::of_keys() }
    }

    /// Reads the next portion, with these options.
    pub(super) async fn next(
        &mut self,
        on: &Connection,
        options: impl ToRedisArgs,
    ) -> Result<Option<Reply>, Fault> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let mut reply = on.ask(self.command, (&self.hash, cursor, options)).await?;
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
    const FEW: usize = 1;
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
        let fields = fields.rest(|fields| Ok((fields.bytes()?, fields.bytes()?)))?;
        portion.came(fields.iter().map(|(field, value)| field.len() + value.len()));
        entries.extend(fields);
    }
    Ok(entries.into_iter().collect())
}
