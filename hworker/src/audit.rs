//! What people did by hand: every action of a tool stands here, before it is done and after.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::client::Client;
use crate::error::Error;
use crate::store::{Fault, MetaKey};

/// An entry of the audit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct AuditEntry {
    /// Its id in the stream, which begins with when it was written in milliseconds since 1970 by the server's clock.
    pub id: String,
    /// Who did it, as the tool knows him: a user's name and host.
    pub who: String,
    /// What was done, as `retry` or `delete`.
    pub action: String,
    /// The queue, where it was one.
    pub queue: String,
    /// To which jobs: ids or a filter, never arguments.
    pub what: String,
    /// `asked` before it is done; then what came of it.
    pub result: String,
}

impl AuditEntry {
    /// An action that somebody is about to do.
    #[must_use]
    pub fn new(
        who: impl Into<String>,
        action: impl Into<String>,
        queue: impl Into<String>,
        what: impl Into<String>,
    ) -> Self {
        Self {
            id: String::new(),
            who: who.into(),
            action: action.into(),
            queue: queue.into(),
            what: what.into(),
            result: "asked".into(),
        }
    }

    /// The same with what came of it.
    #[must_use]
    pub fn with_result(mut self, result: impl Into<String>) -> Self {
        self.result = result.into();
        self
    }

    fn fields(&self) -> [(&'static str, &str); 5] {
        [
            ("who", &self.who),
            ("action", &self.action),
            ("queue", &self.queue),
            ("what", &self.what),
            ("result", &self.result),
        ]
    }

    fn of(id: String, mut fields: BTreeMap<String, String>) -> Self {
        let mut field = |name: &str| fields.remove(name).unwrap_or_default();
        Self {
            who: field("who"),
            action: field("action"),
            queue: field("queue"),
            what: field("what"),
            result: field("result"),
            id,
        }
    }
}

impl Client {
    /// Writes down an action. A tool that cannot does nothing.
    ///
    /// # Errors
    /// Where the server does not take it.
    pub async fn audit(&self, entry: &AuditEntry) -> Result<(), Error> {
        let written = async {
            let (meta, on) = self.meta(MetaKey::Audit).await?;
            meta.write_audit(&on, &entry.fields()).await
        };
        written.await.map_err(|fault: Fault| fault.into_error("write to the audit"))
    }

    /// The latest entries of the audit, the newest first, at most 1,000. Ten thousand are kept.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn audit_log(&self, count: usize) -> Result<Vec<AuditEntry>, Error> {
        let read = async {
            let (meta, on) = self.meta(MetaKey::Audit).await?;
            meta.read_audit(&on, count.clamp(1, 1000)).await
        };
        let entries = read.await.map_err(|fault: Fault| fault.into_error("read the audit"))?;
        Ok(entries.into_iter().map(|(id, fields)| AuditEntry::of(id, fields)).collect())
    }
}
