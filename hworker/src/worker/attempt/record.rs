//! The only place that makes the end of a job: turns a decision into the input of `settle`.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::envelope::{AttemptError, BACKTRACE_BYTES, Crash, Envelope, JobId, Rewrite, bounded};
use crate::kept::Kept;
use crate::keys::Ended;
use crate::limit::List;
use crate::relay::Note;
use crate::store::{End, NewRecord};
use crate::time::millis;
use crate::unique::KeyLock;
use crate::worker::attempt::decide::{Evidence, Transition};
use crate::worker::attempt::{group, kept};
use crate::worker::state::{Consumer, Core, Job};

/// How many bytes are kept of the reason why a payload is broken.
const REASON_BYTES: usize = 500;

/// The record of a job that has ended, as stored; `docs/wire-format.md` describes it.
#[derive(Serialize)]
struct Stored<'a> {
    v: u64,
    id: &'a JobId,
    job: &'a str,
    queue: &'a str,
    outcome: &'a str,
    worker: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(flatten)]
    error: Option<LastError<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<u64>,
    ended_at: u64,
    attempts: u32,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    crashes: &'a [Crash],
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<KeyLock>,
    envelope: &'a RawValue,
}

/// Why a job failed.
#[derive(Serialize)]
struct LastError<'a> {
    kind: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backtrace: Option<&'a str>,
}

/// The end of the job's lease for this decision. `ran`: how long its body did, if it started.
pub(crate) fn end(
    core: &Core,
    consumer: &Consumer,
    job: &Job,
    ran: Option<Duration>,
    transition: Transition,
) -> End {
    let name = job.definition.name;
    // The fast path: success of which no record and no result is kept, which belongs to no batch, and which rewrites nothing.
    let is_done = matches!(transition, Transition::Ack(_));
    let is_plain = job.keep.is_none() && job.of.is_none();
    if is_done && is_plain && consumer.queue.limits.done == 0 {
        return End::Acked { job: name };
    }
    let now = core.clock.unix_ms();
    let kept = kept::of(core, consumer, job, now, &transition);
    let cannot = |why| {
        let kept = kept::of_broken(now, job.payload.as_bytes(), why);
        broken(why, job.payload.as_bytes(), kept)
    };
    let Some(mut rewrite) = rewrite(job) else {
        return cannot("the envelope could be read but not rewritten");
    };
    let started_at = ran.map(|ran| now.saturating_sub(millis(ran)));
    let times = (started_at, now);
    let ended = |record: NewRecord, kept, follows| {
        let halts = record.ended == Ended::Failed && halts(job);
        let note = note(job, record.ended);
        End::Recorded { job: name, record: Box::new(record), halts, kept, note, follows }
    };
    let without_run = |how, evidence, kept| {
        let why = attempt_error(consumer, job, started_at, now, evidence);
        match recorded(core, consumer, job, times, Some((how, &why)), &rewrite) {
            Some(record) => ended(record, kept, None),
            None => cannot("its end could not be recorded"),
        }
    };
    match transition {
        Transition::Ack(_) => {
            let are_kept = consumer.queue.limits.done > 0;
            let record = are_kept.then(|| recorded(core, consumer, job, times, None, &rewrite));
            let none = || NewRecord::none(Ended::Done, &rewrite.id());
            ended(record.flatten().unwrap_or_else(none), kept, None)
        }
        Transition::Retry(delay, evidence) => {
            rewrite.add_error(&attempt_error(consumer, job, started_at, now, evidence));
            rewrite.set("attempt", &job.number.saturating_add(1));
            rewrite.set("ready_at", &now.saturating_add(millis(delay)));
            // Its list of errors must not make the envelope larger than a worker accepts.
            let envelope = rewrite.bytes_within(consumer.queue.limits.max_payload);
            End::Retried { job: name, delay_ms: millis(delay), envelope }
        }
        Transition::Snooze(delay) => {
            rewrite.count("snoozes");
            rewrite.remove("expires_at");
            rewrite.set("ready_at", &now.saturating_add(millis(delay)));
            // Without a delay it would be the next job to be reserved.
            End::Released { delay_ms: millis(delay).max(1), envelope: Some(rewrite.to_bytes()) }
        }
        Transition::SlowDown(delay) => {
            rewrite.count("snoozes");
            rewrite.remove("expires_at");
            rewrite.set("ready_at", &now.saturating_add(millis(delay)));
            End::Slowed { job: name, delay_ms: millis(delay), envelope: rewrite.to_bytes() }
        }
        Transition::Cancel(evidence) => without_run(Ended::Cancelled, evidence, kept),
        Transition::Expire(evidence) => without_run(Ended::Expired, evidence, kept),
        Transition::Fail(evidence) => {
            let of_failure = (&*consumer.queue.name, now, &evidence);
            let follows = core.on_failed.follows(&core.client, job, of_failure);
            let error = attempt_error(consumer, job, started_at, now, evidence);
            rewrite.add_error(&error);
            let failed = Some((Ended::Failed, &error));
            match recorded(core, consumer, job, times, failed, &rewrite) {
                Some(record) => ended(record, kept, follows),
                None => cannot("its failure could not be recorded"),
            }
        }
    }
}

