//! What programs declare in their code, and which of it is in force.

use serde::Serialize;

use super::Control;
use crate::error::Error;
use crate::store::server_time;

/// What a program declares in its code on a queue, limits and cron entries, as the server knows it: a name and a hash. [`Control::tables`] lists
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct TableInfo {
    /// The name of the program.
    pub app: String,
    /// Of all that it declares.
    pub hash: String,
    /// When the server first saw it, in milliseconds since 1970.
    pub first_seen: u64,
    /// When a worker told of it last, in the same.
    pub last_seen: u64,
    /// Whether a worker lives that has it.
    pub is_live: bool,
    /// Whether it is in force.
    pub in_force: bool,
    /// Whether the program is held at it.
    pub is_pinned: bool,
}

impl Control {
    /// What programs declare on the queue. Of the tables of one program that live, the one that the server saw first the latest is in force.
    ///
    /// # Errors
    /// [`Error::Config`] for a name of the queue that is none; else where the server cannot be asked.
    pub async fn tables(&self) -> Result<Vec<TableInfo>, Error> {
        let mut tables = Vec::new();
        for shard in self.shards()?.into_iter().take(1) {
            let read = async {
                let on = self.client.connection_to_inspect(&shard).await?;
                let now = server_time(&on).await?;
                shard.tables(&on, now).await
            };
            let known = read.await.map_err(|fault| self.error("list the tables of", fault))?;
            tables.extend(known.into_iter().map(|((app, hash), table)| TableInfo {
                app,
                hash,
                first_seen: table.first,
                last_seen: table.seen,
                is_live: table.is_live,
                in_force: table.in_force,
                is_pinned: table.pinned,
            }));
        }
        Ok(tables)
    }

    /// Holds a program at one of its tables, as while a canary runs beside the others: newer ones come into force once it is
    /// [unpinned](Self::unpin_table). One that is not in force comes into force within two seconds, if a worker lives that has it.
    ///
    /// # Errors
    /// [`Error::NotFound`] where the server knows no such table; [`Error::Unanswered`] where the answer was lost; else as
    /// [`tables`](Self::tables).
    pub async fn pin_table(&self, app: &str, hash: &str) -> Result<(), Error> {
        let known = self.tables().await?;
        if !known.iter().any(|table| table.app == app && table.hash == hash) {
            let what = format!("a table {hash} of a program {app} on the queue {}", self.name);
            return Err(Error::NotFound { what });
        }
        self.pin(app, Some(hash)).await.map(drop)
    }

    /// Has the newest table of a program be in force again; false where it was not pinned.
    ///
    /// # Errors
    /// As [`pin_table`](Self::pin_table).
    pub async fn unpin_table(&self, app: &str) -> Result<bool, Error> {
        self.pin(app, None).await
    }

    async fn pin(&self, app: &str, hash: Option<&str>) -> Result<bool, Error> {
        let mut changed = false;
        for shard in self.shards()? {
            let pinned = async {
                let on = self.client.connection(&shard).await?;
                shard.pin(&on, app, hash).await
            };
            changed |= pinned.await.map_err(|fault| self.error("pin a table of", fault))?;
        }
        Ok(changed)
    }
}
