//! One attempt, from the reserved bytes to its settlement.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::unconstrained;
use tokio::time::sleep_until;
use tracing::instrument::{Instrument, Instrumented};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Span, debug, info_span};

use super::admit::{admit, released};
use super::consumer::Lane;
use super::core::Core;
use super::decide::{Attempts, Evidence, Finish, MESSAGE_BYTES, Transition, decide};
use super::decode::{park, read};
use super::job::{Admitted, Job, Running};
use super::panic::{self, Caught, Panic};
use super::ready::WaitingJob;
use super::settle;
use super::slots::Slot;
use super::throttle::{Reason, Warning};
use crate::backoff::Backoff;
use crate::context::{Attempt, Context, blocks_in_body_of};
use crate::envelope::{bounded, describe};
use crate::guarded::guarded;
use crate::job::{Body, Invocation, Policy, StartError};
use crate::log::{one_line, say};
use crate::outcome::Returned;
use crate::store::{End, Lease, Settlement};

/// Code that blocks is given up so long after its deadline.
pub(super) const BLOCKING_GRACE: Duration = Duration::from_secs(2);

/// So much is kept, and logged, of why arguments could not be read.
const REASON_BYTES: usize = 500;

/// What a body holds while it runs; dropping it makes room for the next.
#[derive(Debug)]
pub(super) struct Room {
    slot: Slot,
    _suspect: Option<OwnedSemaphorePermit>,
}

impl Room {
    pub(super) fn into_slot(self) -> Slot {
        self.slot
    }
}

/// What became of a body at its first poll.
pub(super) enum First {
    /// It is not ready.
    Pending(Pending),
    Ended(Over),
}

/// An attempt is over: its settlement, unless somebody else sees to it, and the room that it had.
pub(super) struct Over(pub(super) Option<Settlement>, pub(super) Room);

/// A body that was polled once, or is about to be started on a thread of its own.
pub(super) struct Pending {
    started: Started,
    body: Unfinished,
    room: Room,
}

enum Unfinished {
    Async(Caught<AsyncBody>),
    Blocking(Caught<BlockingBody>, Span),
}

/// In its span.
type AsyncBody = Instrumented<Pin<Box<dyn Future<Output = Returned> + Send>>>;
type BlockingBody = Box<dyn FnOnce() -> Returned + Send>;

impl Pending {
    /// Awaits its end. `polled` if this task has polled it and not yielded since: a wake in between polls the task again.
    pub(super) async fn over(self, core: &Core, lane: &Lane, polled: bool) -> Over {
        let Self { started, body, room } = self;
        let ended = match body {
            Unfinished::Async(body) => run_async(body, &started, polled).await,
            Unfinished::Blocking(body, span) => run_blocking(body, span, &started, core).await,
        };
        Over(started.end(core, lane, ended), room)
    }
}

/// Starts a job that was reserved, and settles what cannot run.
pub(super) async fn start(
    core: &Arc<Core>,
    lane: &Arc<Lane>,
    job: WaitingJob,
    slot: Slot,
    now: Instant,
) -> First {
    let admitted = match job {
        WaitingJob::Admitted(admitted) => Ok(admitted),
        WaitingJob::Reserved(lease, payload) => admit(core, lane, lease, payload),
    };
    let Admitted { job, suspect } = match admitted {
        Ok(admitted) => admitted,
        Err(settlement) => return First::Ended(Over(settlement, Room { slot, _suspect: None })),
    };
    let room = Room { slot, _suspect: suspect };
    let started = Started { context: context(lane, &job, now + job.timeout), job, at: now };
    run(core, lane, started, room).await
}

/// How a body ended.
enum Ended {
    Finish(Finish),
    /// The lease was lost, or the worker gives it back.
    Cancelled,
}

/// An attempt under way.
struct Started {
    job: Arc<Job>,
    context: Context,
    at: Instant,
}

