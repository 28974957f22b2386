//! A worker: a program as a user would write it, that also notes when it was kept from running.

use std::io::Read;
use std::time::Duration;

use hworker::{Registry, Worker};

use crate::beats::beat;
use crate::broadcasts::everywhere;
use crate::debounced::save;
use crate::diary::{Note, What, now};
use crate::jobs::{
    Desk, WorkOfOld, work, work_alone, work_at_a_rate, work_blocking, work_by_sixes,
    work_by_worker, work_in_order, work_isolated, work_of_key, work_of_new, work_plain,
};
use crate::report::Failure;

/// What keeps a process from running for less than this can make no worker look dead.
const WORTH_A_NOTE: Duration = Duration::from_secs(1);

/// Runs until SIGTERM.
pub(crate) async fn run() -> Result<(), Failure> {
    if std::env::var_os("HWORKER_TEST_UNREAD").is_some() {
        // Rust's own hook writes to standard error from the thread that panics, and would wait there for ever.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let desk = Desk::get();
    if !hworker::is_child() {
        desk.diary.note(Note::of(What::Up, 0, std::process::id()));
        std::thread::spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            // The suite is gone.
            std::process::exit(9);
        });
        std::thread::spawn(watch_the_machine);
    }
    let jobs = Registry::new().with::<work>().with::<work_plain>().with::<work_blocking>();
    let jobs = jobs.with::<work_by_sixes>().with::<work_by_worker>().with::<work_of_key>();
    let jobs = jobs.with::<work_in_order>().with::<work_at_a_rate>().with::<work_alone>();
    let jobs = jobs.with::<beat>().with::<save>().with::<work_isolated>().with::<everywhere>();
    // A deploy that never ends: half of the workers are of the new build, others know the job otherwise, or not at all.
    let jobs = match std::env::var("HWORKER_TEST_BUILD").as_deref() {
        Ok("new") => jobs.with::<work_of_new>(),
        Ok("changed") => jobs.with::<WorkOfOld>(),
        _ => jobs,
    };
    let worker = Worker::builder().registry(jobs).build()?;
    worker.run().await?;
    desk.diary.note(Note::of(What::Done, 0, 0));
    // Blocking bodies may run on.
    std::process::exit(0)
}

/// Notes when this process was not run for long: a machine with too much to do is a fault like others.
fn watch_the_machine() {
    let pause = Duration::from_millis(100);
    let mut last = now();
    loop {
        std::thread::sleep(pause);
        let gap = Duration::from_nanos(now() - last).saturating_sub(pause);
        if gap > WORTH_A_NOTE {
            Desk::get().diary.note(Note::of(What::Stalled, 0, gap.as_millis() as u32));
        }
        last = now();
    }
}
