//! A worker as a user would write it, with the jobs of the tests. Its settings come from the environment.

use std::io::Read;

use hworker::Worker;
use hworker_tests::common_jobs;
use tracing_subscriber::filter::LevelFilter;

/// It knows the common jobs, and with `HWORKER_TEST_JOBS=all` whatever this program links: one that runs at most once too, beside which
/// nothing is fetched ahead. With `HWORKER_TEST_SUBSCRIBER`, a level, the log is not hworker's.
#[tokio::main]
async fn main() -> Result<(), hworker::Error> {
    end_with_the_test();
    if let Ok(level) = std::env::var("HWORKER_TEST_SUBSCRIBER") {
        let level: LevelFilter = level.parse().expect("a level");
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    }
    if std::env::var("HWORKER_TEST_JOBS").is_ok_and(|jobs| jobs == "all") {
        return hworker::run_all().await;
    }
    let stopped = Worker::builder().registry(common_jobs()).build()?.run().await?;
    if stopped.cut_off || stopped.blocking_bodies_left > 0 {
        // As `run_all()` does.
        std::process::exit(0);
    }
    Ok(())
}

/// The test holds the other end of the input; when it is gone, nobody will stop this process.
fn end_with_the_test() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(9);
    });
}