/// The record of a job that is done, or ended so for this reason. `None` if it cannot be written.
fn recorded(
    core: &Core,
    consumer: &Consumer,
    job: &Job,
    (started_at, ended_at): (Option<u64>, u64),
    otherwise: Option<(Ended, &AttemptError)>,
    rewrite: &Rewrite<'_>,
) -> Option<NewRecord> {
    let envelope = serde_json::value::to_raw_value(rewrite).ok()?;
    let (name, id) = (job.definition.name, rewrite.id());
    let (ended, error) = match otherwise {
        Some((ended, why)) => (ended, Some(why)),
        None => (Ended::Done, None),
    };
    // Only failures have groups.
    let group = error.filter(|_| ended == Ended::Failed).map(|error| group::of(name, error));
    let stored = Stored {
        v: crate::envelope::VERSION,
        id: &id,
        job: name,
        queue: &consumer.queue.name,
        outcome: ended.name(),
        worker: &consumer.worker,
        group: group.as_deref(),
        error: error.map(|error| LastError {
            kind: &error.kind,
            message: &error.message,
            place: error.place.as_deref(),
            backtrace: error.backtrace.as_deref(),
        }),
        started_at,
        ended_at,
        attempts: job.number,
        crashes: &job.crashes,
        holds: job
            .args()
            .and_then(|args| core.client.own_lock(job.definition, args))
            // What is known by its id is so when it runs again.
            .or_else(|| job.lease.id().map(|_| KeyLock::default())),
        envelope: &envelope,
    };
    Some(NewRecord {
        ended,
        text: serde_json::to_vec(&stored).ok()?,
        sample: error
            .filter(|_| ended == Ended::Failed)
            .map_or_else(Vec::new, |error| group::sample(name, &id, error)),
        group: group.unwrap_or_else(|| "-".to_owned()),
        id: id.as_str().to_owned(),
    })
}

/// What its batch is to be told, where it has one.
fn note(job: &Job, ended: Ended) -> Option<Arc<str>> {
    let of = job.of.as_deref()?;
    let note = Note::of(of, ended == Ended::Done, ended.name(), job.id.as_str())?;
    Some(note.text().into())
}

/// Whether its failure holds up the jobs of its key.
pub(crate) fn halts(job: &Job) -> bool {
    let is_in_order = job.lease.list().is_some_and(List::is_in_order);
    is_in_order && job.definition.limits.iter().any(|limit| limit.halts)
}

fn attempt_error(
    consumer: &Consumer,
    job: &Job,
    started_at: Option<u64>,
    at: u64,
    evidence: Evidence,
) -> AttemptError {
    AttemptError {
        attempt: job.number,
        started_at,
        at,
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

/// The envelope with this id, where it has another or none.
pub(crate) fn with_id(job: &Job, id: &JobId) -> Option<Vec<u8>> {
    let has_it = Envelope::decode(job.payload.as_bytes())
        .is_ok_and(|envelope| envelope.id.as_deref() == Some(id.as_str()));
    let mut rewrite = Rewrite::of(job.payload.as_bytes()).filter(|_| !has_it)?;
    rewrite.set("id", id);
    Some(rewrite.to_bytes())
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

/// The end of a lease whose job stands beside the queue until its batch is resumed.
pub(crate) fn held(job: &Job, batch: &str) -> End {
    let envelope = rewrite(job).map(|rewrite| rewrite.to_bytes());
    End::Held { batch: batch.into(), envelope, bytes: job.payload.len() }
}

/// The end of a lease whose job is given back after its body had started: it started in time.
pub(crate) fn interrupted(job: &Job) -> End {
    let rewrite = rewrite(job).map(|mut rewrite| {
        rewrite.remove("expires_at");
        rewrite.to_bytes()
    });
    End::Released { delay_ms: 0, envelope: rewrite }
}

/// The end of a job whose payload of this many bytes cannot run.
pub(crate) fn broken(reason: &str, payload: &[u8], kept: Option<Box<Kept>>) -> End {
    let note = Note::of_payload(payload, "broken").map(Arc::from);
    End::Broken { reason: bounded(reason, REASON_BYTES), bytes: payload.len(), kept, note }
}
