//! One attempt, from the reserved bytes to its settlement.

use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::sleep_until;
use tracing::{debug, warn};

use super::decide::{Attempts, Evidence, Finish, Transition, decide};
use super::incarnation::{Incarnation, Lane};
use super::leases::Running;
use super::panic::{self, Panic};
use super::ready::WaitingJob;
use super::settle;
use super::slots::Slot;
use crate::backoff::{Backoff, CallBackoff};
use crate::context::{Attempt, Context};
use crate::envelope::{Crash, Envelope, Header, JobId, bounded, describe};
use crate::job::{Body, Definition, Invocation, OnFault, Policy, StartError};
use crate::outcome::Returned;
use crate::store::{End, Lease, Settlement};

/// Code that blocks is given up so long after its deadline.
pub(super) const BLOCKING_GRACE: Duration = Duration::from_secs(2);

/// A job of a name that is not known here waits so long before somebody else may take it.
const UNKNOWN_PAUSE_MS: u64 = 5_000;

/// A suspect of crashes for which there is no room waits so long.
const SUSPECT_PAUSE_MS: u64 = 2_000;

/// Deaths of its worker count against a job for so long.
const CRASHES_COUNT_FOR_MS: u64 = 86_400_000;

/// A job under a lease, decoded.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) lease: Lease,
    pub(super) id: JobId,
    pub(super) definition: &'static Definition,
    pub(super) number: u32,
    pub(super) max_attempts: u32,
    pub(super) timeout: Duration,
    pub(super) backoff: Option<CallBackoff>,
    pub(super) retry_until: Option<u64>,
    pub(super) crashes: Vec<Crash>,
    pub(super) payload: Vec<u8>,
    /// Where in it the arguments are.
    args: Range<usize>,
}

/// A job that may run here and now.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) job: Arc<Job>,
    /// Its place among the suspects of crashes, if it is one.
    pub(super) suspect: Option<OwnedSemaphorePermit>,
}

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
    /// It runs on in a task of its own.
    Continues,
    /// It is over; the settlement, unless somebody else sees to it.
    Ended(Option<Settlement>, Room),
}

/// Starts a job that was reserved, and settles what cannot run.
pub(super) async fn start(
    incarnation: &Arc<Incarnation>,
    lane: &Arc<Lane>,
    job: WaitingJob,
    slot: Slot,
    now: Instant,
) -> First {
    let admitted = match job {
        WaitingJob::Admitted(admitted) => Ok(admitted),
        WaitingJob::Reserved(lease, payload) => admit(incarnation, lane, lease, payload),
    };
    let Admitted { job, suspect } = match admitted {
        Ok(admitted) => admitted,
        Err(settlement) => return First::Ended(settlement, Room { slot, _suspect: None }),
    };
    let room = Room { slot, _suspect: suspect };
    let started = Started { context: context(lane, &job, now + job.timeout), job, at: now };
    run(incarnation, lane, started, room).await
}

/// Decodes a job that was reserved and decides whether it may run here and now. If not, gives its settlement.
pub(super) fn admit(
    incarnation: &Incarnation,
    lane: &Lane,
    lease: Lease,
    payload: Vec<u8>,
) -> Result<Admitted, Option<Settlement>> {
    check(incarnation, lane, lease.clone(), payload).map_err(|end| {
        if let End::Broken { reason } = &end {
            warn!(queue = %lane.queue.name, "a job is broken: {reason}");
        }
        settlement(lane, lease, end)
    })
}

/// The settlement of a lease, unless somebody else sees to it.
fn settlement(lane: &Lane, lease: Lease, end: End) -> Option<Settlement> {
    lane.leases.end(&lease).then_some(Settlement { lease, end })
}

