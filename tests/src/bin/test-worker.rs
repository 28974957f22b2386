//! A worker as a user would write it, with the jobs of the tests. Its settings come from the environment.

use std::io::Read;

use hworker_tests as _;

#[tokio::main]
async fn main() -> Result<(), hworker::Error> {
    end_with_the_test();
    hworker::run_all().await
}

/// The test holds the other end of the input; when it is gone, nobody will stop this process.
fn end_with_the_test() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(9);
    });
}
