//! The jobs of the suite, and which of them producers enqueue.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fastrand::Rng;
use hworker::{BoxError, Bulk, Context, Enqueue, Error, Job, Outcome as Returned, Priority};
use serde::{Deserialize, Serialize};

use crate::diary::{Diary, Note, Outcome, What};

/// The queues of the suite. In the last there is hardly ever a job, so that waits at the server last long.
pub(crate) const QUEUES: [&str; 3] = ["default", "second", "quiet"];

/// One in so many jobs goes to the quiet queue: one in some seconds.
const QUIET: u32 = 2_500;

/// Longer than the time after which a silent worker is dead.
const LONG_MS: std::ops::Range<u64> = 5_300..8_000;

/// What a body does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Plan {
    /// Sleeps for so many milliseconds; 0 is nothing at all.
    Sleep(u64),
    /// Returns an error, in as many attempts.
    Errors(u32),
    /// Panics, in as many attempts.
    Panics(u32),
    /// Asks for another attempt soon, in the first.
    Again,
    /// Does not end by itself, in the first attempt.
    Hangs,
    /// Puts itself off, once.
    Snoozes,
    /// Will not run again.
    Fails,
    /// Ends the process of its own in which it runs, once.
    Dies,
    /// Ends its process, once.
    AbortsOnce,
    /// Ends its process whenever it runs.
    Aborts,
}

/// What the bodies of a process have at hand.
pub(crate) struct Desk {
    pub(crate) diary: Diary,
    /// Where jobs remember what they did already.
    pub(crate) memory: PathBuf,
}

impl Desk {
    /// That of this process.
    pub(crate) fn get() -> &'static Self {
        static DESK: OnceLock<Desk> = OnceLock::new();
        DESK.get_or_init(|| {
            let path = |name| PathBuf::from(std::env::var_os(name).expect("it is set"));
            let diary = Diary::open(&path("HWORKER_TEST_DIARY")).expect("the diary");
            Self { diary, memory: path("HWORKER_TEST_MEMORY") }
        })
    }

    /// Whether a job does this for the first time, over all processes.
    fn first(&self, n: u32) -> bool {
        let mark = self.memory.join(n.to_string());
        OpenOptions::new().write(true).create_new(true).open(mark).is_ok()
    }

    /// How often a job began, this time included, over all processes: its attempt, for one that does not read it.
    fn starts(&self, n: u32) -> u32 {
        let mark = self.memory.join(format!("{n}.starts"));
        let file = OpenOptions::new().append(true).create(true).open(mark);
        let written = file.and_then(|mut file| {
            file.write_all(b".")?;
            file.metadata()
        });
        written.expect("what jobs remember can be written").len() as u32
    }
}

/// A run of a body, in the diary from its begin to its end, however it ends.
struct Run {
    note: Note,
    over: bool,
}

impl Run {
    fn begin(n: u32, context: &Context) -> Self {
        let queue = QUEUES.iter().position(|queue| *queue == context.queue()).unwrap_or(99);
        let queue = queue as u8;
        Self::noted(Note { token: context.token(), queue, ..Note::of(What::Begin, n, 1) })
    }

    /// That of a job which knows neither queue nor token: the note has none, but the number of the run in this process.
    fn begin_plain(n: u32) -> Self {
        static RUNS: AtomicU32 = AtomicU32::new(1);
        Self::noted(Note::of(What::Begin, n, RUNS.fetch_add(1, Ordering::Relaxed)))
    }

    fn noted(note: Note) -> Self {
        Desk::get().diary.note(note);
        Self { note, over: false }
    }

    fn end(&mut self, outcome: Outcome) {
        self.over = true;
        let end = Note {
            outcome,
            token: self.note.token,
            queue: self.note.queue,
            ..Note::of(What::End, self.note.n, self.note.count)
        };
        Desk::get().diary.note(end);
    }

