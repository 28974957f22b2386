//! One attempt, from its reserved bytes to its settlement.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::unconstrained;
use tokio::time::sleep_until;
use tracing::instrument::{Instrument, Instrumented};
use tracing::{Span, info_span};

use crate::context::{Attempt, Context, Held, Scope};
use crate::envelope::{bounded, describe};
use crate::job::{Body, Invocation, Isolation, StartError};
use crate::outcome::Returned;
use crate::reports::{self, Ends};
use crate::store::{End, Lease, Settlement};
use crate::worker::attempt::admit::{CANCELLED, admit};
use crate::worker::attempt::blocking::{self, BlockingBody};
use crate::worker::attempt::decide::{Evidence, Finish, Transition};
use crate::worker::attempt::decode::{REASON_BYTES, park, read};
use crate::worker::attempt::finish::{conclude, decided};
use crate::worker::attempt::panic::{self, Caught};
use crate::worker::attempt::{record, stopped, tell};
use crate::worker::isolate::{self, Isolated};
use crate::worker::layers::wrap;
use crate::worker::state::{
    Admitted, Consumer, Core, Job, Reason, Running, Slot, WaitingJob, Warning,
};

/// How long a job waits for which no process could be started.
const NO_PROCESS_PAUSE_MS: u64 = 2_000;

/// An attempt is over: its settlement, `None` if its lease has ended elsewhere, and its slot.
pub(crate) struct Over(pub(crate) Option<Settlement>, pub(crate) Slot);

/// A body that was polled once, or is about to start on a thread of its own.
pub(crate) struct Pending {
    started: Started,
    body: Unfinished,
    slot: Slot,
}

enum Unfinished {
    Async(Caught<AsyncBody>),
    Blocking(Caught<BlockingBody>, Span),
    /// In a process of its own.
    Isolated(Isolation),
    /// It has ended, and what it reported last is to be written.
    Ended(Finish),
}

/// The body in its span.
type AsyncBody = Instrumented<Pin<Box<dyn Future<Output = Returned> + Send>>>;

impl Pending {
    /// Waits for the end of the body.
    pub(crate) async fn over(self, core: &Core, consumer: &Consumer) -> Over {
        let Self { started, body, slot } = self;
        let (job, context) = (&started.job, &started.context);
        let finish = match body {
            Unfinished::Ended(finish) => Some(finish),
            Unfinished::Async(body) => run_async(body, context, job.timeout).await,
            Unfinished::Blocking(body, span) => {
                blocking::run(body, span, (job, context), core).await
            }
            Unfinished::Isolated(isolation) => {
                match isolate::run(core, job, context, isolation).await {
                    Isolated::Finished(finish) => finish,
                    Isolated::Unfit(why) => {
                        context.end();
                        let end = || unfit(core, consumer, job, why);
                        return Over(consumer.end(&job.lease, end), slot);
                    }
                    Isolated::NoProcess(why) => {
                        context.end();
                        let end = || no_process(core, consumer, job, &why);
                        return Over(consumer.end(&job.lease, end), slot);
                    }
                }
            }
        };
        let (elapsed, becomes) = started.becomes(core, consumer, finish);
        reports::last(context, reported_as(becomes.as_ref())).await;
        Over(started.settle(core, consumer, elapsed, becomes), slot)
    }
}

/// How an attempt ends that becomes this, for what it has reported.
pub(crate) fn reported_as(becomes: Option<&Transition>) -> Ends {
    match becomes {
        Some(Transition::Ack(_) | Transition::Cancel(_) | Transition::Expire(_)) => Ends::Done,
        Some(Transition::Fail(_)) => Ends::Failed,
        Some(Transition::Retry(..) | Transition::Snooze(_) | Transition::SlowDown(_)) | None => {
            Ends::NotYet
        }
    }
}

/// Starts a reserved job and polls its body once. An error if the attempt is over with that, or cannot run.
pub(crate) async fn start(
    core: &Arc<Core>,
    consumer: &Arc<Consumer>,
    job: WaitingJob,
    slot: Slot,
    now: Instant,
) -> Result<Pending, Over> {
    match begin(core, consumer, job, now).await {
        Ok((started, body)) => Ok(Pending { started, body, slot }),
        Err(settlement) => Err(Over(settlement, slot)),
    }
}

/// An attempt that has started.
struct Started {
    job: Arc<Job>,
    context: Context,
    at: Instant,
    _suspect: Option<OwnedSemaphorePermit>,
}

impl Started {
    /// Makes the settlement of an attempt that has ended; without a finish it was cancelled.
    fn end(&self, core: &Core, consumer: &Consumer, finish: Option<Finish>) -> Option<Settlement> {
        let (elapsed, becomes) = self.becomes(core, consumer, finish);
        self.settle(core, consumer, elapsed, becomes)
    }

