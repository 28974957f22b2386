//! Serves every queue that there is, also those that come later, where `HWORKER_QUEUES` has a `*`.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::state::Session;
use crate::log::say;
use crate::store::Fault;

/// So often the worker looks whether there are more queues.
const EVERY: Duration = Duration::from_millis(1_500);

/// After so many looks it reads their names, though there are as many as before: one may have gone and another come.
const LOOKS: u32 = 20;

/// Looks for queues until the worker stops.
pub(super) async fn run(session: Arc<Session>) {
    let looks = async {
        let (mut known, mut looks) = (0, 0);
        loop {
            match look(&session, known, looks % LOOKS == 0).await {
                Ok(count) => (known, looks) = (count, looks + 1),
                Err(fault) => say!(DEBUG, "the queues were not looked at, soon they are: {fault}"),
            }
            sleep(EVERY).await;
        }
    };
    tokio::select! {
        () = looks => {}
        () = session.stopping.cancelled() => {}
    }
}

/// Serves what is new, if there are not as many as were known. Gives how many there are.
async fn look(session: &Session, known: u64, names_too: bool) -> Result<u64, Fault> {
    let core = &session.core;
    let count = core.client.count_registered_queues().await?;
    if count != known || names_too {
        for name in core.client.registered_queues().await?.into_keys() {
            if !core.config.excludes(&name) {
                core.add_queue(&name);
            }
        }
    }
    Ok(count)
}
