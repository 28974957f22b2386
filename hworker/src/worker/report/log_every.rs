//! Logs what there is on each queue, again and again, where the user asks for it.

use std::sync::Arc;
use std::time::Duration;

use crate::log::say;
use crate::store::Fault;
use crate::worker::state::{Consumer, Session};

/// Logs one line a queue until the worker stops.
pub(crate) async fn run(session: Arc<Session>, every: Duration) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = session.stopping.cancelled() => return,
        }
        for consumer in session.consumers().iter() {
            if let Err(fault) = log(&session, consumer).await {
                say!(DEBUG, { queue = consumer.queue.name.clone() }, job.queue = %queue, "the queue was not counted: {fault}");
            }
        }
    }
}

async fn log(session: &Session, consumer: &Consumer) -> Result<(), Fault> {
    let on = session.core.client.connection_to_inspect(&consumer.queue).await?;
    let [waiting, scheduled, parked, failed, _, _, _, broken, running] =
        consumer.queue.counts(&on).await?;
    let slots = session.core.config.concurrency;
    say!(INFO, { queue = consumer.queue.label.clone(), own = consumer.leases.count() },
        job.queue = %queue, waiting, running, own, slots, scheduled, parked, failed, broken, "what there is");
    Ok(())
}
