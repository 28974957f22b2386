//! A program that enqueues and runs no worker. For each argument it enqueues one job `act` of that name, in order, and
//! prints its id, or `error: ` and what went wrong.

use hworker_tests::act;

#[tokio::main]
async fn main() {
    for name in std::env::args().skip(1) {
        #[allow(clippy::print_stdout)] // what it is for
        match act::enqueue(name, Vec::new()).await {
            Ok(id) => println!("{id}"),
            Err(error) => println!("error: {error}"),
        }
    }
}
