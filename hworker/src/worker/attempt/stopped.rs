//! Members of batches that somebody cancelled or paused.

use std::time::Duration;

use tokio::time::timeout;

use crate::relay::batch_of_member;
use crate::store::{Concluded, Fault};
use crate::worker::attempt::decide::{Evidence, Transition};
use crate::worker::attempt::finish::conclude;
use crate::worker::attempt::record;
use crate::worker::state::{Consumer, Core, Job, Stop};

/// A member waits no longer than this to hear whether it may start.
const ASK_WITHIN: Duration = Duration::from_millis(500);

/// Why a member does not run whose batch was cancelled.
const CANCELLED: &str = "its batch was cancelled";

/// The end of a member that does not start, as its batch is cancelled or paused. A worker that holds jobs hears of that with its heartbeats; one that
/// did nothing asks before the first.
pub(crate) async fn end(core: &Core, consumer: &Consumer, job: &Job) -> Option<Concluded> {
    let batch = batch_of_member(job.of.as_deref()?)?;
    if !consumer.stopped.is_fresh() {
        let ask = async {
            let on = core.client.connection(&consumer.queue).await?;
            consumer.queue.read_stopped(&on, consumer.stopped.changes()).await
        };
        // Where it is not answered, what the last heartbeat said holds: without one nothing starts.
        if let Ok(Ok((changes, stops))) =
            timeout(ASK_WITHIN, ask).await as Result<Result<_, Fault>, _>
        {
            consumer.stopped.hear(changes, stops);
        }
    }
    match consumer.stopped.of(batch)? {
        Stop::Cancelled => {
            let cancel = Transition::Cancel(Evidence::new("cancelled", CANCELLED));
            Some(conclude(core, consumer, job, None, cancel))
        }
        Stop::Paused => Some(record::held(job, batch).into()),
    }
}

/// Cancels the members that run of batches that are cancelled.
pub(crate) fn cancel_running(consumer: &Consumer) {
    if !consumer.stopped.has_any() {
        return;
    }
    for running in consumer.leases.running() {
        let batch = running.job.of.as_deref().and_then(batch_of_member);
        if batch.and_then(|batch| consumer.stopped.of(batch)) == Some(Stop::Cancelled) {
            consumer.leases.cancel(&running.job.lease);
        }
    }
}
