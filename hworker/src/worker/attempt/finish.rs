//! Turns the end of a body into the end of its lease.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::envelope::bounded;
use crate::job::{OnFault, Policy};
use crate::limit::List;
use crate::log::{one_line, say};
use crate::outcome::Returned;
use crate::store::{End, Settlement};
use crate::worker::attempt::decide::{
    Attempts, Evidence, Finish, MESSAGE_BYTES, Transition, decide,
};
use crate::worker::attempt::panic::{self, Caught};
use crate::worker::attempt::record;
use crate::worker::state::{Consumer, Core, Job};

/// The outcome of a job, in one word.
pub(crate) fn outcome(settlement: Option<&Settlement>) -> &'static str {
    match settlement.map(|settlement| &settlement.end) {
        Some(End::Acked { .. }) => "done",
        Some(End::Retried { .. }) => "retried",
        Some(End::Recorded { record, .. }) => record.ended.name(),
        Some(End::Broken { .. }) => "broken",
        Some(End::Parked { .. }) => "parked",
        Some(End::Routed { .. } | End::Submitted(_)) => "put where it belongs",
        Some(End::Husk) => "deleted",
        Some(End::Released { delay_ms: 0, .. }) => "given back",
        Some(End::Slowed { .. } | End::Released { .. }) => "snoozed",
        None => "lost",
    }
}

/// Decides what happens to the job, with the user's `backoff` and `on_error`.
pub(crate) fn decided(core: &Core, job: &Job, finish: Finish, policy: &Policy) -> Transition {
    // The fast path: success.
    if matches!(finish, Finish::Returned(Returned::Success)) {
        return Transition::Ack;
    }
    let time_left = |until: u64| Duration::from_millis(until.saturating_sub(core.clock.unix_ms()));
    let attempts = Attempts {
        policy,
        number: job.number,
        max: job.max_attempts,
        backoff: job.backoff.as_ref(),
        time_left: job.retry_until.map(time_left),
    };
    // `backoff` and `on_error` may be functions of the user.
    let transition = panic::catch(|| decide(&finish, &attempts)).unwrap_or_else(|panic| {
        let message = format!("`backoff` or `on_error` panicked: {}", panic.message);
        let policy = Policy { backoff: Backoff::DEFAULT, ..*policy };
        let attempts = Attempts { policy: &policy, backoff: None, time_left: None, ..attempts };
        attempts.after(OnFault::Retry, Evidence::new("panic", message))
    });
    drop(Caught::new(finish));
    transition
}

/// Logs once what happens to the job, and returns the end of its lease. `ran`: how long its body did, if it started.
pub(crate) fn conclude(
    core: &Core,
    consumer: &Consumer,
    job: &Job,
    ran: Option<Duration>,
    mut transition: Transition,
) -> End {
    if let Transition::Retry(_, evidence) | Transition::Fail(evidence) = &mut transition {
        evidence.message = bounded(&evidence.message, MESSAGE_BYTES);
    }
    let (name, attempt) = (job.definition.name, job.number);
    let (id, queue) = (job.id.clone(), consumer.queue.name.clone());
    match &transition {
        Transition::Ack => {}
        Transition::Snooze(delay) => {
            say!(DEBUG, { delay = *delay }, job = name, %id, %queue, attempt, ?delay, "job snoozed");
        }
        Transition::SlowDown(delay) => {
            say!(DEBUG, { delay = *delay }, job = name, %id, %queue, attempt, ?delay, "job and what shares its limits wait");
        }
        Transition::Cancel(evidence) => {
            say!(INFO, { message = one_line(&evidence.message) },
                job = name, %id, %queue, attempt, "job cancelled: {message}");
        }
        Transition::Expire(evidence) => {
            say!(WARN, { message = one_line(&evidence.message) },
                job = name, %id, %queue, attempt, "job expired: {message}");
        }
        Transition::Retry(delay, evidence) => {
            say!(WARN, { kind = evidence.kind, message = one_line(&evidence.message), delay = *delay },
                job = name, %id, %queue, attempt, kind, ?delay, "job runs again: {message}");
        }
        Transition::Fail(evidence) => {
            say!(ERROR, { kind = evidence.kind, message = one_line(&evidence.message) },
                job = name, %id, %queue, attempt, kind, "job failed: {message}");
            if let Some((limit, key)) = job.lease.list().and_then(List::key)
                && record::halts(job)
            {
                let (id, queue) = (job.id.clone(), consumer.queue.name.clone());
                say!(WARN, { limit = format!("{limit}={key}") }, job = name, %id, %queue, limit,
                    "the other jobs of its key are held up until somebody resumes the limit");
            }
        }
    }
    record::end(core, consumer, job, ran, transition)
}
