//! A program that enqueues and runs no worker. For each argument it enqueues one job `act` of that name, in order, and
//! prints its id, or `error: ` and what went wrong. An argument with a slash is the handle of a job `keep`: it waits for that and prints what its
//! result says.

use hworker::{BoxError, Handle};
use hworker_tests::{act, keep};

#[tokio::main]
async fn main() {
    for name in std::env::args().skip(1) {
        let done = if name.contains('/') {
            result(&name).await
        } else {
            act::enqueue(name, Vec::new()).await.map(|id| id.to_string()).map_err(BoxError::from)
        };
        #[allow(clippy::print_stdout)] // what it is for
        match done {
            Ok(id) => println!("{id}"),
            Err(error) => println!("error: {error}"),
        }
    }
}

async fn result(handle: &str) -> Result<String, BoxError> {
    let handle: Handle<keep> = handle.parse()?;
    Ok(handle.await?.total.to_string())
}