/// Whether the job may run here and now; if not, how its lease ends.
fn check(
    incarnation: &Incarnation,
    lane: &Lane,
    lease: Lease,
    payload: Vec<u8>,
) -> Result<Admitted, End> {
    let job = Arc::new(read(incarnation, lease, payload)?);
    if job.crashes.is_empty() && job.retry_until.is_none() {
        return Ok(Admitted { job, suspect: None });
    }
    let now = incarnation.core.clock.unix_ms();

    let recent = |crash: &&Crash| now.saturating_sub(crash.at) < CRASHES_COUNT_FOR_MS;
    let crashes = job.crashes.iter().filter(recent).count();
    let limit = incarnation.core.config.crash_limit;
    // At most once does not wear off after a day.
    let fails = job.definition.policy.on_crash == OnFault::Fail && !job.crashes.is_empty();
    if fails || crashes >= limit {
        let message = if fails {
            "its worker died while it ran, and it runs at most once".to_owned()
        } else {
            format!("its worker died {crashes} times within a day while it ran")
        };
        let evidence = Evidence::new("crash", message);
        warn!(job = job.definition.name, id = %job.id, queue = %lane.queue.name, crashes, "job failed: {}", evidence.message);
        return Err(settle::end(incarnation, lane, &job, Transition::Fail(evidence)));
    }
    if job.retry_until.is_some_and(|until| now > until) {
        let evidence = Evidence::new("deadline", "the time until which it may be tried is over");
        warn!(job = job.definition.name, id = %job.id, queue = %lane.queue.name, "job failed: {}", evidence.message);
        return Err(settle::end(incarnation, lane, &job, Transition::Fail(evidence)));
    }
    let suspect =
        lane.suspects.room_for(crashes, limit).map_err(|()| released(&job, SUSPECT_PAUSE_MS))?;
    Ok(Admitted { job, suspect })
}

fn released(job: &Job, delay_ms: u64) -> End {
    End::Released { delay_ms, envelope: settle::identified(job) }
}

/// Decodes everything but the arguments.
fn read(incarnation: &Incarnation, lease: Lease, payload: Vec<u8>) -> Result<Job, End> {
    let core = &incarnation.core;
    let broken = |reason: String| End::Broken { reason: bounded(&reason, 500) };
    let envelope =
        Envelope::decode(&payload).map_err(|reason| match Header::of_newer(&payload) {
            Some(newer) => unknown(incarnation, &newer, &payload),
            None => broken(reason),
        })?;
    let known = core.jobs.get(&*envelope.job).filter(|_| envelope.v <= crate::envelope::VERSION);
    let Some(definition) = known else {
        return Err(unknown(incarnation, &Header::from(&envelope), &payload));
    };
    let backoff = envelope.backoff.as_deref().map(CallBackoff::parse).transpose();
    let backoff = backoff.map_err(|why| broken(format!("the field `backoff`: {why}")))?;
    let policy = &definition.policy;
    let args = within(&payload, envelope.args.get());
    Ok(Job {
        id: envelope.id.as_deref().map_or_else(JobId::fresh, JobId::from),
        definition,
        number: envelope.attempt,
        max_attempts: envelope.max_attempts.unwrap_or(policy.max_attempts).max(1),
        timeout: Duration::from_millis(envelope.timeout.unwrap_or(policy.timeout_ms).max(1)),
        backoff,
        retry_until: envelope.retry_until,
        crashes: envelope.crashes,
        args,
        lease,
        payload,
    })
}

/// Where in the payload a part that was borrowed from it is.
fn within(payload: &[u8], part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - payload.as_ptr() as usize;
    start..start + part.len()
}

/// A deploy may be under way: the job is passed on for a while, then it is broken.
fn unknown(incarnation: &Incarnation, header: &Header, payload: &[u8]) -> End {
    let core = &incarnation.core;
    let now = core.clock.unix_ms();
    let since = header.unknown_since.unwrap_or(now);
    let waited = Duration::from_millis(now.saturating_sub(since));
    let name = bounded(&header.job, 200);
    let what = if header.v > crate::envelope::VERSION {
        format!("unknown version {} of the envelope of job `{name}`", header.v)
    } else {
        format!("unknown job `{name}`")
    };
    if header.unknown_since.is_some() && waited >= core.config.unknown_for {
        return End::Broken { reason: format!("{what}: no worker knew it for {waited:?}") };
    }
    if header.unknown_since.is_none() {
        warn!("{what}: passed on to other workers for {:?}", core.config.unknown_for);
    }
    let left = core.config.unknown_for.saturating_sub(waited);
    let pause = UNKNOWN_PAUSE_MS.min(crate::time::millis(left).max(1));
    End::Released { delay_ms: pause, envelope: settle::unknown_since(payload, since) }
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
    fn deadline(&self) -> Instant {
        self.at + self.job.timeout
    }

    /// Makes the settlement of an attempt that has ended.
    fn end(&self, incarnation: &Incarnation, lane: &Lane, ended: Ended) -> Option<Settlement> {
        let Self { job, context, at } = self;
        context.end();
        let elapsed = at.elapsed();
        lane.pace.ran(elapsed);
        debug!(job = job.definition.name, id = %job.id, elapsed_ms = elapsed.as_millis(), "attempt ended");
        if !lane.leases.end(&job.lease) {
            // The supervisor settled it, or it was lost: what happened here counts for nothing, and nothing is said of it.
            return None;
        }
        let end = match ended {
            Ended::Cancelled => released(job, 0),
            // A result that comes after the deadline counts for nothing.
            Ended::Finish(_) if elapsed >= job.timeout => {
                let finish = Finish::TimedOut(job.timeout);
                conclude(incarnation, lane, job, finish, &job.definition.policy)
            }
            Ended::Finish(finish) => {
                conclude(incarnation, lane, job, finish, &job.definition.policy)
            }
        };
        Some(Settlement { lease: job.lease.clone(), end })
    }

    /// The same in a task of its own.
    fn end_in_task(&self, incarnation: &Incarnation, lane: &Lane, ended: Ended, room: Room) {
        let settlement = self.end(incarnation, lane, ended);
        // Before the settlement is seen, so that whoever sends it already finds the slot free.
        drop(room);
        lane.settle(settlement);
    }
}

