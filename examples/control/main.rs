//! A web shop that limits its jobs: which run first, how many at once, how fast, and in which order.
//! `cargo run -p hworker-examples --bin control` starts a server of its own, shows one thing after the other, and ends after some seconds.
//!
//! `jobs.rs` is the part to copy: each job type there has one line that limits it.

mod demo;
mod jobs;
mod shop;

use hworker::embedded::Server;
use hworker::{Client, Worker};
use shop::Shop;
use tokio::sync::oneshot;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let redis = Server::start()?;
    let client = Client::new(redis.url())?;
    client.make_default()?;

    let shop = Shop::default();
    // Limits count over all workers of a queue. One is enough to show them; with several the numbers are the same.
    let worker = Worker::builder().state(shop.clone()).concurrency(8).build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let demo = async {
        let shown = demo::run(&client, &shop).await;
        drop(stop);
        shown
    };
    let worker = worker.run_until(async {
        // The end of the demo, whatever it was.
        let _ = stopped.await;
    });
    let (shown, worked) = tokio::join!(demo, worker);
    worked?;
    shown
}
