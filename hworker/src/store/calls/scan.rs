//! Reads of large keys in portions.

use redis::Value;

use crate::store::CALL_WITHIN;
use crate::store::net::{Connection, Fault};
use crate::store::reply::{Reply, bytes};

/// Keys that one `SCAN` looks at.
pub(super) const SCAN: usize = 1000;

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
    let (mut cursor, mut portion) = ("0".to_owned(), Portion::new());
    loop {
        let mut scan = redis::cmd("HSCAN");
        scan.arg(key).arg(&cursor).arg("COUNT").arg(portion.count());
        let fields;
        (cursor, fields) = scanned(on.call(&scan, CALL_WITHIN).await?)?;
        let mut fields = Reply::list("HSCAN", fields)?;
        let mut largest = 0;
        while fields.left() > 0 {
            let (field, value) = (fields.bytes()?, fields.bytes()?);
            largest = largest.max(field.len() + value.len());
            entries.insert(field, value);
        }
        portion.came([largest]);
        if cursor == "0" {
            return Ok(entries.into_iter().collect());
        }
    }
}

pub(super) fn scanned(reply: Value) -> Result<(String, Value), Fault> {
    let Value::Array(parts) = reply else { return Err(Fault::reply("SCAN", "not a list")) };
    let mut parts = parts.into_iter();
    let cursor = bytes("SCAN", parts.next().unwrap_or_default())?;
    Ok((String::from_utf8_lossy(&cursor).into(), parts.next().unwrap_or_default()))
}

pub(super) fn list(reply: Value) -> Result<Vec<Vec<u8>>, Fault> {
    let mut reply = Reply::list("a list", reply)?;
    let mut values = Vec::with_capacity(reply.left());
    while reply.left() > 0 {
        values.push(reply.bytes()?);
    }
    Ok(values)
}

pub(super) fn pairs(reply: Value) -> Result<Vec<(String, String)>, Fault> {
    let mut reply = Reply::list("a hash", reply)?;
    let mut pairs = Vec::with_capacity(reply.left() / 2);
    while reply.left() > 0 {
        pairs.push((reply.text()?, reply.text()?));
    }
    Ok(pairs)
}