    /// What the body returns for its plan; `sleep` is how it sleeps.
    fn result(&mut self, plan: &Plan, attempt: u32) -> Result<Returned, BoxError> {
        let first = || Desk::get().first(self.note.n);
        let (outcome, result) = match plan {
            Plan::Errors(times) if attempt <= *times => {
                (Outcome::Error, Err("as it was told".into()))
            }
            Plan::Panics(times) if attempt <= *times => {
                self.end(Outcome::Panic);
                panic!("as it was told");
            }
            Plan::Again if attempt == 1 => {
                (Outcome::Error, Err(hworker::retry_in(Duration::from_millis(200)).into()))
            }
            Plan::Snoozes if first() => {
                (Outcome::Snooze, Err(hworker::snooze(Duration::from_millis(300)).into()))
            }
            Plan::Fails => (Outcome::Fail, Err(hworker::fail("as it was told").into())),
            Plan::Dies if first() => {
                self.end(Outcome::Panic);
                std::process::abort();
            }
            Plan::Aborts => self.abort(),
            Plan::AbortsOnce if first() => self.abort(),
            _ => (Outcome::Success, Ok(Returned::Success)),
        };
        self.end(outcome);
        result
    }

    fn abort(&mut self) -> ! {
        self.end(Outcome::Abort);
        std::process::abort();
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.over {
            self.end(Outcome::Dropped);
        }
    }
}

fn sleeps(plan: &Plan, attempt: u32) -> Duration {
    match plan {
        Plan::Sleep(ms) => Duration::from_millis(*ms),
        Plan::Hangs if attempt == 1 => Duration::from_secs(3_600),
        _ => Duration::ZERO,
    }
}

/// Most jobs. `n` is the first argument: the checker finds it in the bytes of the envelope.
#[hworker::job(backoff = "50ms, 1s", max_attempts = 5)]
pub(crate) async fn work(
    n: u32,
    plan: Plan,
    ballast: String,
    context: Context,
) -> Result<Returned, BoxError> {
    let mut run = Run::begin(n, &context);
    let sleep = sleeps(&plan, context.attempt());
    if !sleep.is_zero() {
        tokio::time::sleep(sleep).await;
    }
    drop(ballast);
    run.result(&plan, context.attempt())
}

/// The same without a context: its body may start before its worker knows the lease.
#[hworker::job(backoff = "50ms, 1s", max_attempts = 5)]
pub(crate) async fn work_plain(n: u32, plan: Plan, ballast: String) -> Result<Returned, BoxError> {
    let mut run = Run::begin_plain(n);
    let asks = matches!(plan, Plan::Errors(_) | Plan::Panics(_) | Plan::Again | Plan::Hangs);
    let attempt = if asks { Desk::get().starts(n) } else { 1 };
    let sleep = sleeps(&plan, attempt);
    if !sleep.is_zero() {
        tokio::time::sleep(sleep).await;
    }
    drop(ballast);
    run.result(&plan, attempt)
}

/// The first, as only workers of the new build know it.
#[hworker::job(backoff = "50ms, 1s", max_attempts = 5)]
pub(crate) async fn work_of_new(
    n: u32,
    plan: Plan,
    ballast: String,
    context: Context,
) -> Result<Returned, BoxError> {
    work(n, plan, ballast, context).await
}

/// The same as some of the old build know it: with other arguments.
#[hworker::job(name = "work_of_new", type = WorkOfOld)]
#[allow(clippy::unused_async)] // it would be on a thread of its own
pub(crate) async fn work_of_old(n: u32, later_dropped: bool) {
    panic!("no job {n} has that argument: {later_dropped}");
}

/// The first on a thread of its own.
#[hworker::job(backoff = "0s", max_attempts = 5)]
#[allow(clippy::needless_pass_by_value)] // arguments are handed over
pub(crate) fn work_blocking(n: u32, plan: Plan, context: Context) -> Result<Returned, BoxError> {
    let mut run = Run::begin(n, &context);
    std::thread::sleep(sleeps(&plan, context.attempt()));
    run.result(&plan, context.attempt())
}

/// The first in a process of its own.
#[hworker::job(backoff = "50ms, 1s", max_attempts = 5, isolate(recycle = 20))]
pub(crate) async fn work_isolated(
    n: u32,
    plan: Plan,
    context: Context,
) -> Result<Returned, BoxError> {
    work(n, plan, String::new(), context).await
}

