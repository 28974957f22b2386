//! What is asked of the server before the first job, and again until it was reached once.

use super::Worker;
use crate::error::Error;
use crate::log::say;
use crate::reconnect::Reconnect;
use crate::store::{Connection, Fault, FaultKind, Queue, runs_scripts, server_info};

/// So many tries in a row at what takes connections and says nothing, about 15 s in all, show that it is not only busy.
const SILENT_TRIES: u32 = 4;

impl Worker {
    /// What can be said of the server before the first job: one that cannot be used is an error, one that is not there yet is
    /// waited for. Says whether it was reached.
    pub(super) async fn look_at_server(&self) -> Result<bool, Error> {
        let Some(queue) = &self.core.first_queue() else { return Ok(true) };
        let connection = match self.reach(queue).await {
            Ok(connection) => connection,
            Err(fault) if fault.kind == FaultKind::Denied => return Err(self.refused(fault)),
            Err(_) => return Ok(false),
        };
        self.look_at_durability(&connection).await?;
        // Not everyone may ask for `INFO`, which is no reason not to work.
        let Ok(info) = server_info(&connection).await else { return Ok(true) };
        if let Some(why) = info.evicts() {
            say!(WARN, "{why}");
        }
        info.too_old().map_or(Ok(true), |why| Err(Error::config(why)))
    }

    /// Completes if the server, which was not reached yet, turns out to be one that cannot be used. Once it was reached, whatever it
    /// says then will pass.
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

    /// A connection to a server that does what every operation needs.
    async fn reach(&self, queue: &Queue) -> Result<Connection, Fault> {
        let connection = self.core.client.connection(queue).await?;
        runs_scripts(&connection).await?;
        Ok(connection)
    }

    fn refused(&self, fault: Fault) -> Error {
        let doing = format!("use the server {}", self.core.client.address());
        Error::Refused { doing, source: fault.into_cause() }
    }

    /// Whether the server can do what is asked of it beyond its own memory, for what this program enqueues and settles.
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