impl Started {
    /// Makes the settlement of an attempt that has ended.
    fn end(&self, core: &Core, lane: &Lane, ended: Ended) -> Option<Settlement> {
        let Self { job, context, at } = self;
        context.end();
        let elapsed = at.elapsed();
        lane.pace.ran(elapsed);
        // All that is the user's runs before the lease ends: until then the supervisor keeps the deadline.
        let transition = match ended {
            Ended::Cancelled => None,
            Ended::Finish(mut finish) => {
                // A result that comes after the deadline counts for nothing.
                if elapsed >= job.timeout {
                    let timed_out = Finish::TimedOut(job.timeout);
                    drop(Caught::new(std::mem::replace(&mut finish, timed_out)));
                }
                Some(decided(core, job, finish, &job.definition.policy))
            }
        };
        // The supervisor may have settled it, or it was lost: what happened here counts for nothing then.
        let end = lane.leases.end(&job.lease).then(|| match transition {
            None => released(job, 0),
            Some(transition) => conclude(core, lane, job, transition),
        });
        // In place, as there is one for each job; where nobody hears it there is nothing to guard.
        if Level::DEBUG <= LevelFilter::current() {
            guarded(|| {
                debug!(
                    job = job.definition.name, id = %job.id, queue = %lane.queue.name, attempt = job.number,
                    outcome = outcome(end.as_ref()), elapsed_ms = elapsed.as_millis(), "attempt ended"
                );
            });
        }
        Some(Settlement { lease: job.lease.clone(), end: end? })
    }
}

/// Starts the body of an admitted job and polls it once.
async fn run(core: &Core, lane: &Lane, started: Started, room: Room) -> First {
    let job = &started.job;
    if lane.stopping.is_cancelled() {
        let end = End::Released { delay_ms: 0, envelope: None };
        return First::Ended(Over(unstarted(lane, job, || end), room));
    }
    let body = match body(job, &started.context) {
        Ok(body) => body,
        Err(Unstarted::Unfit(reason)) => {
            let end = || {
                let why = Warning {
                    job: Some(job.definition.name),
                    id: Some(job.id.clone()),
                    text: reason,
                };
                let advice = "; a new parameter that is an `Option`, or has `#[serde(default)]`, keeps old jobs running, and \
                            `requeue_broken` puts back what broke";
                park(core, lane, Reason::Args, why, advice);
                settle::parked(job.payload.as_bytes())
            };
            return First::Ended(Over(unstarted(lane, job, end), room));
        }
        Err(Unstarted::Ended(finish)) => {
            let settlement = started.end(core, lane, Ended::Finish(finish));
            return First::Ended(Over(settlement, room));
        }
    };
    let running = Running {
        job: Arc::clone(job),
        context: started.context.clone(),
        blocking: matches!(body, Body::Blocking(_)),
    };
    let mut body = match body {
        Body::Async(body) => Unfinished::Async(Caught::new(body.instrument(around(lane, job)))),
        Body::Blocking(body) => Unfinished::Blocking(Caught::new(body), around(lane, job)),
    };
    if !lane.leases.start(running) {
        return First::Ended(Over(None, room));
    }
    if let Unfinished::Async(polled) = &mut body
        && let Poll::Ready(result) = poll_once(polled).await
    {
        drop(body);
        let settlement = started.end(core, lane, finished(result));
        return First::Ended(Over(settlement, room));
    }
    First::Pending(Pending { started, body, room })
}

/// What a body says is in this span, for a subscriber that is interested in it; for any other it is a comparison of levels.
fn around(lane: &Lane, job: &Job) -> Span {
    let span = panic::catch(|| {
        info_span!(
            target: "hworker::job", "job",
            job.id = %job.id, job.name = job.definition.name, job.queue = %lane.queue.name, job.attempt = job.number
        )
    });
    span.unwrap_or_else(|_| Span::none())
}

/// What became of a job, in a word.
fn outcome(end: Option<&End>) -> &'static str {
    match end {
        Some(End::Acked { .. }) => "done",
        Some(End::Retried { .. }) => "retried",
        Some(End::Failed { .. }) => "failed",
        Some(End::Broken { .. }) => "broken",
        Some(End::Parked { .. }) => "parked",
        Some(End::Released { delay_ms: 0, .. }) => "given back",
        Some(End::Released { .. }) => "snoozed",
        None => "lost",
    }
}