/// The first, at most six at once.
#[hworker::job(backoff = "50ms, 1s", max_attempts = 5, concurrency(limit = 6, name = "sixes"))]
pub(crate) async fn work_by_sixes(
    n: u32,
    plan: Plan,
    context: Context,
) -> Result<Returned, BoxError> {
    work(n, plan, String::new(), context).await
}

/// The first, at most three at once on each worker.
#[hworker::job(
    backoff = "50ms, 1s",
    max_attempts = 5,
    concurrency(limit = 3, per = "worker", name = "each")
)]
pub(crate) async fn work_by_worker(
    n: u32,
    plan: Plan,
    context: Context,
) -> Result<Returned, BoxError> {
    work(n, plan, String::new(), context).await
}

/// The first, at most two of a key at once.
#[hworker::job(backoff = "50ms, 1s", max_attempts = 5, concurrency(limit = 2, key = key, name = "key"))]
pub(crate) async fn work_of_key(
    n: u32,
    key: u32,
    plan: Plan,
    context: Context,
) -> Result<Returned, BoxError> {
    work(n, plan, key.to_string(), context).await
}

/// The first, those of a key one after the other.
#[hworker::job(
    backoff = "50ms, 1s",
    max_attempts = 5,
    concurrency(key = key, order = "strict", name = "order")
)]
pub(crate) async fn work_in_order(
    n: u32,
    key: u32,
    plan: Plan,
    context: Context,
) -> Result<Returned, BoxError> {
    work(n, plan, key.to_string(), context).await
}

/// How many of the next start in a second at most.
pub(crate) const AT_A_RATE: usize = 40;

/// The first, so many in a second.
#[hworker::job(backoff = "50ms, 1s", max_attempts = 5, rate_limit(rate = "40/s", name = "rate"))]
pub(crate) async fn work_at_a_rate(
    n: u32,
    plan: Plan,
    context: Context,
) -> Result<Returned, BoxError> {
    work(n, plan, String::new(), context).await
}

/// The first, one of a key at a time; a second is refused.
#[hworker::job(
    backoff = "50ms, 1s",
    max_attempts = 5,
    unique(key = key, on_conflict = "refuse")
)]
pub(crate) async fn work_alone(
    n: u32,
    key: u32,
    plan: Plan,
    context: Context,
) -> Result<Returned, BoxError> {
    work(n, plan, key.to_string(), context).await
}

/// Which limits a job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limited {
    BySixes,
    ByWorker,
    OfKey(u32),
    InOrder(u32),
    AtARate,
    /// Has an id of its own, and no limit.
    Known,
    /// One of a key at a time.
    Alone(u32),
}

/// Those of the job number `n`.
pub(crate) fn limited(n: u32) -> Option<Limited> {
    let key = n / 64;
    match n % 64 {
        7 => Some(Limited::BySixes),
        9 => Some(Limited::ByWorker),
        11 | 43 => Some(Limited::Known),
        13 | 27 => Some(Limited::Alone(key % 40)),
        // One of them of another priority.
        23 | 33 => Some(Limited::OfKey(key % 30)),
        // All of the same, which goes before the order.
        39 => Some(Limited::InOrder(key % 10)),
        55 => Some(Limited::AtARate),
        _ => None,
    }
}

/// The name of the list in which the job number `n` waits.
pub(crate) fn list_of(n: u32) -> String {
    let limit = match limited(n) {
        None => String::new(),
        Some(Limited::BySixes) => "+sixes".to_owned(),
        Some(Limited::ByWorker) => "+each@".to_owned(),
        Some(Limited::OfKey(key)) => format!("+key={key}"),
        Some(Limited::InOrder(key)) => format!("+order~{key}"),
        Some(Limited::AtARate) => "+rate".to_owned(),
        Some(Limited::Known | Limited::Alone(_)) => "*".to_owned(),
    };
    priority_list(n).to_owned() + &limit
}

/// That of its priority alone.
pub(crate) fn priority_list(n: u32) -> &'static str {
    match priority_of(n) {
        Priority::Normal => "",
        other => other.name(),
    }
}

