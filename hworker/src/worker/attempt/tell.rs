//! Tells the log and the functions of the user what became of an attempt. The names of the fields are in `docs/logs.md`, and do not change.

use std::sync::Arc;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::{Level, debug};

#[cfg(feature = "cron")]
use crate::cron::{When, run_of};
use crate::envelope::{BACKTRACE_BYTES, JobId, bounded, tags};
use crate::events::{Line, MESSAGE_BYTES};
use crate::guarded::guarded;
#[cfg(feature = "cron")]
use crate::hooks::{Checkin, CheckinState};
use crate::hooks::{ErrorReport, Event, EventKind, Events};
use crate::keys::Ended;
use crate::limit::List;
use crate::log::{one_line, say};
use crate::store::{End, Lease, Settlement};
use crate::time::millis;
use crate::worker::attempt::decide::{Evidence, Transition};
use crate::worker::attempt::record;
use crate::worker::state::{Consumer, Core, Job};

/// What each line about an attempt says of it.
struct Facts {
    id: JobId,
    name: &'static str,
    queue: Arc<str>,
    attempt: u32,
    tags: Option<String>,
    worker: Arc<str>,
    elapsed_ms: Option<u64>,
    wait_ms: Option<u64>,
}

impl Facts {
    fn of(core: &Core, consumer: &Consumer, job: &Job, ran: Option<Duration>) -> Self {
        Self {
            id: job.id.clone(),
            name: job.definition.name,
            queue: Arc::clone(&consumer.queue.name),
            attempt: job.number,
            tags: tag_list(job),
            worker: Arc::clone(&consumer.worker),
            elapsed_ms: ran.map(millis),
            wait_ms: waited(core, job, ran),
        }
    }
}

/// An event with these facts, and with what this outcome has beside them.
macro_rules! say_end {
    ($level:ident, $facts:expr, $outcome:literal, { $($name:ident = $value:expr),* }, $($more:tt)+) => {
        say!($level, { facts = $facts, $($name = $value),* },
            job.id = %facts.id, job.name = facts.name, job.queue = %facts.queue, job.attempt = facts.attempt, job.tags = facts.tags,
            worker.id = %facts.worker, outcome = $outcome, elapsed_ms = facts.elapsed_ms, wait_ms = facts.wait_ms, $($more)+)
    };
}

/// The tags of a job as the log has them, if it has any.
pub(super) fn tag_list(job: &Job) -> Option<String> {
    let tags = tags(&job.payload);
    (!tags.is_empty()).then(|| one_line(&tags.join(",")))
}

/// How long a job that ran had waited, in ms, if it says since when. A producer's clock may be ahead.
pub(super) fn waited(core: &Core, job: &Job, ran: Option<Duration>) -> Option<u64> {
    ran.filter(|_| job.waits_since > 0)
        .map(|ran| core.clock.unix_ms().saturating_sub(millis(ran)).saturating_sub(job.waits_since))
}

/// Tells that a body begins, and of a cron entry that the first attempt of a run does.
pub(super) fn begins(core: &Core, consumer: &Consumer, job: &Job) {
    core.hooks.events.tell(|| event(core, consumer, job, EventKind::Started));
    if consumer.events.has(Events::All) {
        let line = Line { at: Some(core.clock.unix_ms()), ..line(job, EventKind::Started) };
        consumer.events.start(&job.lease, line.text());
    }
    #[cfg(feature = "cron")]
    if job.number == 1 {
        check_in(core, consumer, job, CheckinState::Started, None);
    }
}