/// The settlement of a job that is not started, unless somebody else sees to it.
fn unstarted(lane: &Lane, job: &Job, end: impl FnOnce() -> End) -> Option<Settlement> {
    let lease = &job.lease;
    lane.leases.end(lease).then(|| Settlement { lease: lease.clone(), end: end() })
}

async fn poll_once(body: &mut Caught<AsyncBody>) -> Poll<Result<Returned, Panic>> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *body).poll(cx))).await
}

/// Decides what becomes of the job, with what the user says to that.
pub(super) fn decided(core: &Core, job: &Job, finish: Finish, policy: &Policy) -> Transition {
    // Nearly all there is.
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
    // `backoff` and `on_error` may be functions of the user's.
    let transition = panic::catch(|| decide(&finish, &attempts)).unwrap_or_else(|panic| {
        let evidence =
            Evidence::new("panic", format!("`backoff` or `on_error` panicked: {}", panic.message));
        if job.number < job.max_attempts {
            let error = evidence.message.clone().into();
            Transition::Retry(
                crate::backoff::delay(&Backoff::DEFAULT, None, job.number, &error),
                evidence,
            )
        } else {
            Transition::Fail(evidence)
        }
    });
    drop(Caught::new(finish));
    transition
}

/// Says once in the log what becomes of the job, and writes the settlement.
pub(super) fn conclude(core: &Core, lane: &Lane, job: &Job, mut transition: Transition) -> End {
    if let Transition::Retry(_, evidence) | Transition::Fail(evidence) = &mut transition {
        evidence.message = bounded(&evidence.message, MESSAGE_BYTES);
    }
    let (name, attempt) = (job.definition.name, job.number);
    let (id, queue) = (job.id.clone(), lane.queue.name.clone());
    match &transition {
        Transition::Ack => {}
        Transition::Snooze(delay) => {
            say!(DEBUG, { delay = *delay }, job = name, %id, %queue, attempt, ?delay, "job snoozed");
        }
        Transition::Retry(delay, evidence) => {
            say!(WARN, { kind = evidence.kind, message = one_line(&evidence.message), delay = *delay },
                job = name, %id, %queue, attempt, kind, ?delay, "job runs again: {message}");
        }
        Transition::Fail(evidence) => {
            say!(ERROR, { kind = evidence.kind, message = one_line(&evidence.message) },
                job = name, %id, %queue, attempt, kind, "job failed: {message}");
        }
    }
    settle::end(core, lane, job, transition)
}

fn context(lane: &Lane, job: &Job, deadline: Instant) -> Context {
    Context::new(Attempt {
        id: job.id.clone(),
        job: job.definition.name,
        number: job.number,
        max_attempts: job.max_attempts,
        token: job.lease.token(),
        deadline,
        scope: Arc::clone(&lane.scope),
        end: crate::context::End::default(),
    })
}

/// Why this worker cannot run a job that is parked; `None` where it can.
pub(super) fn why_not(core: &Core, lane: &Lane, payload: Vec<u8>) -> Option<String> {
    let job = match read(core, Lease::Token(0), payload) {
        Ok(job) => job,
        Err((why, _)) => return Some(why.why()),
    };
    let context = context(lane, &job, Instant::now() + job.timeout);
    // The body is made to see whether the arguments fit, and not polled. To drop it may panic, as it does where it runs.
    let made = panic::catch(|| match body(&job, &context) {
        Err(Unstarted::Unfit(why)) => Some(why),
        Ok(_) | Err(Unstarted::Ended(_)) => None,
    });
    made.unwrap_or(None)
}

/// Why there is no body to run.
enum Unstarted {
    /// The arguments do not fit, those of a newer build perhaps.
    Unfit(String),
    Ended(Finish),
}