/// A job of any type.
pub(crate) trait AnyJob: Send {
    fn enqueue(self: Box<Self>) -> BoxFuture<Result<(), Error>>;
    fn add_to(self: Box<Self>, bulk: &mut Bulk);
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<J: Job + Send + 'static> AnyJob for Enqueue<J> {
    fn enqueue(self: Box<Self>) -> BoxFuture<Result<(), Error>> {
        Box::pin(async { Enqueue::enqueue(*self).await.map(drop) })
    }

    fn add_to(self: Box<Self>, bulk: &mut Bulk) {
        bulk.extend([*self]);
    }
}

/// A job to be enqueued.
pub(crate) enum Drawn {
    Ours(Box<dyn AnyJob>),
    /// Bytes that a producer of another language pushes, and the queue.
    Raw(&'static str, String),
}

/// The priority of the job number `n`, if we write it.
pub(crate) fn priority_of(n: u32) -> Priority {
    match n % 16 {
        0 | 1 => Priority::High,
        2 => Priority::Highest,
        3 | 4 => Priority::Low,
        5 => Priority::Lowest,
        _ => Priority::Normal,
    }
}

/// Written by hworker: the job number `n`, with its priority.
fn ours<J: Job + Send + 'static>(n: u32, job: Enqueue<J>) -> Drawn {
    Drawn::Ours(Box::new(job.priority(priority_of(n))))
}

/// The job number `n`, of a kind at random.
pub(crate) fn draw(n: u32, rng: &mut Rng) -> Drawn {
    match limited(n) {
        Some(limited) => with_limits(n, limited, rng),
        None => without_limits(n, rng),
    }
}

fn with_limits(n: u32, limited: Limited, rng: &mut Rng) -> Drawn {
    let queue = QUEUES[usize::from(rng.u8(..5) == 0)];
    let plan = match rng.u32(..1_000) {
        0..500 => Plan::Sleep(0),
        500..940 => Plan::Sleep(rng.u64(1..60)),
        940..945 => Plan::Sleep(rng.u64(LONG_MS)),
        945..970 => Plan::Errors(rng.u32(1..4)),
        970..985 => Plan::Panics(1),
        985..990 => Plan::Fails,
        990..995 => Plan::Snoozes,
        _ => Plan::Again,
    };
    if let Limited::OfKey(key) = limited
        && rng.u8(..20) == 0
    {
        // A producer that knows nothing of limits.
        let priority = priority_of(n).name();
        return Drawn::Raw(
            queue,
            format!(
                r#"{{"job":"work_of_key","args":{{"n":{n},"key":{key},"plan":{{"Sleep":5}}}},"priority":"{priority}"}}"#
            ),
        );
    }
    // Keys are compared on one queue.
    let queue = if matches!(limited, Limited::Alone(_)) { QUEUES[0] } else { queue };
    let delay = (rng.u8(..20) == 0).then(|| Duration::from_millis(rng.u64(1..4_000)));
    match limited {
        Limited::BySixes => ours(n, put(work_by_sixes::with(n, plan), queue, delay)),
        Limited::ByWorker => ours(n, put(work_by_worker::with(n, plan), queue, delay)),
        Limited::OfKey(key) => ours(n, put(work_of_key::with(n, key, plan), queue, delay)),
        Limited::InOrder(key) => ours(n, put(work_in_order::with(n, key, plan), queue, delay)),
        Limited::AtARate => ours(n, put(work_at_a_rate::with(n, plan), queue, delay)),
        Limited::Known => {
            let job = work::with(n, plan, String::new()).id(format!("own {n}"));
            ours(n, put(job, queue, delay))
        }
        Limited::Alone(key) => ours(n, put(work_alone::with(n, key, plan), queue, delay)),
    }
}

fn put<J: Job>(job: Enqueue<J>, queue: &str, delay: Option<Duration>) -> Enqueue<J> {
    let job = job.queue(queue);
    match delay {
        Some(delay) => job.delay(delay),
        None => job,
    }
}