/// Tells what was decided, and returns what is written of it with the end of the lease. To log that a job is done is left to [`over`], as there may be
/// many.
pub(super) fn concluded(
    core: &Core,
    consumer: &Consumer,
    job: &Job,
    ran: Option<Duration>,
    end: &Transition,
) -> Option<Arc<String>> {
    log(core, consumer, job, ran, end);
    let (kind, evidence) = match end {
        Transition::Ack(_) => (EventKind::Done, None),
        Transition::Retry(_, evidence) => (EventKind::Retried, Some(evidence)),
        Transition::Fail(evidence) => (EventKind::Failed, Some(evidence)),
        Transition::Cancel(evidence) => (EventKind::Cancelled, Some(evidence)),
        Transition::Expire(evidence) => (EventKind::Expired, Some(evidence)),
        Transition::Snooze(_) | Transition::SlowDown(_) => (EventKind::Snoozed, None),
    };
    core.hooks.events.tell(|| {
        let message = evidence.map(|evidence| evidence.message.clone());
        Event { message, elapsed: ran, ..event(core, consumer, job, kind) }
    });
    if let Transition::Retry(_, evidence) | Transition::Fail(evidence) = end {
        let is_last = matches!(end, Transition::Fail(_));
        core.hooks.errors.tell(|| report(consumer, job, ran, evidence, is_last));
    }
    #[cfg(feature = "cron")]
    match end {
        Transition::Ack(_) => check_in(core, consumer, job, CheckinState::Ok, ran),
        Transition::Fail(_) | Transition::Cancel(_) | Transition::Expire(_) => {
            check_in(core, consumer, job, CheckinState::Failed, ran);
        }
        Transition::Retry(..) | Transition::Snooze(_) | Transition::SlowDown(_) => {}
    }
    // The fast path: nothing is written of it.
    if !consumer.events.has(Events::Ends) {
        return None;
    }
    let message = evidence.map(|evidence| bounded(&evidence.message, MESSAGE_BYTES).into());
    let mut line = Line { ran_ms: ran.map(millis), message, ..line(job, kind) };
    if let Transition::Snooze(_) = end {
        // The script that gives back tells nothing.
        line.at = Some(core.clock.unix_ms());
        consumer.events.tell(&job.lease, line.text());
        return None;
    }
    Some(consumer.events.end(&job.lease, line.text()))
}

fn line(job: &Job, kind: EventKind) -> Line<'_> {
    let attempt = Some(job.number);
    Line { attempt, ..Line::new(kind, Some(job.definition.name), Some(job.id.as_str())) }
}

fn log(core: &Core, consumer: &Consumer, job: &Job, ran: Option<Duration>, end: &Transition) {
    let facts = || Facts::of(core, consumer, job, ran);
    match end {
        Transition::Ack(_) => {}
        Transition::Snooze(delay) | Transition::SlowDown(delay) => {
            let says = match end {
                Transition::Snooze(_) => "job snoozed",
                _ => "job and what shares its limits wait",
            };
            say_end!(DEBUG, facts(), "snoozed", { delay_ms = millis(*delay), what = says }, delay_ms, "{what}");
        }
        Transition::Cancel(evidence) => {
            say_end!(INFO, facts(), "cancelled", { kind = evidence.kind, message = one_line(&evidence.message) },
                error.kind = kind, "job cancelled: {message}");
        }
        Transition::Expire(evidence) => {
            say_end!(WARN, facts(), "expired", { kind = evidence.kind, message = one_line(&evidence.message) },
                error.kind = kind, "job expired: {message}");
        }
        Transition::Retry(delay, evidence) => {
            say_end!(WARN, facts(), "retried", { kind = evidence.kind, message = one_line(&evidence.message), delay_ms = millis(*delay) },
                error.kind = kind, delay_ms, "job runs again: {message}");
        }
        Transition::Fail(evidence) => {
            say_end!(ERROR, facts(), "failed", { kind = evidence.kind, message = one_line(&evidence.message) },
                error.kind = kind, "job failed: {message}");
            if let Some((limit, key)) = job.lease.list().and_then(List::key)
                && record::halts(job)
            {
                say!(WARN, { facts = facts(), limit = format!("{limit}={key}") },
                    job.id = %facts.id, job.name = facts.name, job.queue = %facts.queue, limit,
                    "the other jobs of its key are held up until somebody resumes the limit");
            }
        }
    }
}