fn body(job: &Job, context: &Context) -> Result<Body, Unstarted> {
    let args =
        job.args().ok_or_else(|| Unstarted::Unfit("the arguments cannot be found".into()))?;
    let invocation = Invocation { args, context };
    match panic::catch(|| (job.definition.start)(invocation)) {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(StartError::Args(error))) => {
            let mut why = describe(&error);
            // The names in arguments are as secret as what they name; those that are missing are the program's.
            if job.is_encrypted() && why.starts_with("unknown field") {
                why = format!("unknown field at line {} column {}", error.line(), error.column());
            }
            let why = bounded(&why, REASON_BYTES);
            Err(Unstarted::Unfit(format!("the arguments do not fit the job: {why}")))
        }
        Ok(Err(StartError::Inject(error))) => {
            Err(Unstarted::Ended(Finish::Returned(Returned::Error(error))))
        }
        Err(panic) => Err(Unstarted::Ended(Finish::Panicked(panic))),
    }
}

async fn run_async(mut body: Caught<AsyncBody>, started: &Started, mut polled: bool) -> Ended {
    let context = &started.context;
    // Else a body that has used up the budget of its task would keep it from being set.
    let mut timeout = pin!(unconstrained(sleep_until(context.deadline().into())));
    let mut hears = false;
    poll_fn(|cx| {
        let cancelled =
            if hears { context.is_cancelled() } else { context.poll_cancelled(cx).is_ready() };
        hears = true;
        if cancelled {
            return Poll::Ready(Ended::Cancelled);
        }
        if !std::mem::take(&mut polled)
            && let Poll::Ready(result) = Pin::new(&mut body).poll(cx)
        {
            return Poll::Ready(finished(result));
        }
        ready!(timeout.as_mut().poll(cx));
        Poll::Ready(Ended::Finish(Finish::TimedOut(started.job.timeout)))
    })
    .await
}

fn finished(result: Result<Returned, Panic>) -> Ended {
    Ended::Finish(match result {
        Ok(returned) => Finish::Returned(returned),
        Err(panic) => Finish::Panicked(panic),
    })
}

/// Runs a body that blocks on a thread of its own: tokio's pool would be waited for when the runtime is dropped.
async fn run_blocking(
    mut body: Caught<BlockingBody>,
    span: Span,
    started: &Started,
    core: &Core,
) -> Ended {
    let Started { job, context, .. } = started;
    let name = job.definition.name;
    let (done, mut result) = oneshot::channel();
    let runtime = Handle::current();
    let threads = Arc::clone(&core.blocking_threads);
    threads.fetch_add(1, Ordering::AcqRel);
    let count = Arc::clone(&threads);
    let states = Arc::clone(&core.states);
    let spawned = std::thread::Builder::new().name(format!("hworker-{name}")).spawn(move || {
        let _runtime = runtime.enter();
        let result = body.take().map_or_else(
            || Err(vanished()),
            |body| panic::catch(|| span.in_scope(|| blocks_in_body_of(states, body))),
        );
        count.fetch_sub(1, Ordering::AcqRel);
        let _ = done.send(Caught::new(result));
    });
    if let Err(error) = spawned {
        threads.fetch_sub(1, Ordering::AcqRel);
        let error = format!("no thread to run it on: {error}").into();
        return Ended::Finish(Finish::Returned(Returned::Error(error)));
    }
    tokio::select! {
        biased;
        () = context.cancelled() => return Ended::Cancelled,
        result = &mut result => {
            let result = result.ok().and_then(|mut result| result.take());
            return finished(result.unwrap_or_else(|| Err(vanished())));
        }
        () = sleep_until(started.context.deadline().into()) => {}
    }
    // It cannot be dropped: it is told, and after the grace it is left to itself.
    context.end();
    if tokio::time::timeout(BLOCKING_GRACE, result).await.is_err() {
        say!(
            WARN,
            job = name,
            "a blocking body did not return within {BLOCKING_GRACE:?} of its timeout; its thread is left to itself"
        );
    }
    Ended::Finish(Finish::TimedOut(job.timeout))
}

/// The thread ended without a result, which a panic does not bring about.
fn vanished() -> Panic {
    Panic { message: "the thread of the body ended".into(), place: None, backtrace: None }
}