/// Starts the body of an admitted job and polls it once.
async fn run(
    incarnation: &Arc<Incarnation>,
    lane: &Arc<Lane>,
    started: Started,
    room: Room,
) -> First {
    let job = &started.job;
    if incarnation.stopping.is_cancelled() {
        let end = End::Released { delay_ms: 0, envelope: None };
        return First::Ended(settlement(lane, job.lease.clone(), end), room);
    }
    let body = match body(job, &started.context) {
        Ok(body) => body,
        Err(Unstarted::Broken(reason)) => {
            warn!(job = job.definition.name, id = %job.id, queue = %lane.queue.name, "job is broken: {reason}");
            let end = End::Broken { reason };
            return First::Ended(settlement(lane, job.lease.clone(), end), room);
        }
        Err(Unstarted::Ended(finish)) => {
            return First::Ended(started.end(incarnation, lane, Ended::Finish(finish)), room);
        }
    };
    let running = Running {
        job: Arc::clone(job),
        context: started.context.clone(),
        deadline: started.deadline(),
        blocking: matches!(body, Body::Blocking(_)),
    };
    if !lane.leases.start(&job.lease, running) {
        return First::Ended(None, room);
    }
    match body {
        Body::Async(future) => {
            let mut body = Caught(Some(future));
            if let Poll::Ready(result) = poll_once(&mut body).await {
                drop(body);
                let settlement = started.end(incarnation, lane, finished(result));
                return First::Ended(settlement, room);
            }
            let (incarnation, lane) = (Arc::clone(incarnation), Arc::clone(lane));
            tokio::spawn(async move {
                let ended = run_async(body, &started).await;
                started.end_in_task(&incarnation, &lane, ended, room);
            });
        }
        Body::Blocking(body) => {
            let (incarnation, lane) = (Arc::clone(incarnation), Arc::clone(lane));
            tokio::spawn(async move {
                let ended = run_blocking(body, &started, &incarnation).await;
                started.end_in_task(&incarnation, &lane, ended, room);
            });
        }
    }
    First::Continues
}

async fn poll_once(body: &mut Caught) -> Poll<Result<Returned, Panic>> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *body).poll(cx))).await
}

