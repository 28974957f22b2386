//! `SCAN` in portions.

use redis::ToRedisArgs;

use crate::store::net::{Connection, Fault};
use crate::store::reply::Reply;

/// Keys that one `SCAN` looks at.
pub(super) const SCAN: usize = 1000;

/// A cursor over the keys of a server.
pub(super) struct Scan {
    /// Of the next portion; none after the last.
    cursor: Option<String>,
}

impl Scan {
    pub(super) fn new() -> Self {
        Self { cursor: Some("0".into()) }
    }

    /// Reads the next portion, with these options.
    pub(super) async fn next(
        &mut self,
        on: &Connection,
        options: impl ToRedisArgs,
    ) -> Result<Option<Reply>, Fault> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let mut reply = on.ask("SCAN", (cursor, options)).await?;
        self.cursor = Some(reply.text()?).filter(|cursor| cursor != "0");
        reply.list().map(Some)
    }
}
