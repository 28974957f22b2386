//! Operators: now and then they cancel jobs wherever they are, delete and promote waiting ones and let failed ones run again, two of them
//! often the same ones at once, and pause a queue for a moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use fastrand::Rng;
use hworker::{Action, Changed, Client, Error, JobInfo, JobState};
use tokio::runtime::Runtime;

use crate::checker::Checker;
use crate::diary::now;
use crate::jobs::QUEUES;
use crate::ledger::Ended;
use crate::names::number_in;
use crate::report::Failure;
use crate::stage::Stage;
use crate::strikes::SECOND;

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(50);

/// So many jobs are looked at, and so many of them changed.
const SEEN: usize = 50;
const CHANGED: usize = 3;

/// One in so many looks pauses a queue.
const PAUSED: u8 = 60;

/// A worker hears of an order within this time, in ns: a heartbeat and what may hold it up.
const HEARD_WITHIN: u64 = 4 * SECOND;

/// A queue is resumed within this time when the run ends, whatever the server does.
const RESUMED_WITHIN: Duration = Duration::from_secs(60);

/// What operators asked for and were told.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    of: HashMap<u32, Edited>,
    pub(crate) promoted: u64,
}

impl Edits {
    /// Whether somebody asked for it.
    pub(crate) fn is_cancelled(&self, n: u32) -> bool {
        self.of.get(&n).is_some_and(|edited| edited.cancel)
    }

    /// Whether it was told to be cancelled so long before that its worker has heard of it.
    pub(crate) fn was_cancelled_before(&self, n: u32, at: u64) -> bool {
        let told = self.of.get(&n).and_then(|edited| edited.told_cancelled);
        told.is_some_and(|told| told + HEARD_WITHIN < at)
    }
}

/// Of one job.
#[derive(Debug, Default)]
struct Edited {
    /// Somebody asked for its deletion.
    deletion: bool,
    /// Somebody asked for it to be cancelled.
    cancel: bool,
    /// When that was answered as done, or as ordered where it runs.
    told_cancelled: Option<u64>,
    /// In how many of these answers it did not run.
    waited: u32,
    /// A deletion was answered as done.
    told_deleted: bool,
    /// How often it was answered that it runs again, and how often it does.
    told_again: u32,
    again: u32,
}

impl Checker {
    /// An operator asks for this now.
    pub(crate) fn asked(&mut self, n: u32, action: &Action) {
        let edited = self.edits.of.entry(n).or_default();
        edited.deletion |= *action == Action::Delete;
        edited.cancel |= *action == Action::Cancel;
    }

    /// It is done, an operator was told.
    pub(crate) fn is_done(&mut self, n: u32, which: JobState, action: &Action, at: u64) {
        let edited = self.edits.of.entry(n).or_default();
        match action {
            Action::Delete if edited.told_deleted => {
                self.wrong("a job is changed once", format!("job {n} was deleted twice"));
            }
            Action::Delete => edited.told_deleted = true,
            Action::Cancel => {
                edited.told_cancelled.get_or_insert(at);
                edited.waited += u32::from(which != JobState::Running);
            }
            Action::Promote => self.edits.promoted += 1,
            _ => edited.told_again += 1,
        }
    }

    /// A job is gone from its list, and a husk is there.
    pub(crate) fn deleted(&mut self, n: u32) {
        if !self.edits.of.get(&n).is_some_and(|edited| edited.deletion) {
            self.wrong("only what is seen is edited", format!("job {n} was deleted"));
        }
        self.settled(n, Ended::Deleted);
    }

    /// A failed job waits again.
    pub(crate) fn runs_again(&mut self, n: u32) {
        let ended = self.jobs.get(n).ended.take();
        if ended != Some(Ended::Failed) {
            let detail = format!("job {n} runs again after {ended:?}");
            self.wrong("what is settled is settled", detail);
        }
        let edited = self.edits.of.entry(n).or_default();
        edited.again += 1;
        edited.told_cancelled = None;
    }

