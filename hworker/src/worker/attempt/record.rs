//! The only place that makes the end of a job: turns a decision into the input of `settle`.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::envelope::{AttemptError, Crash, JobId, Rewrite, bounded};
use crate::store::End;
use crate::time::millis;
use crate::worker::attempt::decide::{Evidence, Transition};
use crate::worker::state::{Consumer, Core, Job};

const BACKTRACE_BYTES: usize = 8_000;

/// How many bytes are kept of the reason why a payload is broken.
const REASON_BYTES: usize = 500;

/// The record of a failed job, as stored; `docs/wire-format.md` describes it.
#[derive(Serialize)]
struct FailedRecord<'a> {
    v: u64,
    id: &'a JobId,
    job: &'a str,
    queue: &'a str,
    worker: &'a str,
    kind: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backtrace: Option<&'a str>,
    failed_at: u64,
    attempts: u32,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    crashes: &'a [Crash],
    envelope: &'a RawValue,
}

/// The end of the job's lease for this decision.
pub(crate) fn end(core: &Core, consumer: &Consumer, job: &Job, transition: Transition) -> End {
    let name = job.definition.name;
    // The fast path: success, which rewrites nothing.
    if matches!(transition, Transition::Ack) {
        return End::Acked { job: name };
    }
    let Some(mut rewrite) = rewrite(job) else {
        return broken("the envelope could be read but not rewritten", job.payload.len());
    };
    match transition {
        Transition::Ack => End::Acked { job: name },
        Transition::Retry(delay, evidence) => {
            rewrite.add_error(&attempt_error(core, consumer, job, evidence));
            rewrite.set("attempt", &job.number.saturating_add(1));
            // Its list of errors must not make the envelope larger than a worker accepts.
            let envelope = rewrite.bytes_within(consumer.queue.limits.max_payload);
            End::Retried { job: name, delay_ms: millis(delay), envelope }
        }
        Transition::Snooze(delay) => {
            rewrite.count("snoozes");
            // Without a delay it would be the next job to be reserved.
            End::Released { delay_ms: millis(delay).max(1), envelope: Some(rewrite.to_bytes()) }
        }
        Transition::Fail(evidence) => {
            let error = attempt_error(core, consumer, job, evidence);
            rewrite.add_error(&error);
            failed(consumer, job, &error, &rewrite)
        }
    }
}

fn failed(consumer: &Consumer, job: &Job, error: &AttemptError, rewrite: &Rewrite<'_>) -> End {
    let record = serde_json::value::to_raw_value(rewrite).and_then(|envelope| {
        serde_json::to_vec(&FailedRecord {
            v: crate::envelope::VERSION,
            id: &rewrite.id(),
            job: job.definition.name,
            queue: &consumer.queue.name,
            worker: &consumer.worker,
            kind: &error.kind,
            message: &error.message,
            place: error.place.as_deref(),
            backtrace: error.backtrace.as_deref(),
            failed_at: error.at,
            attempts: job.number,
            crashes: &job.crashes,
            envelope: &envelope,
        })
    });
    match record {
        Ok(record) => End::Failed { job: job.definition.name, record },
        Err(error) => {
            broken(&format!("its failure could not be recorded: {error}"), job.payload.len())
        }
    }
}

fn attempt_error(core: &Core, consumer: &Consumer, job: &Job, evidence: Evidence) -> AttemptError {
    AttemptError {
        attempt: job.number,
        at: core.clock.unix_ms(),
        kind: evidence.kind.to_owned(),
        message: evidence.message,
        place: evidence.place,
        backtrace: evidence.backtrace.map(|trace| bounded(&trace, BACKTRACE_BYTES)),
        worker: consumer.worker.to_string(),
    }
}

/// The envelope with the job's id, even if it came without one: a sorted set merges equal bytes, and the body may have used the id.
fn rewrite(job: &Job) -> Option<Rewrite<'_>> {
    let mut rewrite = Rewrite::of(job.payload.as_bytes())?;
    rewrite.set("id", &job.id);
    Some(rewrite)
}

/// The end of a job that another worker may be able to run.
pub(crate) fn parked(payload: &[u8]) -> End {
    // A sorted set merges equal bytes.
    End::Parked { envelope: Rewrite::identified(payload), bytes: payload.len() }
}

/// The end of a lease whose job is given back, after a delay in ms.
pub(crate) fn released(job: &Job, delay_ms: u64) -> End {
    End::Released { delay_ms, envelope: rewrite(job).map(|rewrite| rewrite.to_bytes()) }
}

/// The end of a job whose payload of this many bytes cannot run.
pub(crate) fn broken(reason: &str, bytes: usize) -> End {
    End::Broken { reason: bounded(reason, REASON_BYTES), bytes }
}