    /// How long the body ran, and what becomes of the job; `None` if the attempt was cut off.
    fn becomes(
        &self,
        core: &Core,
        consumer: &Consumer,
        finish: Option<Finish>,
    ) -> (Duration, Option<Transition>) {
        let Self { job, context, at, .. } = self;
        context.end();
        let elapsed = at.elapsed();
        consumer.pace.ran(elapsed);
        // All code of the user runs before the lease ends: until then the supervisor keeps the deadline.
        let is_cancelled = context.is_ordered_to_end();
        let transition = finish.map(|mut finish| {
            // A result after the deadline does not count.
            if elapsed >= job.timeout {
                let timed_out = Finish::TimedOut(job.timeout);
                drop(Caught::new(std::mem::replace(&mut finish, timed_out)));
            }
            decided(core, job, finish, &job.definition.policy)
        });
        // Somebody cancelled the job: what succeeded all the same is done, and all else does not run again.
        let transition = match transition {
            Some(Transition::Ack(value)) => Some(Transition::Ack(value)),
            _ if is_cancelled => Some(Transition::Cancel(Evidence::new("cancelled", CANCELLED))),
            transition => transition,
        };
        (elapsed, transition)
    }

    fn settle(
        &self,
        core: &Core,
        consumer: &Consumer,
        elapsed: Duration,
        transition: Option<Transition>,
    ) -> Option<Settlement> {
        let job = &self.job;
        // If the supervisor settled it, or it was lost, this result does not count.
        let settlement = consumer.end(&job.lease, || match transition {
            None => record::interrupted(job).into(),
            Some(transition) => conclude(core, consumer, job, Some(elapsed), transition),
        });
        tell::over(core, consumer, job, elapsed, settlement.as_ref());
        settlement
    }
}

/// As [`start`]. An error has the settlement.
async fn begin(
    core: &Core,
    consumer: &Consumer,
    job: WaitingJob,
    now: Instant,
) -> Result<(Started, Unfinished), Option<Settlement>> {
    let Admitted { job, suspect } = match job {
        WaitingJob::Admitted(admitted) => admitted,
        WaitingJob::Reserved(lease, payload) => admit(core, consumer, &lease, payload)?,
    };
    if consumer.stopping.is_cancelled() {
        let end = || End::Released { delay_ms: 0, envelope: None };
        return Err(consumer.end(&job.lease, end));
    }
    if job.of.is_some()
        && let Some(end) = stopped::end(core, consumer, &job).await
    {
        return Err(consumer.end(&job.lease, || end));
    }
    let context = context(&consumer.scope, &job, now + job.timeout);
    let started = Started { job, context, at: now, _suspect: suspect };
    let job = &started.job;
    let mut body = match job.definition.isolate {
        Some(isolation) => Unfinished::Isolated(isolation),
        None => match body(job, &started.context)
            .map(|body| wrap(&core.layers, &started.context, body))
        {
            Ok(Body::Async(body)) => {
                let span = around(&consumer.scope, job);
                Unfinished::Async(Caught::new(body.instrument(span)))
            }
            Ok(Body::Blocking(body)) => {
                Unfinished::Blocking(Caught::new(body), around(&consumer.scope, job))
            }
            Err(Unstarted::Unfit(why)) => {
                return Err(consumer.end(&job.lease, || unfit(core, consumer, job, why)));
            }
            Err(Unstarted::Ended(finish)) => return Err(started.end(core, consumer, Some(finish))),
        },
    };
    let running = Running {
        job: Arc::clone(job),
        context: started.context.clone(),
        blocking: matches!(body, Unfinished::Blocking(..)),
    };
    if !consumer.leases.start(running) {
        let is_cancelled = started.context.is_ordered_to_end();
        drop(body);
        return Err(if is_cancelled { started.end(core, consumer, None) } else { None });
    }
    tell::begins(core, consumer, job);
    if let Unfinished::Async(polled) = &mut body
        && let Poll::Ready(result) =
            poll_fn(|cx| Poll::Ready(Pin::new(&mut *polled).poll(cx))).await
    {
        drop(body);
        if started.context.reported().is_some() {
            return Ok((started, Unfinished::Ended(result.into())));
        }
        return Err(started.end(core, consumer, Some(result.into())));
    }
    Ok((started, body))
}

/// Parks a job whose arguments do not fit.
fn unfit(core: &Core, consumer: &Consumer, job: &Job, text: String) -> End {
    let why = Warning { job: Some(job.definition.name), id: Some(job.id.clone()), text };
    let advice = match &job.upgraded {
        Some(Err(_)) => {
            "; `requeue_broken` puts back what broke, for a release whose `upgrade` takes it"
        }
        _ => {
            "; a new parameter that is an `Option`, or has `#[serde(default)]`, keeps old jobs running, and \
             `requeue_broken` puts back what broke"
        }
    };
    park(core, consumer, Reason::Args, why, advice);
    record::parked(job.payload.as_bytes())
}

