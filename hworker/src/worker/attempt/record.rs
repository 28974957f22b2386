//! The only place that makes the end of a job: from a decision to what `settle` is asked for.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::envelope::{AttemptError, Crash, JobId, Rewrite, bounded};
use crate::store::End;
use crate::time::millis;
use crate::worker::attempt::decide::{Evidence, Transition};
use crate::worker::state::consumer::Consumer;
use crate::worker::state::core::Core;
use crate::worker::state::job::Job;

const BACKTRACE_BYTES: usize = 8_000;

/// What of the reason is kept for which a payload is broken.
const REASON_BYTES: usize = 500;

/// The record of a failed job, as it is stored; `docs/wire-format.md` describes it.
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

/// The end of the job's lease that carries out the decision.
pub(crate) fn end(core: &Core, consumer: &Consumer, job: &Job, transition: Transition) -> End {
    let name = job.definition.name;
    // The fast path: success, for which nothing is rewritten.
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
            // What it remembers of its errors must not make it larger than what a worker takes.
            let envelope = rewrite.bytes_within(consumer.queue.limits.max_payload);
            End::Retried { job: name, delay_ms: millis(delay), envelope }
        }
        Transition::Snooze(delay) => {
            rewrite.count("snoozes");
            // Without any delay it would be the next to be taken.
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

/// The envelope with the job's id.
fn rewrite(job: &Job) -> Option<Rewrite<'_>> {
    let mut rewrite = Rewrite::of(job.payload.as_bytes())?;
    rewrite.set("id", &job.id);
    Some(rewrite)
}

/// The envelope to give back, with the id that the job has, also where it came without one: in a sorted set equal bytes would
/// collapse, and a body that has begun may have used the id.
fn identified(job: &Job) -> Option<Vec<u8>> {
    rewrite(job).map(|rewrite| rewrite.to_bytes())
}

/// How a job ends here that another worker may be able to run.
pub(crate) fn parked(payload: &[u8]) -> End {
    // In a sorted set equal bytes would collapse.
    End::Parked { envelope: Rewrite::identified(payload), bytes: payload.len() }
}

/// How a lease ends whose job is given back, after a delay of so many ms.
pub(crate) fn released(job: &Job, delay_ms: u64) -> End {
    End::Released { delay_ms, envelope: identified(job) }
}

/// How a job ends whose payload of so many bytes is none that can run.
pub(crate) fn broken(reason: &str, bytes: usize) -> End {
    End::Broken { reason: bounded(reason, REASON_BYTES), bytes }
}
