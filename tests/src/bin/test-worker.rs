//! A worker as a user would write it, with the jobs of the tests. Its settings come from the environment.

use std::io::{Read, Write};

use hworker::Worker;
use hworker_tests::{common_jobs, isolated_jobs};
use tracing_subscriber::filter::LevelFilter;

/// It knows the common jobs, and with `HWORKER_TEST_JOBS=all` whatever this program links: one that runs at most once too, beside which
/// nothing is fetched ahead; with `isolated` those too that run in processes of their own. With `HWORKER_TEST_SUBSCRIBER`, a level, the log is not hworker's.
#[tokio::main]
async fn main() -> Result<(), hworker::Error> {
    if std::env::args().any(|argument| argument == "--is-child") {
        let answer = hworker::is_child().to_string();
        std::io::stdout().write_all(answer.as_bytes()).expect("it is told");
        return Ok(());
    }
    if hworker::is_child() {
        fail_as_told();
    } else {
        end_with_the_test();
    }
    if let Ok(level) = std::env::var("HWORKER_TEST_SUBSCRIBER") {
        let level: LevelFilter = level.parse().expect("a level");
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    }
    if std::env::var("HWORKER_TEST_JOBS").is_ok_and(|jobs| jobs == "all") {
        return hworker::run_all().await;
    }
    let isolated = std::env::var("HWORKER_TEST_JOBS").is_ok_and(|jobs| jobs == "isolated");
    let jobs = if isolated { isolated_jobs() } else { common_jobs() };
    let stopped = Worker::builder().registry(jobs).build()?.run().await?;
    if stopped.cut_off || stopped.blocking_bodies_left > 0 {
        // As `run_all()` does.
        std::process::exit(0);
    }
    Ok(())
}

/// A `main` that does not come to its worker in a process for bodies: while the file that `HWORKER_TEST_CHILD_FAILS` names is there.
fn fail_as_told() {
    let file = std::env::var_os("HWORKER_TEST_CHILD_FAILS");
    let fails = file.is_some_and(|file| std::path::Path::new(&file).exists());
    assert!(!fails, "the port is taken");
}

/// The test holds the other end of the input; when it is gone, nobody will stop this process.
fn end_with_the_test() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(9);
    });
}
