//! Checks the server before the first job, and again until it was reached once.

use super::Worker;
use crate::error::Error;
use crate::log::say;
use crate::reconnect::Reconnect;
use crate::store::{Connection, Fault, FaultKind, Queue, runs_scripts, server_info};

/// After this many tries in a row, about 15 s in all, a peer that takes connections and says nothing is not only busy.
const SILENT_TRIES: u32 = 4;

impl Worker {
    /// Checks the server before the first job. A server that cannot be used is an error; the worker waits for one that is not there yet.
    /// Returns whether it was reached.
    pub(super) async fn look_at_server(&self) -> Result<bool, Error> {
        let Some(queue) = &self.core.first_queue() else { return Ok(true) };
        let connection = match self.reach(queue).await {
            Ok(connection) => connection,
            Err(fault) if fault.kind == FaultKind::Denied => return Err(self.refused(fault)),
            Err(_) => return Ok(false),
        };
        self.look_at_durability(&connection).await?;
        // Not every user may ask for `INFO`. The worker works without it.
        let Ok(info) = server_info(&connection).await else { return Ok(true) };
        if let Some(why) = info.evicts() {
            say!(WARN, "{why}");
        }
        info.too_old().map_or(Ok(true), |why| Err(Error::config(why)))
    }

    /// Completes if a server that was not reached before cannot be used. After it was reached once, any refusal will pass.
    pub(super) async fn is_unusable(&self, reached: bool) -> Error {
        let queue = self.core.first_queue().filter(|_| !reached);
        let Some(queue) = &queue else { return std::future::pending().await };
        let mut reconnect = Reconnect::new();
        let mut silent = 1;
        loop {
            reconnect.pause().await;
            match self.reach(queue).await {
                Ok(_) => return std::future::pending().await,
                Err(fault) if fault.kind == FaultKind::Denied => return self.refused(fault),
                Err(fault) if fault.kind == FaultKind::Silent => {
                    silent += 1;
                    if silent >= SILENT_TRIES {
                        return self.refused(fault);
                    }
                }
                Err(_) => silent = 0,
            }
        }
    }

    /// A connection to a server that can run scripts, as every operation needs.
    async fn reach(&self, queue: &Queue) -> Result<Connection, Fault> {
        let connection = self.core.client.connection(queue).await?;
        runs_scripts(&connection).await?;
        Ok(connection)
    }

    fn refused(&self, fault: Fault) -> Error {
        let doing = format!("use the server {}", self.core.client.address());
        Error::Refused { doing, source: fault.into_cause() }
    }

    /// Checks whether the server can give the durability beyond its own memory that this program asks for, when it enqueues and settles.
    async fn look_at_durability(&self, connection: &Connection) -> Result<(), Error> {
        let enqueues = self.core.client.durability();
        for asked in enqueues.into_iter().chain(self.core.config.settles().asks()) {
            match connection.clone().confirming(asked).can_confirm().await {
                Err(fault) if fault.kind == FaultKind::Denied => {
                    return Err(self.refused(fault));
                }
                Err(fault) => say!(WARN, "not all is as it should be: {fault}"),
                Ok(()) => {}
            }
        }
        Ok(())
    }
}
