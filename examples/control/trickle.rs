//! A shop on an ordinary day, to be looked at in the page: some jobs of each type come in, a few of them fail.

use std::time::Duration;

use hworker::Client;
use tokio::time::sleep;

use crate::jobs::{
    book, charge, count_stock, export, index, order_pickup, pack, preview, publish, recommend,
    refund, report, resize, send_mail, sync,
};
use crate::shop::Shop;

/// The time between two rounds.
const EVERY: Duration = Duration::from_millis(250);

const CUSTOMERS: [&str; 3] = ["Ada", "Bob", "Eve"];

/// Never ends by itself.
pub async fn run(client: &Client, shop: &Shop) -> anyhow::Result<()> {
    let stock = client.control("default").cron("stock");
    stock.upsert(count_stock::with(3).every(Duration::from_secs(5))).await?;
    // The charts show since when the shop is open.
    client.mark_deploy("shop", "open").await?;
    println!("the shop is open; Ctrl-C closes it");
    let mut round = 0_u64;
    loop {
        // Nobody reads what it notes of this.
        shop.forget();
        round += 1;
        one_round(round, CUSTOMERS[round as usize % CUSTOMERS.len()]).await?;
        sleep(EVERY).await;
    }
}

async fn one_round(round: u64, customer: &str) -> anyhow::Result<()> {
    charge::enqueue(round).await?;
    pack::enqueue_in(Duration::from_secs(2), round).await?;
    send_mail::enqueue(customer).await?;
    index::enqueue(round).await?;
    order_pickup::enqueue(round % 20).await?;
    // One of many asks for what another one does already.
    sync::with(customer).submit().await?;
    if round.is_multiple_of(4) {
        refund::enqueue(round / 4).await?;
        preview::enqueue("home", round as u32).await?;
        publish::enqueue(1, &format!("text {round}")).await?;
    }
    // Now and then there is more to do than the limits let through at once.
    if round.is_multiple_of(20) {
        for number in 0..15 {
            resize::enqueue(number).await?;
            recommend::enqueue(CUSTOMERS[number as usize % CUSTOMERS.len()]).await?;
            export::enqueue(customer).await?;
        }
        for entry in ["open", "deposit", "withdraw"] {
            book::enqueue(&format!("account {round}"), entry).await?;
        }
        report::enqueue(round).await?;
    }
    Ok(())
}
