//! What a body can ask about its own attempt, and the state that the worker gives to it.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::task::futures::TaskLocalFuture;

use crate::envelope::JobId;
use crate::error::BoxError;

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
    pub(crate) worker: Arc<str>,
    pub(crate) states: Arc<States>,
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
}

/// How an attempt ends for all that holds its context. Nothing of it is allocated before it is asked for: most
/// attempts end without anybody having asked.
#[derive(Default)]
pub(crate) struct End {
    reached: AtomicBool,
    /// Made under the lock of `holders`, so that whoever makes it sees the end that did not find it.
    notice: OnceLock<Notify>,
    holders: Mutex<Holders>,
}

/// Who is to hear of an end, beside those that wait for a notice.
#[derive(Default)]
struct Holders {
    /// The task that runs the body: for it a notice would be another allocation, and a lock at each poll.
    task: Option<Waker>,
    children: Option<JoinSet<()>>,
}

impl End {
    fn notice(&self) -> &Notify {
        self.notice.get().unwrap_or_else(|| {
            let _holders = self.holders();
            self.notice.get_or_init(Notify::new)
        })
    }

    fn holders(&self) -> MutexGuard<'_, Holders> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it for all but the task that runs the body, which is given to whoever asks.
    fn reach(&self) -> Option<Waker> {
        let mut holders = self.holders();
        self.reached.store(true, Ordering::Release);
        if let Some(notice) = self.notice.get() {
            // Who waits may wake in a way of the user's.
            crate::guarded::guarded(|| notice.notify_waiters());
        }
        if let Some(children) = &mut holders.children {
            children.abort_all();
        }
        holders.task.take()
    }
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
        let scope =
            Scope { queue: "default".into(), worker: "test".into(), states: Arc::default() };
        Self::new(Attempt {
            id: JobId::fresh(),
            job: "test",
            number: attempt,
            max_attempts: 25,
            token: 1,
            deadline: Instant::now() + Duration::from_secs(120),
            scope: Arc::new(scope),
            end: End::default(),
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

    /// Whether the attempt is over for the worker: out of time, its lease lost, or the worker stopping and its grace over; until then
    /// a stop lets it run. An async body is dropped then; a blocking one should look here from time to time and return.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.attempt.end.reached.load(Ordering::Acquire)
    }

    /// Completes when the attempt is cancelled. Cancel safe.
    ///
    /// For what a body started elsewhere and does not own, with a clone of the context: an async body is itself dropped at that moment, so
    /// a branch of its own that awaits this never goes on.
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
        let mut holders = self.attempt.end.holders();
        if !self.is_cancelled() {
            let children = holders.children.get_or_insert_default();
            // Those that have ended would be kept until the job does.
            while children.try_join_next().is_some() {}
            children.spawn(in_body_of(Arc::clone(&self.attempt.scope.states), task));
        }
    }

    /// The attempt is over, says the task that runs it: everything else that holds this context hears of it.
    pub(crate) fn end(&self) {
        drop(self.attempt.end.reach());
    }

    /// Cancels the attempt: the task that runs it hears of it too.
    pub(crate) fn cancel(&self) {
        if let Some(task) = self.attempt.end.reach() {
            task.wake();
        }
    }

