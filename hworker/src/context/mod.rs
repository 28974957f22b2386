//! What a body can ask about its own attempt, and the state that the worker gives to it.

mod end;
mod inject;
mod report;
mod states;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::encryption::Encrypted;
use crate::envelope::{JobId, meta, tags};

pub(crate) use end::End;
pub(crate) use inject::shown_type;
pub use inject::{Inject, Needs, State};
pub(crate) use report::{MOST_BYTES, MOST_LINES, Report, Unwritten};
pub(crate) use states::{States, blocks_in_body_of, in_body_of, state_in_body};

/// What a job knows about the attempt that it is running; take it as a parameter.
///
/// ```
/// #[hworker::job]
/// async fn sync_ledger(account: u64, context: hworker::Context) {
///     println!("account {account}: attempt {} of job {}", context.attempt(), context.id());
/// }
/// ```
#[derive(Clone)]
pub struct Context {
    attempt: Arc<Attempt>,
}

/// What the attempts of one queue in one worker have in common.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) queue: Arc<str>,
    /// The label of the shard.
    pub(crate) shard: Arc<str>,
    pub(crate) worker: Arc<str>,
    pub(crate) states: Arc<States>,
    /// The worker takes no more jobs of the queue.
    pub(crate) stopping: CancellationToken,
    /// The runtime of the bodies; none in a test.
    pub(crate) runtime: Option<Handle>,
}

/// A job that a worker holds, as far as a body can ask.
pub(crate) trait Held: Send + Sync {
    /// The name of its lease.
    fn lease(&self) -> String;
    /// Whether its arguments are encrypted, and what it reports.
    fn encrypted(&self) -> Encrypted;
    /// Whether other workers run it too, each for itself.
    fn is_copy(&self) -> bool;
    /// Its envelope.
    fn payload(&self) -> &str;
    /// The batch to which it belongs, and as what.
    fn of(&self) -> Option<&str>;
}

/// The facts of one attempt.
pub(crate) struct Attempt {
    pub(crate) id: JobId,
    pub(crate) job: &'static str,
    pub(crate) number: u32,
    pub(crate) max_attempts: u32,
    pub(crate) token: u64,
    pub(crate) deadline: Instant,
    pub(crate) scope: Arc<Scope>,
    pub(crate) end: End,
    /// None in a test.
    pub(crate) held: Option<Arc<dyn Held>>,
    pub(crate) report: OnceLock<Report>,
}

impl Context {
    pub(crate) fn new(attempt: Attempt) -> Self {
        Self { attempt: Arc::new(attempt) }
    }

    /// A context for a unit test that calls the function of a job itself: attempt `attempt` (from 1) of 25, of a job with an id of its
    /// own, with 120 s left. Nothing cancels it, and there is no state in it.
    ///
    /// ```
    /// use hworker::Context;
    ///
    /// #[hworker::job]
    /// async fn is_first(context: Context) -> bool {
    ///     context.attempt() == 1
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert!(is_first(Context::for_test(1)).await);
    /// assert!(!is_first(Context::for_test(2)).await);
    /// # }
    /// ```
    #[must_use]
    pub fn for_test(attempt: u32) -> Self {
        let scope = Scope {
            queue: "default".into(),
            shard: "default".into(),
            worker: "test".into(),
            states: Arc::default(),
            stopping: CancellationToken::new(),
            runtime: None,
        };
        Self::new(Attempt {
            id: JobId::fresh(),
            job: "test",
            number: attempt,
            max_attempts: 25,
            token: 1,
            deadline: Instant::now() + Duration::from_secs(120),
            scope: Arc::new(scope),
            end: End::default(),
            held: None,
            report: OnceLock::new(),
        })
    }

    /// The job's id: the same over all its attempts.
    #[must_use]
    pub fn id(&self) -> &JobId {
        &self.attempt.id
    }

    /// The name of the job type.
    #[must_use]
    pub fn job(&self) -> &str {
        self.attempt.job
    }

