//! A worker as a user would write it, with the jobs of the tests. Its settings come from the environment.

use std::io::Read;

use hworker::{Registry, Worker};
use hworker_tests::act;
use tracing_subscriber::filter::LevelFilter;

/// With `HWORKER_TEST_JOBS=act` it knows that job alone; with `HWORKER_TEST_SUBSCRIBER`, a level, the log is not hworker's.
#[tokio::main]
async fn main() -> Result<(), hworker::Error> {
    end_with_the_test();
    if let Ok(level) = std::env::var("HWORKER_TEST_SUBSCRIBER") {
        let level: LevelFilter = level.parse().expect("a level");
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    }
    if std::env::var_os("HWORKER_TEST_JOBS").is_none() {
        return hworker::run_all().await;
    }
    let worker = Worker::builder().registry(Registry::new()).register::<act>();
    worker.build()?.run().await.map(drop)
}

/// The test holds the other end of the input; when it is gone, nobody will stop this process.
fn end_with_the_test() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(9);
    });
}