    /// What operators were told is done and is not.
    pub(crate) fn edits_untold(&self) -> Vec<(&'static str, String)> {
        let mut wrong = Vec::new();
        for (n, job) in self.jobs.iter() {
            let Some(edited) = self.edits.of.get(&n) else { continue };
            if (edited.told_deleted && job.ended != Some(Ended::Deleted))
                || (edited.waited > 0 && job.ended != Some(Ended::Cancelled))
                || edited.told_again > edited.again
            {
                let detail = format!("job {n}: {edited:?}, and it is {:?}", job.ended);
                wrong.push(("an edit that is done is done", detail));
            }
        }
        wrong
    }
}

/// The thread in which they are.
pub(crate) struct Operators {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Failure>>,
}

impl Operators {
    pub(crate) fn start(stage: &Arc<Stage>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stage, told) = (Arc::clone(stage), Arc::clone(&stop));
        Self { stop, thread: thread::spawn(move || operate(&stage, &told)) }
    }

    pub(crate) fn end(self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().map_err(|_| Failure::from("the operators panicked"))?
    }
}

fn operate(stage: &Stage, stop: &AtomicBool) -> Result<(), Failure> {
    let runtime: Runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let clients = [Client::new(stage.url())?, Client::new(stage.url())?];
    let mut rng = Rng::with_seed(stage.options.seed);
    // A queue that may be paused, and until when.
    let mut paused: Option<(&str, Instant)> = None;
    while !stop.load(Ordering::Acquire) {
        sleep(EVERY);
        // What has no answer is not asked again: it is done or not.
        let _: Result<(), Error> = runtime.block_on(edit(stage, &clients, &mut rng));
        match paused {
            None if rng.u8(..PAUSED) == 0 => {
                let queue = QUEUES[rng.usize(..2)];
                paused = Some((queue, Instant::now() + Duration::from_millis(rng.u64(100..1_500))));
                let _ = runtime.block_on(clients[0].control(queue).pause());
            }
            Some((queue, until)) if Instant::now() > until => {
                paused = paused.filter(|_| !resumed(&runtime, &clients[0], queue));
            }
            _ => {}
        }
    }
    if let Some((queue, _)) = paused {
        let give_up = Instant::now() + RESUMED_WITHIN;
        while !resumed(&runtime, &clients[0], queue) {
            if Instant::now() > give_up {
                return Err(format!("the queue {queue} could not be resumed").into());
            }
            sleep(EVERY);
        }
    }
    Ok(())
}

/// Whether the queue is paused no more: an answer that was lost may be that of a pause.
fn resumed(runtime: &Runtime, client: &Client, queue: &str) -> bool {
    runtime.block_on(client.control(queue).resume()).is_ok()
}

/// Looks at one queue, and changes some of what is there.
async fn edit(stage: &Stage, clients: &[Client; 2], rng: &mut Rng) -> Result<(), Error> {
    let queue = QUEUES[rng.usize(..2)];
    let (which, action) = match rng.u8(..6) {
        0 => (JobState::Waiting, Action::Delete),
        1 => (JobState::Waiting, Action::Promote),
        2 => (JobState::Waiting, Action::Cancel),
        3 => (JobState::Scheduled, Action::Cancel),
        4 => (JobState::Running, Action::Cancel),
        _ => (JobState::Failed, Action::Retry),
    };
    let [first, second] = clients.each_ref().map(|client| client.inspect(queue));
    let page = first.jobs(which).limit(SEEN).page().await?;
    let mut jobs: Vec<_> = page.items.into_iter().filter(|job| number(job).is_some()).collect();
    rng.shuffle(&mut jobs);
    jobs.truncate(CHANGED);
    if jobs.is_empty() {
        return Ok(());
    }
    {
        let mut checker = stage.checker();
        jobs.iter().filter_map(number).for_each(|n| checker.asked(n, &action));
    }
    let (answers, others) = tokio::join!(first.change(&jobs, &action), async {
        if rng.bool() { second.change(&jobs, &action).await } else { Ok(Vec::new()) }
    });
    let mut checker = stage.checker();
    for answers in [answers, others].into_iter().flatten() {
        for (job, _) in jobs.iter().zip(answers).filter(|(_, answer)| *answer == Changed::Done) {
            if let Some(n) = number(job) {
                checker.is_done(n, which, &action, now());
            }
        }
    }
    Ok(())
}

fn number(job: &JobInfo) -> Option<u32> {
    number_in(job.payload())
}