/// Gives a job back for which no process could be started. Another worker may have one.
fn no_process(core: &Core, consumer: &Consumer, job: &Job, why: &str) -> End {
    let text = format!("no process for a job with `isolate`, it is given back: {why}");
    let why = Warning { job: Some(job.definition.name), id: Some(job.id.clone()), text };
    core.log_limit.warn(1, &consumer.queue.name, Reason::NoProcess, why);
    record::released(job, NO_PROCESS_PAUSE_MS)
}

/// How a body ended that ran in this process for a worker.
pub(crate) enum Here {
    /// None if it was cut off.
    Ended(Context, Option<Finish>),
    /// The arguments do not fit.
    Unfit(String),
}

/// Runs a body for the worker that started this process. `note` is told its context before it starts.
pub(crate) async fn here(
    core: &Core,
    job: &Arc<Job>,
    scope: &Arc<Scope>,
    deadline: Instant,
    note: impl FnOnce(&Context),
) -> Here {
    let context = context(scope, job, deadline);
    note(&context);
    let finish = match body(job, &context).map(|body| wrap(&core.layers, &context, body)) {
        Ok(Body::Async(body)) => {
            let body = Caught::new(body.instrument(around(scope, job)));
            run_async(body, &context, job.timeout).await
        }
        Ok(Body::Blocking(body)) => {
            blocking::run(Caught::new(body), around(scope, job), (job, &context), core).await
        }
        Err(Unstarted::Unfit(why)) => return Here::Unfit(why),
        Err(Unstarted::Ended(finish)) => Some(finish),
    };
    context.end();
    Here::Ended(context, finish)
}

/// The span of a body's log lines, if a subscriber wants it. Otherwise it costs a comparison of levels.
fn around(scope: &Scope, job: &Job) -> Span {
    let span = panic::catch(|| {
        info_span!(
            target: "hworker::job", "job",
            job.id = %job.id, job.name = job.definition.name, job.queue = %scope.queue, job.attempt = job.number,
            job.tags = tell::tag_list(job), worker.id = %scope.worker
        )
    });
    span.unwrap_or_else(|_| Span::none())
}

fn context(scope: &Arc<Scope>, job: &Arc<Job>, deadline: Instant) -> Context {
    let held: Arc<dyn Held> = Arc::<Job>::clone(job);
    Context::new(Attempt {
        id: job.id.clone(),
        job: job.definition.name,
        number: job.number,
        max_attempts: job.max_attempts,
        token: job.lease.token(),
        deadline,
        scope: Arc::clone(scope),
        end: crate::context::End::default(),
        held: Some(held),
        report: OnceLock::new(),
    })
}

/// Why this worker cannot run a parked job; `None` if it can.
pub(crate) fn why_not(core: &Core, consumer: &Consumer, payload: Vec<u8>) -> Option<String> {
    let job = match read(core, Lease::Token(0), payload) {
        Ok(job) => Arc::new(job),
        Err((why, _)) => return Some(why.why()),
    };
    let context = context(&consumer.scope, &job, Instant::now() + job.timeout);
    // The body is made to see whether the arguments fit. It is not polled. Dropping it may panic, as in a run.
    let made = panic::catch(|| match body(&job, &context) {
        Err(Unstarted::Unfit(why)) => Some(why),
        Ok(_) | Err(Unstarted::Ended(_)) => None,
    });
    made.unwrap_or(None)
}

/// Why there is no body to run.
enum Unstarted {
    /// The arguments do not fit; a newer build may have written them.
    Unfit(String),
    Ended(Finish),
}

fn body(job: &Job, context: &Context) -> Result<Body, Unstarted> {
    let args = job.args().ok_or_else(|| {
        let why = job.upgraded.clone().and_then(Result::err);
        Unstarted::Unfit(why.unwrap_or_else(|| "the arguments cannot be found".into()))
    })?;
    let invocation = Invocation { args, context };
    match panic::catch(|| (job.definition.start)(invocation)) {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(StartError::Args(error))) => {
            let mut why = describe(&error);
            // Names in encrypted arguments are as secret as their values. The names of missing fields are those of the program.
            if job.opened.is_some() && why.starts_with("unknown field") {
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

/// Polls the body until it ends or its time is over. Returns `None` if it is cancelled.
async fn run_async(
    mut body: Caught<AsyncBody>,
    context: &Context,
    limit: Duration,
) -> Option<Finish> {
    // Otherwise the timer would not be set after a body has used up the budget of its task.
    let mut timeout = pin!(unconstrained(sleep_until(context.deadline().into())));
    poll_fn(|cx| {
        if context.poll_cancelled(cx).is_ready() {
            let suspended = context.suspended();
            return Poll::Ready(suspended.map(|delay| Finish::Decided(Transition::Snooze(delay))));
        }
        if let Poll::Ready(result) = Pin::new(&mut body).poll(cx) {
            return Poll::Ready(Some(result.into()));
        }
        ready!(timeout.as_mut().poll(cx));
        Poll::Ready(Some(Finish::TimedOut(limit)))
    })
    .await
}