/// Logs the end of an attempt of which [`concluded`] logs nothing: the job is done, or goes back to the queue, or another worker has it. In
/// place, since there is one line a job. If no subscriber takes it there is nothing to guard.
pub(super) fn over(
    core: &Core,
    consumer: &Consumer,
    job: &Job,
    ran: Duration,
    settlement: Option<&Settlement>,
) {
    if Level::DEBUG > LevelFilter::current() {
        return;
    }
    let outcome = match settlement.map(|settlement| &settlement.end) {
        Some(End::Acked { .. }) => "done",
        Some(End::Recorded { record, .. }) if record.ended == Ended::Done => "done",
        Some(End::Released { delay_ms: 0, .. }) => "given back",
        None => "lost",
        Some(_) => return,
    };
    guarded(|| {
        let facts = Facts::of(core, consumer, job, Some(ran));
        debug!(
            job.id = %facts.id, job.name = facts.name, job.queue = %facts.queue, job.attempt = facts.attempt, job.tags = facts.tags,
            worker.id = %facts.worker, outcome, elapsed_ms = facts.elapsed_ms, wait_ms = facts.wait_ms, "job {outcome}"
        );
    });
}

fn event(core: &Core, consumer: &Consumer, job: &Job, kind: EventKind) -> Event {
    Event {
        kind,
        at: core.clock.unix_ms(),
        queue: consumer.queue.name.to_string(),
        job: Some(job.definition.name.to_owned()),
        id: Some(job.id.clone()),
        attempt: Some(job.number),
        worker: Some(consumer.worker.to_string()),
        message: None,
        elapsed: None,
        unsure: false,
    }
}

/// Tells that a payload is broken, for this reason, and returns what is written of it.
pub(super) fn broken(
    core: &Core,
    consumer: &Consumer,
    lease: &Lease,
    reason: &str,
) -> Option<Arc<String>> {
    core.hooks.events.tell(|| Event {
        kind: EventKind::Broken,
        at: core.clock.unix_ms(),
        queue: consumer.queue.name.to_string(),
        job: None,
        id: None,
        attempt: None,
        worker: Some(consumer.worker.to_string()),
        message: Some(reason.to_owned()),
        elapsed: None,
        unsure: false,
    });
    consumer.events.has(Events::Ends).then(|| {
        let message = Some(bounded(reason, MESSAGE_BYTES).into());
        let line = Line { message, ..Line::new(EventKind::Broken, None, None) };
        consumer.events.end(lease, line.text())
    })
}

fn report(
    consumer: &Consumer,
    job: &Job,
    ran: Option<Duration>,
    evidence: &Evidence,
    is_last: bool,
) -> ErrorReport {
    let backtrace = evidence.backtrace.as_deref();
    ErrorReport {
        id: job.id.clone(),
        job: job.definition.name.to_owned(),
        queue: consumer.queue.name.to_string(),
        attempt: job.number,
        max_attempts: job.max_attempts,
        is_last,
        kind: evidence.kind,
        message: evidence.message.clone(),
        place: evidence.place.clone(),
        backtrace: backtrace.map(|trace| bounded(trace, BACKTRACE_BYTES)),
        worker: consumer.worker.to_string(),
        tags: tags(&job.payload),
        elapsed: ran,
    }
}

/// Tells it of a run of a cron entry. The id of a job says whether it is one.
#[cfg(feature = "cron")]
fn check_in(
    core: &Core,
    consumer: &Consumer,
    job: &Job,
    state: CheckinState,
    elapsed: Option<Duration>,
) {
    if core.hooks.checkins.is_empty() {
        return;
    }
    let Some((entry, due)) = run_of(job.id.as_str()) else { return };
    core.hooks.checkins.tell(|| {
        let When { cron, every: every_ms, timezone } = When::of(&job.payload);
        Checkin {
            state,
            entry: entry.to_owned(),
            queue: consumer.queue.name.to_string(),
            id: job.id.clone(),
            job: job.definition.name.to_owned(),
            due,
            cron,
            every_ms,
            timezone,
            elapsed,
        }
    });
}
