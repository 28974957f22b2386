//! Writes what is told of the jobs of a queue and goes with the end of no lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::state::{Consumer, Core};
use crate::log::say;
use crate::store::{Fault, FaultKind};

/// What is told within so long is written together.
const TOGETHER: Duration = Duration::from_millis(250);

/// Writes until the session ends, and once more then. What the server does not take is lost: nobody's job waits for it.
pub(crate) async fn run(core: Arc<Core>, consumer: Arc<Consumer>) {
    loop {
        tokio::select! {
            () = consumer.events.told.notified() => {
                tokio::select! {
                    () = sleep(TOGETHER) => {}
                    () = consumer.retiring.cancelled() => {}
                }
            }
            () = consumer.retiring.cancelled() => {}
        }
        let lines = consumer.events.take();
        if !lines.is_empty() {
            let written = async {
                let on = core.client.connection(&consumer.queue).await?;
                consumer.queue.tell_events(&on, &consumer.worker, &lines).await
            };
            match written.await {
                Ok(()) => {}
                Err(fault) if fault.kind == FaultKind::Denied => {
                    refused(&consumer, &fault.to_string());
                }
                Err(fault) => lost(&consumer, lines.len(), &fault),
            }
        }
        if consumer.retiring.is_cancelled() {
            return;
        }
    }
}

/// The server does not let this user write events, so none are written any more.
pub(crate) fn refused(consumer: &Consumer, why: &str) {
    if consumer.events.refuse() {
        say!(WARN, { queue = consumer.queue.name.clone(), why = why.to_owned() },
            job.queue = %queue, "events are off, the server does not take them; its user needs `+xadd`: {why}");
    }
}

fn lost(consumer: &Consumer, events: usize, fault: &Fault) {
    say!(WARN, { queue = consumer.queue.name.clone(), fault = fault.to_string() },
        job.queue = %queue, events, "events are not written, and lost: {fault}");
}
