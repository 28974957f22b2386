//! A cron entry that beats each second, on a queue of its own: each of its times has one run, whoever fires it and whatever dies.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hworker::{CatchUp, Client, Context, CronControl, Error};
use tokio::runtime::{Builder, Runtime};

use crate::jobs::Desk;
use crate::report::Failure;
use crate::stage::Stage;

pub(crate) const QUEUE: &str = "beats";

/// What each run leaves behind.
const MARK: &str = "beat.";

/// The server may be away for a while.
const WITHIN: Duration = Duration::from_secs(60);

/// Leaves a mark of its own.
#[hworker::job(queue = "beats", backoff = "200ms", max_attempts = 10000)]
pub(crate) async fn beat(context: Context) -> Result<(), std::io::Error> {
    let due = context.id().as_str().rsplit(':').next().unwrap_or_default().to_owned();
    let mark = Desk::get().memory.join(format!("{MARK}{due}"));
    OpenOptions::new().create(true).append(true).open(mark)?.write_all(b".")
}

/// Sets the entry.
pub(crate) fn begin(stage: &Stage) -> Result<(), Failure> {
    let (runtime, entry) = entry(stage)?;
    let every = || beat::with().every(Duration::from_secs(1)).catch_up(CatchUp::All);
    until_done(|| runtime.block_on(entry.upsert(every())))
}

/// Before the workers go: it beats no more.
pub(crate) fn pause(stage: &Stage) -> Result<(), Failure> {
    let (runtime, entry) = entry(stage)?;
    until_done(|| runtime.block_on(entry.pause()).map(drop))?;
    let queue = Client::new(stage.url())?.inspect(QUEUE);
    let give_up = Instant::now() + WITHIN;
    loop {
        let counts = runtime.block_on(queue.counts());
        let left = counts.map_or(1, |counts| counts.waiting + counts.running + counts.scheduled);
        if left == 0 || Instant::now() > give_up {
            return Ok(());
        }
        sleep(Duration::from_millis(100));
    }
}

/// When all have gone: as many times have marks as the server has taken in runs.
pub(crate) fn look(stage: &Stage) -> Result<(), Failure> {
    let (runtime, entry) = entry(stage)?;
    let mut info = None;
    until_done(|| {
        info = runtime.block_on(entry.info())?;
        Ok(())
    })?;
    let fired = info.map_or(0, |info| info.fired);
    let marks: BTreeSet<String> = std::fs::read_dir(stage.memory())?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(MARK))
        .collect();
    println!("cron: {fired} runs of an entry that beats each second");
    if marks.len() as u64 != fired || fired == 0 {
        let detail = format!("{fired} runs were taken in, and {} times have run", marks.len());
        stage.checker().wrong("each time of a cron entry has one run", detail);
    }
    Ok(())
}

fn entry(stage: &Stage) -> Result<(Runtime, CronControl), Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let client = Client::new(stage.url())?;
    Ok((runtime, client.control(QUEUE).cron("beat")))
}

fn until_done(mut what: impl FnMut() -> Result<(), Error>) -> Result<(), Failure> {
    let give_up = Instant::now() + WITHIN;
    loop {
        match what() {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > give_up => return Err(error.into()),
            Err(_) => sleep(Duration::from_millis(100)),
        }
    }
}
