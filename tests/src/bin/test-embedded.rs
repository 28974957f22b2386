//! A program that has a worker inside and says nothing of signals.

use std::io::Read;

use hworker_tests as _;

#[tokio::main]
async fn main() -> Result<(), hworker::Error> {
    // The test holds the other end of the input; when it is gone, nobody will stop this process.
    // The input of a process for bodies is hworker's.
    if !hworker::is_child() {
        std::thread::spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(9);
        });
    }
    let worker = hworker::Worker::builder().build()?;
    worker.run_until(std::future::pending()).await?;
    Ok(())
}
