//! Jobs that are too large for the line to the server, or for the server.

use std::collections::HashMap;
use std::time::Duration;

use crate::log::say;

use crate::envelope::{JobId, Rewrite};
use crate::store::{End, Fault, Lease, Reserved, Settlement};
use crate::worker::state::{Consumer, Core, Reason, Warning, is_large};

/// Logs the largest job of a call that took long.
pub(crate) fn report_slow(
    core: &Core,
    consumer: &Consumer,
    took: Duration,
    settled: &[Settlement],
    reserved: &Result<Option<Reserved>, Fault>,
) {
    let brought = match reserved {
        Ok(Some(Reserved::Jobs { jobs, .. })) => jobs.as_slice(),
        _ => &[],
    };
    let brought = brought.iter().map(|(_, payload)| payload.as_slice());
    let all = brought.chain(settled.iter().filter_map(Settlement::bytes));
    let Some(largest) = all.max_by_key(|bytes| bytes.len()) else { return };
    let bytes = largest.len();
    let text = format!(
        "the line to the server is slow: a call took {took:?}, and this job is the largest in it ({bytes} bytes)"
    );
    let id = id_of(largest);
    let warning = Warning { id, text, ..Warning::default() };
    core.log_limit.warn(1, &consumer.queue.name, Reason::SlowLine, warning);
}

/// The id of an envelope, or of the record of a failed job.
fn id_of(bytes: &[u8]) -> Option<JobId> {
    Rewrite::of(bytes).map(|envelope| envelope.id())
}

/// How often the connection ended when a settlement was sent alone, by lease.
#[derive(Debug, Default)]
pub(crate) struct Refused(HashMap<Lease, u32>);

impl Refused {
    /// Returns the settlements to send in place of those whose connection has ended.
    ///
    /// The server may refuse a large settlement for its size by ending the connection, and would do so each time. So the third time
    /// that one was sent alone, it goes without an envelope, or the job becomes broken, for which the server needs no bytes of it.
    pub(crate) fn instead(
        &mut self,
        consumer: &Consumer,
        mut batch: Vec<Settlement>,
        why: &str,
    ) -> Vec<Settlement> {
        let [one] = batch.as_mut_slice() else { return batch };
        if !is_large(one) {
            return batch;
        }
        let (length, id) = (one.largest(), one.bytes().and_then(id_of));
        let times = self.0.entry(one.lease.clone()).or_default();
        *times += 1;
        if *times < 3 {
            return batch;
        }
        let what = match &mut one.end {
            End::Released { envelope, .. }
            | End::Parked { envelope, .. }
            | End::Held { envelope, .. } => {
                *envelope = None;
                "it goes back as it came"
            }
            End::Recorded { kept: Some(kept), .. } if kept.text.len() == length => {
                kept.leave_out();
                "its result is not kept"
            }
            End::Recorded { follows, .. }
                if follows.as_ref().is_some_and(|follows| follows.len() == length) =>
            {
                *follows = None;
                "what `on_failed` says is not enqueued"
            }
            _ => {
                let reason = format!(
                    "the server ends the connection when it is told how the job ended ({length} bytes): {why}; its \
                     `proto-max-bulk-len` may be too low"
                );
                let kept = one.end.kept().and_then(|kept| kept.broken(&reason));
                let note = one.note().cloned();
                (one.end, one.event) = (End::Broken { reason, bytes: length, kept, note }, None);
                "it is broken"
            }
        };
        let queue = &consumer.queue.name;
        say!(WARN, { id = id.map(tracing::field::display), queue = queue.clone(), why = why.to_owned() },
            job.id = id, job.queue = %queue, bytes = length, "the server ends the connection when it is told how this job ended, {what}: {why}");
        batch
    }

    /// Forgets settlements that the server has.
    pub(crate) fn forget(&mut self, settled: &[Settlement]) {
        if !self.0.is_empty() {
            for one in settled {
                self.0.remove(&one.lease);
            }
        }
    }
}
