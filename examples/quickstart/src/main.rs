//! All of it in one file: a server, a job, a worker. `cargo run -p hworker-quickstart`

use std::time::Duration;

use hworker::{Client, Worker, embedded::Server};
use tokio::time::sleep;

#[hworker::job]
async fn greet(name: String, context: hworker::Context) {
    println!("hello, {name}, from attempt {} of job {}", context.attempt(), context.id());
}

#[tokio::main]
async fn main() -> Result<(), hworker::Error> {
    // A private server that ends with this program; with one of your own, HWORKER_REDIS_URL says where it is.
    let server = Server::start()?;
    Client::new(server.url())?.make_default()?;

    // Anywhere in your programs, a request handler for instance:
    for name in ["Ada", "Grace", "Edsger"] {
        let id = greet::enqueue(name.into()).await?;
        println!("enqueued {id}");
    }
    greet::enqueue_in(Duration::from_secs(1), "late friend".into()).await?;

    // In the program that does the work this is one line, `hworker::run_all().await`, and runs until SIGTERM.
    Worker::builder().build()?.run_until(sleep(Duration::from_secs(2))).await?;
    println!(
        "left on the queue: {:?}",
        Client::default_client()?.inspect("default").counts().await?
    );
    Ok(())
}
