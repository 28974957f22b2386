//! Turns the end of a body into the end of its lease.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::charts::{Counted, Rare};
use crate::envelope::bounded;
use crate::job::{OnFault, Policy};
use crate::outcome::Returned;
use crate::store::Concluded;
use crate::time::millis;
use crate::worker::attempt::decide::{
    Attempts, Evidence, Finish, MESSAGE_BYTES, Transition, decide,
};
use crate::worker::attempt::panic::{self, Caught};
use crate::worker::attempt::{record, tell};
use crate::worker::state::{Consumer, Core, Job};

/// Decides what happens to the job, with the user's `backoff` and `on_error`.
pub(crate) fn decided(core: &Core, job: &Job, finish: Finish, policy: &Policy) -> Transition {
    // The fast path: success.
    let finish = match finish {
        Finish::Returned(Returned::Success) => return Transition::Ack(None),
        Finish::Returned(Returned::Value(value)) => return Transition::Ack(Some(value)),
        finish => finish,
    };
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

/// For charts and totals.
fn count(core: &Core, consumer: &Consumer, job: &Job, ran: Option<Duration>, end: &Transition) {
    let rare = |what| consumer.charts.totals().add(job.definition.name, what, 1);
    let counted = match end {
        Transition::Ack(_) => Counted::Ok,
        Transition::Retry(..) => Counted::Retried,
        Transition::Fail(_) => Counted::Failed,
        Transition::Cancel(_) => return rare(Rare::Cancelled),
        Transition::Expire(_) => return rare(Rare::Expired),
        Transition::Snooze(_) | Transition::SlowDown(_) => return,
    };
    let waited = tell::waited(core, job, ran);
    consumer.charts.count(job.definition.name, counted, ran, waited);
}

/// Tells what happens to the job, once, and returns the end of its lease with what is told of that. `ran`: how long its body did, if it started.
pub(crate) fn conclude(
    core: &Core,
    consumer: &Consumer,
    job: &Job,
    ran: Option<Duration>,
    mut transition: Transition,
) -> Concluded {
    if let Transition::Snooze(delay) | Transition::SlowDown(delay) = transition
        && job.lease.is_copy()
        && job.retry_until.is_some_and(|until| core.clock.unix_ms() + millis(delay) > until)
    {
        // By then nothing is left of it, nor a trace.
        let why = Evidence::new("deadline", "it would run again after it has expired");
        transition = Transition::Fail(why);
    }
    if let Transition::Retry(_, evidence) | Transition::Fail(evidence) = &mut transition {
        evidence.message = bounded(&evidence.message, MESSAGE_BYTES);
    }
    count(core, consumer, job, ran, &transition);
    let event = tell::concluded(core, consumer, job, ran, &transition);
    Concluded { end: record::end(core, consumer, job, ran, transition), event }
}