    /// The queue that the job was taken from.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.attempt.scope.queue
    }

    /// The id of the worker that runs it.
    #[must_use]
    pub fn worker(&self) -> &str {
        &self.attempt.scope.worker
    }

    /// Which attempt this is, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt.number
    }

    /// How many attempts the job has.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        self.attempt.max_attempts
    }

    /// What its producer noted beside its arguments by this name, with [`Enqueue::meta`](crate::Enqueue::meta): a text as it is, anything else as JSON.
    #[must_use]
    pub fn meta(&self, name: &str) -> Option<String> {
        Some(match self.all_meta().remove(name)? {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        })
    }

    pub(crate) fn all_meta(&self) -> serde_json::Map<String, serde_json::Value> {
        self.attempt.held.as_ref().map(|held| meta(held.payload())).unwrap_or_default()
    }

    /// Its tags.
    #[must_use]
    pub fn tags(&self) -> Vec<String> {
        self.attempt.held.as_ref().map(|held| tags(held.payload())).unwrap_or_default()
    }

    /// The fencing token of this attempt: it grows from attempt to attempt of a job, and from lease to lease of its
    /// queue. A store that refuses writes with a token lower than the highest that it has seen is safe from a worker
    /// that was stopped, lost its lease, and goes on.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.attempt.token
    }

    /// When the attempt runs over its timeout.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.attempt.deadline
    }

    /// The time left until the deadline; zero after it.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.attempt.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether the attempt is over: it ran out of time, lost its lease, the worker's shutdown grace has ended, or somebody
    /// [cancelled](crate::Action::Cancel) the job. Async bodies are dropped then, unless their type says `on_cancel = "token"` and the job is
    /// cancelled; these and blocking ones should check this and return.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.attempt.end.is_reached() || self.attempt.end.is_ordered()
    }

    /// Whether the worker was told to stop: it takes no more jobs, and gives back what still runs when its
    /// [grace](crate::WorkerBuilder::shutdown_grace) is over. A long body can save a [checkpoint](Self::checkpoint) and return
    /// [`snooze`](crate::snooze); [`each`](Self::each) does so by itself.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.attempt.scope.stopping.is_cancelled()
    }

    /// Completes when the attempt is over. For tasks you spawned yourself, with a clone of the context; an async body is dropped at that
    /// moment and never sees it. Cancel safe.
    ///
    /// ```
    /// #[hworker::job(timeout = "30s")]
    /// async fn export(table: String, context: hworker::Context) {
    ///     let cancelled = context.clone();
    ///     tokio::spawn(async move {
    ///         cancelled.cancelled().await; // also when the body has returned
    ///         println!("{table}: the temporary file can go");
    ///     });
    /// }
    /// ```
    pub async fn cancelled(&self) {
        let notice = self.attempt.end.notice().notified();
        tokio::pin!(notice);
        // Registered before the look, so that an end between the two is not missed.
        notice.as_mut().enable();
        if !self.is_cancelled() {
            notice.await;
        }
    }

    /// Starts a task that ends with this job: when the body returns, or is dropped, the task is aborted. What it enqueues goes to the
    /// server of its worker, as in the body.
    ///
    /// # Panics
    /// Outside a tokio runtime; every body, blocking ones too, runs inside one.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.attempt.end.spawn(in_body_of(Arc::clone(&self.attempt.scope.states), task));
    }

    /// The batch to which the job belongs, and as what.
    pub(crate) fn of(&self) -> Option<&str> {
        self.attempt.held.as_ref()?.of()
    }

    /// A state of its worker.
    pub(crate) fn worker_state<T: Clone + 'static>(&self) -> Option<T> {
        self.states().get()
    }

    fn states(&self) -> &States {
        &self.attempt.scope.states
    }

    /// The facts of the attempt.
    pub(crate) fn attempt_of(&self) -> &Attempt {
        &self.attempt
    }

    /// What the body reports.
    pub(crate) fn report(&self) -> &Report {
        self.attempt.report.get_or_init(Report::default)
    }

    /// The same, if it has reported anything.
    pub(crate) fn reported(&self) -> Option<&Report> {
        self.attempt.report.get()
    }

    /// Ends the attempt; the job runs again after the delay, as the same attempt.
    pub(crate) fn suspend(&self, delay: Duration) {
        self.attempt.end.suspend(delay);
        self.cancel();
    }

    /// Whether the body asked for that, and after which delay.
    pub(crate) fn suspended(&self) -> Option<Duration> {
        self.attempt.end.suspended()
    }

    /// Ends the attempt, called by the task that runs it: every other holder of this context learns of it.
    pub(crate) fn end(&self) {
        drop(self.attempt.end.reach());
    }

    /// Notes that somebody cancelled the job; the body goes on, and can ask.
    pub(crate) fn order_end(&self) {
        self.attempt.end.order();
    }

    /// Whether somebody cancelled the job.
    pub(crate) fn is_ordered_to_end(&self) -> bool {
        self.attempt.end.is_ordered()
    }

    /// Completes when the attempt is over, whether or not somebody cancelled the job before.
    pub(crate) async fn over(&self) {
        loop {
            let notice = self.attempt.end.notice().notified();
            tokio::pin!(notice);
            notice.as_mut().enable();
            if self.attempt.end.is_reached() {
                return;
            }
            notice.await;
        }
    }

    /// Cancels the attempt: also wakes the task that runs it.
    pub(crate) fn cancel(&self) {
        if let Some(task) = self.attempt.end.reach() {
            task.wake();
        }
    }

    /// Whether the attempt is cancelled; if not, the task that runs it is woken once when it is.
    pub(crate) fn poll_cancelled(&self, cx: &std::task::Context<'_>) -> Poll<()> {
        self.attempt.end.poll_reached(cx)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("id", &self.attempt.id)
            .field("job", &self.attempt.job)
            .field("attempt", &self.attempt.number)
            .field("token", &self.attempt.token)
            .finish_non_exhaustive()
    }
}