    /// Whether the attempt is cancelled; if not, the task that runs it is woken once when it is.
    pub(crate) fn poll_cancelled(&self, cx: &std::task::Context<'_>) -> Poll<()> {
        let mut holders = self.attempt.end.holders();
        if self.is_cancelled() {
            return Poll::Ready(());
        }
        holders.task = Some(cx.waker().clone());
        Poll::Pending
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

impl Inject for Context {
    fn inject(context: &Context) -> Result<Self, BoxError> {
        Ok(context.clone())
    }
}

/// What the parameters of jobs need from the worker, collected when it starts.
#[derive(Debug, Default)]
pub struct Needs {
    pub(crate) states: Vec<(TypeId, String)>,
}

impl Needs {
    /// The worker must have been given a value of type `T`.
    pub fn state<T: 'static>(&mut self) {
        let need = (TypeId::of::<T>(), shown_type::<T>());
        if !self.states.contains(&need) {
            self.states.push(need);
        }
    }
}

/// A parameter of a job that is not an argument: [`State`](crate::State), [`Context`], or a type of the user's under `#[inject]`.
///
/// ```
/// use hworker::{BoxError, Context, Inject, Needs, State};
///
/// #[derive(Clone)]
/// struct Pool;
/// struct Connection(Pool);
///
/// impl Inject for Connection {
///     fn needs(needs: &mut Needs) {
///         State::<Pool>::needs(needs);
///     }
///     fn inject(context: &Context) -> Result<Self, BoxError> {
///         let State(pool) = State::<Pool>::inject(context)?;
///         Ok(Connection(pool))
///     }
/// }
///
/// #[hworker::job]
/// async fn tidy(#[inject] connection: Connection) {
///     let Connection(_pool) = connection;
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be given to a job",
    label = "`hworker::Inject` is not implemented for this type",
    note = "an argument of the job needs no `#[inject]`; a pool or client is given as `State<T>`",
    note = "a parameter whose type is called `State` or `Context` is taken for hworker's"
)]
pub trait Inject: Sized {
    /// Names what the worker must have been given, so that a missing piece is an error when the worker starts.
    fn needs(needs: &mut Needs) {
        let _ = needs;
    }

    /// Makes the value for one attempt.
    ///
    /// # Errors
    /// Any error; the attempt then ends with it, as if the body had returned it.
    fn inject(context: &Context) -> Result<Self, BoxError>;
}

/// A value that the worker was given once and every job may take: a pool, a client, settings.
///
/// Each job gets a clone, so put what is not cheap to clone into an `Arc`. The worker gets it from
/// [`WorkerBuilder::state`](crate::WorkerBuilder::state), and refuses to start where one is missing.
///
/// ```
/// #[derive(Clone)]
/// struct Mailer { from: String }
///
/// #[hworker::job]
/// async fn greet(to: String, mailer: hworker::State<Mailer>) {
///     println!("{} -> {to}", mailer.from);
/// }
/// ```
#[derive(Debug, Clone)]
pub struct State<T>(pub T);

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone + Send + Sync + 'static> Inject for State<T> {
    fn needs(needs: &mut Needs) {
        needs.state::<T>();
    }

    fn inject(context: &Context) -> Result<Self, BoxError> {
        let found = context.attempt.scope.states.get::<T>();
        found.map(Self).ok_or_else(|| {
            let name = shown_type::<T>();
            format!("the worker has no state of type {name}: give it one with `.state(..)`").into()
        })
    }
}

/// The name of a type as a program can write it: those of this crate without the modules that they are in, which are private.
pub(crate) fn shown_type<T: ?Sized>() -> String {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let parts = type_name::<T>().split_inclusive(|c| !is_path(c));
    let shown = parts.map(|part| match part.strip_prefix("hworker::") {
        Some(inside) if !inside.starts_with("embedded::") => {
            format!("hworker::{}", inside.rsplit("::").next().unwrap_or(inside))
        }
        _ => part.to_owned(),
    });
    shown.collect()
}

tokio::task_local! {
    /// The states of the worker whose body runs on this thread.
    static OF_BODY: Arc<States>;
}

/// The task of a body, or of what belongs to one, of a worker with these states.
pub(crate) fn in_body_of<F: Future>(
    states: Arc<States>,
    task: F,
) -> TaskLocalFuture<Arc<States>, F> {
    OF_BODY.scope(states, task)
}

/// The same of what blocks its thread.
pub(crate) fn blocks_in_body_of<T>(states: Arc<States>, body: impl FnOnce() -> T) -> T {
    OF_BODY.sync_scope(states, body)
}

/// A state of the worker whose body this is called in.
pub(crate) fn state_in_body<T: Clone + 'static>() -> Option<T> {
    OF_BODY.try_with(|states| states.get()).ok().flatten()
}

/// The states of a worker, by type.
#[derive(Default, Clone)]
pub(crate) struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, state: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(state));
    }

    pub(crate) fn has(&self, id: TypeId) -> bool {
        self.0.contains_key(&id)
    }

    fn get<T: Clone + 'static>(&self) -> Option<T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref().cloned()
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "States({})", self.0.len())
    }
}
