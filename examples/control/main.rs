//! A web shop that limits its jobs: which run first, how many at once, how fast, and in which order.
//! `cargo run -p hworker-examples --bin control` starts a server of its own, shows one thing after the other, and ends after some seconds.
//! With `-- --web` it goes on then until Ctrl-C: the page, at http://127.0.0.1:7700/ all the while, shows what jobs do.
//!
//! `jobs.rs` is the part to copy: each job type there has one line that limits it.

mod demo;
mod jobs;
mod page;
mod shop;
mod trickle;

use hworker::embedded::Server;
use hworker::{Client, Worker};
use shop::Shop;
use tokio::sync::oneshot;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let redis = Server::start()?;
    let client = Client::new(redis.url())?;
    client.make_default()?;

    let goes_on = std::env::args().any(|argument| argument == "--web");
    let page = page::serve(client.clone()).await?;
    let shop = Shop::default();
    // Limits count over all workers of a queue. One is enough to show them; with several the numbers are the same.
    let worker = Worker::builder().state(shop.clone()).concurrency(8).keep_done(200).build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let demo = async {
        let shown = if goes_on {
            tokio::select! {
                shown = show_and_go_on(&client, &shop) => shown,
                closed = tokio::signal::ctrl_c() => closed.map_err(anyhow::Error::from),
            }
        } else {
            demo::run(&client, &shop).await
        };
        drop(stop);
        shown
    };
    let worker = worker.run_until(async {
        // The end of the demo, whatever it was.
        let _ = stopped.await;
    });
    let (shown, worked) = tokio::join!(demo, worker);
    page.abort();
    worked?;
    shown
}

async fn show_and_go_on(client: &Client, shop: &Shop) -> anyhow::Result<()> {
    demo::run(client, shop).await?;
    trickle::run(client, shop).await
}