/// Decides what becomes of the job, says so once in the log, and writes the settlement.
pub(super) fn conclude(
    incarnation: &Incarnation,
    lane: &Lane,
    job: &Job,
    finish: Finish,
    policy: &Policy,
) -> End {
    // Nearly all there is.
    if matches!(finish, Finish::Returned(Returned::Success)) {
        return End::Acked { job: job.definition.name };
    }
    let time_left =
        |until: u64| Duration::from_millis(until.saturating_sub(incarnation.core.clock.unix_ms()));
    let attempts = Attempts {
        policy,
        number: job.number,
        max: job.max_attempts,
        backoff: job.backoff.as_ref(),
        time_left: job.retry_until.map(time_left),
    };
    // `backoff` and `on_error` may be functions of the user's.
    let transition = panic::catch(|| decide(finish, &attempts)).unwrap_or_else(|panic| {
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
    let (name, id, queue, attempt) = (job.definition.name, &job.id, &lane.queue.name, job.number);
    match &transition {
        Transition::Ack => {}
        Transition::Snooze(delay) => {
            debug!(job = name, %id, %queue, attempt, ?delay, "job snoozed");
        }
        Transition::Retry(delay, evidence) => {
            warn!(job = name, %id, %queue, attempt, kind = evidence.kind, ?delay, "job runs again: {}", evidence.message);
        }
        Transition::Fail(evidence) => {
            warn!(job = name, %id, %queue, attempt, kind = evidence.kind, "job failed: {}", evidence.message);
        }
    }
    settle::end(incarnation, lane, job, transition)
}

fn context(lane: &Lane, job: &Job, deadline: Instant) -> Context {
    Context::new(Attempt {
        id: job.id.clone(),
        job: job.definition.name,
        number: job.number,
        max_attempts: job.max_attempts,
        token: job.lease.token(),
        deadline,
        place: Arc::clone(&lane.place),
        end: crate::context::End::default(),
    })
}

/// Why there is no body to run.
enum Unstarted {
    Broken(String),
    Ended(Finish),
}

fn body(job: &Job, context: &Context) -> Result<Body, Unstarted> {
    let args = job.payload.get(job.args.clone()).and_then(|args| str::from_utf8(args).ok());
    let args = args.ok_or_else(|| Unstarted::Broken("the arguments cannot be found".into()))?;
    let invocation = Invocation { args, context: context.clone() };
    match panic::catch(|| (job.definition.start)(invocation)) {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(StartError::Args(error))) => Err(Unstarted::Broken(format!(
            "the arguments do not fit the job: {}",
            describe(&error)
        ))),
        Ok(Err(StartError::Inject(error))) => {
            Err(Unstarted::Ended(Finish::Returned(Returned::Error(error))))
        }
        Err(panic) => Err(Unstarted::Ended(Finish::Panicked(panic))),
    }
}

async fn run_async(body: Caught, started: &Started) -> Ended {
    tokio::select! {
        biased;
        () = started.context.cancelled() => Ended::Cancelled,
        result = body => finished(result),
        () = sleep_until(started.deadline().into()) => Ended::Finish(Finish::TimedOut(started.job.timeout)),
    }
}

fn finished(result: Result<Returned, Panic>) -> Ended {
    Ended::Finish(match result {
        Ok(returned) => Finish::Returned(returned),
        Err(panic) => Finish::Panicked(panic),
    })
}

/// A body whose panics, while it runs or is dropped, stay inside.
struct Caught(Option<Pin<Box<dyn Future<Output = Returned> + Send>>>);

impl Future for Caught {
    type Output = Result<Returned, Panic>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        let Some(body) = self.0.as_mut() else { return Poll::Pending };
        match panic::catch(|| body.as_mut().poll(cx)) {
            Ok(poll) => Poll::Ready(Ok(ready!(poll))),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        let body = self.0.take();
        if let Err(panic) = panic::catch(|| drop(body)) {
            warn!("a body panicked while it was dropped: {}", panic.message);
        }
    }
}

/// Runs a body that blocks on a thread of its own: tokio's pool would be waited for when the runtime is dropped.
async fn run_blocking(
    body: Box<dyn FnOnce() -> Returned + Send>,
    started: &Started,
    incarnation: &Incarnation,
) -> Ended {
    let Started { job, context, .. } = started;
    let name = job.definition.name;
    let (done, mut result) = oneshot::channel();
    let runtime = Handle::current();
    let threads = Arc::clone(&incarnation.core.blocking_threads);
    threads.fetch_add(1, Ordering::AcqRel);
    let count = Arc::clone(&threads);
    let spawned = std::thread::Builder::new().name(format!("hworker-{name}")).spawn(move || {
        let _runtime = runtime.enter();
        let result = panic::catch(body);
        count.fetch_sub(1, Ordering::AcqRel);
        let _ = done.send(result);
    });
    if let Err(error) = spawned {
        threads.fetch_sub(1, Ordering::AcqRel);
        let error = format!("no thread to run it on: {error}").into();
        return Ended::Finish(Finish::Returned(Returned::Error(error)));
    }
    tokio::select! {
        biased;
        () = context.cancelled() => return Ended::Cancelled,
        result = &mut result => return finished(result.unwrap_or_else(|_| Err(vanished()))),
        () = sleep_until(started.deadline().into()) => {}
    }
    // It cannot be dropped: it is told, and after the grace it is left to itself.
    context.end();
    if tokio::time::timeout(BLOCKING_GRACE, result).await.is_err() {
        warn!(
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