fn without_limits(n: u32, rng: &mut Rng) -> Drawn {
    let queue = match rng.u32(..QUIET) {
        0 => QUEUES[2],
        number if number % 5 == 0 => QUEUES[1],
        _ => QUEUES[0],
    };
    let short = Plan::Sleep(rng.u64(1..60));
    let plan = match rng.u32(..10_000) {
        0..5_700 => Plan::Sleep(0),
        5_700..8_200 => short,
        8_200..9_260 => Plan::Sleep(rng.u64(LONG_MS)),
        9_260..9_440 => Plan::Errors(rng.u32(1..4)),
        9_440..9_560 => Plan::Panics(rng.u32(1..4)),
        9_560..9_590 => Plan::Errors(99),
        9_590..9_620 => Plan::Panics(99),
        9_620..9_650 => Plan::Fails,
        9_650..9_680 => Plan::Snoozes,
        9_680..9_710 => Plan::Again,
        9_710..9_735 => Plan::Hangs,
        9_735..9_950 => return rarer(n, rng, queue),
        9_950..9_980 => return raw(n, rng, queue),
        _ => {
            let delay = Duration::from_millis(rng.u64(1..4_000));
            return if rng.bool() {
                ours(n, work_plain::with(n, short, String::new()).queue(queue).delay(delay))
            } else {
                ours(n, work::with(n, short, String::new()).queue(queue).delay(delay))
            };
        }
    };
    let hangs = (plan == Plan::Hangs).then_some(Duration::from_secs(2));
    if is_plain(queue, rng) {
        let job = work_plain::with(n, plan, String::new()).queue(queue);
        return match hangs {
            Some(timeout) => ours(n, job.timeout(timeout)),
            None => ours(n, job),
        };
    }
    let job = work::with(n, plan, String::new()).queue(queue);
    match hangs {
        Some(timeout) => ours(n, job.timeout(timeout)),
        None => ours(n, job),
    }
}

/// Whether a job knows no lease: most where waits last long, since they bring it.
fn is_plain(queue: &str, rng: &mut Rng) -> bool {
    if queue == QUEUES[2] { rng.u8(..8) > 0 } else { rng.u8(..5) > 1 }
}

fn rarer(n: u32, rng: &mut Rng, queue: &'static str) -> Drawn {
    match rng.u32(..215) {
        0..5 => {
            let ballast = "x".repeat(rng.usize(200_000..2_000_000));
            if is_plain(queue, rng) {
                return ours(n, work_plain::with(n, Plan::Sleep(0), ballast).queue(queue));
            }
            ours(n, work::with(n, Plan::Sleep(0), ballast).queue(queue))
        }
        5..20 => ours(n, work_blocking::with(n, Plan::Sleep(rng.u64(LONG_MS))).queue(queue)),
        20..30 => ours(n, work_blocking::with(n, Plan::Panics(1)).queue(queue)),
        30..35 => {
            let job = work_blocking::with(n, Plan::Sleep(5_000)).queue(queue);
            ours(n, job.timeout(Duration::from_secs(1)).max_attempts(2))
        }
        35..85 => {
            let plan = match rng.u32(..10) {
                0 => Plan::Dies,
                1 => Plan::Errors(1),
                2 => Plan::Panics(1),
                3 => Plan::Sleep(rng.u64(LONG_MS)),
                4 => {
                    let job = work_isolated::with(n, Plan::Hangs).queue(queue);
                    return ours(n, job.timeout(Duration::from_secs(2)));
                }
                _ => Plan::Sleep(rng.u64(..60)),
            };
            ours(n, work_isolated::with(n, plan).queue(queue))
        }
        _ => ours(n, work_blocking::with(n, Plan::Sleep(rng.u64(1..200))).queue(queue)),
    }
}

fn raw(n: u32, rng: &mut Rng, queue: &'static str) -> Drawn {
    let bytes = match rng.u32(..8) {
        0 => format!("{{\"n\":{n}, and this is no JSON"),
        1 => format!(r#"{{"job":"work","args":{{"n":{n}}}}}"#),
        2 => format!(r#"{{"job":"nobody_knows","args":{{"n":{n}}}}}"#),
        3 => format!(
            r#"{{"job":"work","args":{{"n":{n},"n":{n},"plan":{{"Sleep":0}},"ballast":""}}}}"#
        ),
        which => {
            let job = ["work", "work_plain", "work_of_new"][which as usize % 3];
            format!(r#"{{"job":"{job}","args":{{"n":{n},"plan":{{"Sleep":5}},"ballast":""}}}}"#)
        }
    };
    Drawn::Raw(queue, bytes)
}
