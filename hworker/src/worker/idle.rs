//! Whether a worker has nothing left to do, for a test that runs it until then.

use std::time::Duration;

use tokio::time::sleep;

use super::report::health::Health;
use super::state::Session;
use crate::error::Error;
use crate::store::{Fault, FaultKind, Load};

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Waits until no queue of the worker has anything to do.
///
/// # Errors
/// If the server does not allow the look.
pub(super) async fn idle(health: &Health) -> Result<(), Error> {
    let mut before = None;
    loop {
        let tokens = match health.running_session() {
            Some(session) => look(&session).await?,
            None => None,
        };
        // The queues are looked at one after the other, and a job may enqueue its next one in a queue that was looked at. So two looks must
        // find nothing, and no lease between them.
        if tokens.is_some() && tokens == before {
            return Ok(());
        }
        if tokens.is_none() {
            sleep(LOOK_EVERY).await;
        }
        before = tokens;
    }
}

/// The token of the last lease of each queue, if none has anything to do.
async fn look(session: &Session) -> Result<Option<Vec<u64>>, Error> {
    let mut tokens = Vec::with_capacity(session.consumers().len());
    for consumer in session.consumers().iter() {
        let queue = &consumer.queue;
        let load = async {
            let on = session.core.client.connection(queue).await?;
            let load = queue.load(&on, consumer.parked.looked()).await?;
            let has_open = load.broadcasts > 0
                && consumer.broadcasts.tell(queue.open_broadcasts(&on, &consumer.keys).await?);
            Ok::<_, Fault>(Some(load).filter(|_| !has_open))
        };
        match load.await {
            Ok(Some(Load { token, pending: 0, parked: 0, running: 0, notes: 0, .. })) => {
                tokens.push(token);
            }
            Err(fault) if fault.kind == FaultKind::Denied => {
                return Err(
                    fault.into_error(format!("look whether the queue {} is idle", queue.name))
                );
            }
            // The worker itself logs the fault, and goes on.
            Ok(_) | Err(_) => return Ok(None),
        }
    }
    Ok(Some(tokens))
}
