//! One scene after the other: enqueues jobs, waits for them, and prints what it saw.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hworker::{Batch, BatchState, Bulk, Client, Control, Handle, Inspect, ResultError};
use tokio::time::sleep;

use crate::jobs::{
    book, charge, count_stock, deliver, export, gift, index, order_pickup, pack, preview, publish,
    quote, recommend, report, resize, send_mail, sync, translate,
};
use crate::shop::Shop;

/// Longer than any scene takes.
const PATIENCE: Duration = Duration::from_secs(30);

const CUSTOMERS: [&str; 3] = ["Ada", "Bob", "Eve"];

pub async fn run(client: &Client, shop: &Shop) -> anyhow::Result<()> {
    let queue = client.inspect("default");
    let stage = Stage { shop, queue, control: client.control("default") };
    stage.what_runs_first().await?;
    stage.so_many_of_a_type().await?;
    stage.so_many_of_a_key().await?;
    stage.in_order().await?;
    stage.one_limit_for_two_types().await?;
    stage.so_many_in_a_second().await?;
    stage.customers_take_turns().await?;
    stage.only_the_newest_preview().await?;
    stage.one_at_a_time().await?;
    stage.after_the_last_change().await?;
    stage.somebody_waits_for_the_answer().await?;
    stage.again_and_again().await?;
    stage.a_report_when_all_have_ended(client).await?;
    stage.the_rest_is_not_wanted().await?;
    stage.it_goes_on_where_it_stopped(client).await?;
    stage.what_follows_a_failure().await?;
    stage.a_job_of_the_release_before(client).await?;
    stage.the_mail_is_held_up().await
}

struct Stage<'a> {
    shop: &'a Shop,
    queue: Inspect,
    control: Control,
}

impl Stage<'_> {
    /// A job that an older release enqueued runs in this one, as one of today does.
    async fn a_job_of_the_release_before(&self, client: &Client) -> anyhow::Result<()> {
        self.begin("version = 2, upgrade = in_cents").await?;
        client.job_by_name("gift", r#"{"customer":"Ada","euros":5}"#).enqueue().await?;
        gift::enqueue("Bob", 700).await?;
        self.drained().await?;
        let mut gifts = self.shop.begun("gift");
        gifts.sort();
        println!("  from the release before and from this one: {}", gifts.join(", "));
        Ok(())
    }

    /// A batch: its callback is enqueued once, whatever dies meanwhile.
    async fn a_report_when_all_have_ended(&self, client: &Client) -> anyhow::Result<()> {
        self.begin("Batch::new(\"pictures\").on_settled(..)").await?;
        let batch =
            Batch::new("pictures").add((0..8).map(resize::with)).on_settled(report::with(9));
        let id = batch.enqueue().await?;
        let start = Instant::now();
        let batch = client.batch(&id);
        while batch.status().await?.is_none_or(|batch| batch.state != BatchState::Finished) {
            ensure!(start.elapsed() < PATIENCE, "the batch is not finished");
            sleep(Duration::from_millis(10)).await;
        }
        let resized = self.shop.ended_before("resize", "day 9");
        println!("  {resized} of 8 pictures were resized when the report began");
        Ok(())
    }

    /// The first attempt fails at page 8, and the second goes on there.
    async fn it_goes_on_where_it_stopped(&self, client: &Client) -> anyhow::Result<()> {
        self.begin("context.each(1..=20, ..), context.log(..)").await?;
        let id = translate::enqueue(20).await?;
        self.drained().await?;
        let queue = client.inspect("default");
        let progress = queue.progress(&id).await?.context("it says how far it is")?;
        let log = queue.log(&id).await?;
        println!(
            "  {} of {} pages, {} of them by attempt {}; {} lines in its log",
            progress.done,
            progress.of,
            progress.done - progress.first_done,
            progress.attempt,
            log.len()
        );
        println!("  {} pages were translated in all", self.shop.begun("translate").len());
        Ok(())
    }

    /// In the step in which it is decided that a job has failed for good, another one is enqueued.
    async fn what_follows_a_failure(&self) -> anyhow::Result<()> {
        self.begin("on_failed = pay_back").await?;
        deliver::enqueue(7).await?;
        self.drained().await?;
        println!("  paid back: {}", self.shop.begun("pay_back").join(", "));
        Ok(())
    }

    /// A batch that grows, and of which the rest is not wanted any more.
    async fn the_rest_is_not_wanted(&self) -> anyhow::Result<()> {
        self.begin("Batch::new(\"album\").open(), .add(..), .cancel()").await?;
        let album = Batch::new("album").open().await?;
        album.add("cover", [resize::with(100)]).await?;
        // Under its name it is added once, however often this is repeated.
        album.add("cover", [resize::with(100)]).await?;
        album.add("pages", (101..140).map(resize::with)).await?;
        album.seal().await?;
        sleep(Duration::from_millis(100)).await;
        album.cancel().await?;
        let start = Instant::now();
        let ended = loop {
            match album.status().await? {
                Some(album) if album.state == BatchState::Finished => break album,
                _ => ensure!(start.elapsed() < PATIENCE, "the batch is not finished"),
            }
            sleep(Duration::from_millis(10)).await;
        };
        println!("  of {} pictures {} were not resized any more", ended.total, ended.cancelled);
        Ok(())
    }

    /// The order that somebody pays for was enqueued last, and starts before those that are to be packed.
    async fn what_runs_first(&self) -> anyhow::Result<()> {
        self.begin("priority = \"high\"").await?;
        // Paused, so that all of them wait when the first is taken.
        self.control.pause().await?;
        (0..20).map(pack::with).collect::<Bulk>().enqueue().await?;
        charge::enqueue(99).await?;
        self.control.resume().await?;
        self.drained().await?;
        let packed = self.shop.ended_before("pack", "order 99");
        println!("  order 99 came last and was charged when {packed} of 20 orders were packed");
        Ok(())
    }

    async fn so_many_of_a_type(&self) -> anyhow::Result<()> {
        self.begin("concurrency = 2").await?;
        (0..8).map(resize::with).collect::<Bulk>().enqueue().await?;
        self.drained().await?;
        let most = self.shop.most_at_once(&["resize"], "");
        println!("  8 pictures were resized, {most} at once, in a worker of 8 slots");
        Ok(())
    }

    async fn so_many_of_a_key(&self) -> anyhow::Result<()> {
        self.begin("concurrency(limit = 1, key = customer)").await?;
        let exports = CUSTOMERS.iter().flat_map(|customer| [*customer; 3]);
        exports.map(export::with).collect::<Bulk>().enqueue().await?;
        self.drained().await?;
        let most = CUSTOMERS.map(|customer| self.shop.most_at_once(&["export"], customer));
        let all = self.shop.most_at_once(&["export"], "");
        println!("  {CUSTOMERS:?} had {most:?} exports at once, all of them {all}");
        Ok(())
    }

    /// The deposit fails once, and the withdrawal behind it waits for it.
    async fn in_order(&self) -> anyhow::Result<()> {
        self.begin("concurrency(key = account, order = \"strict\")").await?;
        for entry in ["open", "deposit", "withdraw"] {
            book::enqueue("account 7", entry).await?;
        }
        self.drained().await?;
        println!("  {}", self.shop.begun("book").join(" > "));
        Ok(())
    }

    /// Then the database gets more connections, and somebody raises the limit while jobs run.
    async fn one_limit_for_two_types(&self) -> anyhow::Result<()> {
        self.begin("concurrency(limit = 3, name = \"db\")").await?;
        let both = async || -> anyhow::Result<usize> {
            self.shop.forget();
            (0..6).map(index::with).collect::<Bulk>().enqueue().await?;
            (0..6).map(report::with).collect::<Bulk>().enqueue().await?;
            self.drained().await?;
            Ok(self.shop.most_at_once(&["index", "report"], ""))
        };
        println!("  6 products were indexed and 6 reports written, {} at once", both().await?);
        let db = self.control.limit("db");
        db.set(6).await?;
        println!("  control.limit(\"db\").set(6): {} at once", both().await?);
        db.unset().await?;
        println!("  control.limit(\"db\").unset(): {} at once", both().await?);
        Ok(())
    }

    /// 20 a second; the carrier asks for half a second of quiet in between.
    async fn so_many_in_a_second(&self) -> anyhow::Result<()> {
        self.begin("rate_limit = \"20/s\", slow_down").await?;
        (0..30).map(order_pickup::with).collect::<Bulk>().enqueue().await?;
        self.drained().await?;
        // A body begins some ms after its job was taken, so of two a little more than a second apart the second may seem too early.
        let most = self.shop.most_within("order_pickup", Duration::from_millis(950));
        let calls = self.shop.begun("order_pickup").len();
        println!(
            "  30 parcels took {calls} calls to the carrier, at most {most} of them in a second"
        );
        let quiet = self.shop.longest_break("order_pickup");
        ensure!(quiet >= Duration::from_millis(490), "a call came after {quiet:?}");
        println!("  when it answered 429, no call was made for half a second");
        Ok(())
    }

    /// One has many jobs, which came before that of another.
    async fn customers_take_turns(&self) -> anyhow::Result<()> {
        self.begin("fair(key = customer)").await?;
        (0..100).map(|_| recommend::with("Ada")).collect::<Bulk>().enqueue().await?;
        recommend::enqueue("Bob").await?;
        self.drained().await?;
        let before = self.shop.ended_before("recommend", "Bob");
        ensure!(before < 50, "Bob waited for {before} jobs of Ada");
        println!("  Bob came after 100 jobs of Ada, and had to wait for {before} of them");
        Ok(())
    }

    /// A page is edited faster than it can be drawn.
    async fn only_the_newest_preview(&self) -> anyhow::Result<()> {
        self.begin("concurrency(limit = 1, key = page, when_full = \"keep_newest\")").await?;
        preview::enqueue("home", 1).await?;
        while self.shop.begun("preview").is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
        for version in 2..=6 {
            preview::enqueue("home", version).await?;
        }
        self.drained().await?;
        let cancelled = self.queue.counts().await?.cancelled;
        println!("  drawn: {}; {cancelled} were cancelled", self.shop.begun("preview").join(" > "));
        Ok(())
    }

    /// Three ask for the same, one job does it, and each is told which.
    async fn one_at_a_time(&self) -> anyhow::Result<()> {
        self.begin("unique(key = customer)").await?;
        for _ in 0..3 {
            let receipt = sync::with("Ada").submit().await?;
            println!("  {:?}: {}", receipt.submitted, receipt.id);
        }
        self.drained().await?;
        println!("  it ran {} time", self.shop.begun("sync").len());
        Ok(())
    }

    /// Somebody types, and the page is published once.
    async fn after_the_last_change(&self) -> anyhow::Result<()> {
        self.begin("debounce(wait = \"300ms\", max = \"2s\", key = page)").await?;
        for text in ["h", "he", "hel", "hell", "hello"] {
            publish::enqueue(1, text).await?;
            sleep(Duration::from_millis(50)).await;
        }
        self.drained().await?;
        println!("  published: {}", self.shop.begun("publish").join(", "));
        Ok(())
    }

    /// Any process can wait that has the text of the handle.
    async fn somebody_waits_for_the_answer(&self) -> anyhow::Result<()> {
        self.begin("keep_result = \"10m\"").await?;
        let cents = quote::enqueue("NZ").await?.await?;
        println!("  a parcel to New Zealand: {cents} cents");
        let text = quote::enqueue("AQ").await?.to_string();
        let handle: Handle<quote> = text.parse()?;
        match handle.await {
            Err(ResultError::Job(failure)) => {
                println!("  one to the south pole: {}", failure.message)
            }
            other => println!("  one to the south pole: {other:?}"),
        }
        Ok(())
    }

    /// What the code declares is there as soon as the worker is; another entry is set, and removed, while it runs.
    async fn again_and_again(&self) -> anyhow::Result<()> {
        self.begin("cron = \"0 8 * * MON-FRI\", .every(one_second)").await?;
        let morning = self.control.cron("good_morning");
        println!("  {} times this week and next", morning.next(10).await?.len());
        let stock = self.control.cron("stock");
        stock.upsert(count_stock::with(3).every(Duration::from_secs(1))).await?;
        while self.shop.begun("count_stock").len() < 2 {
            sleep(Duration::from_millis(10)).await;
        }
        stock.remove().await?;
        self.drained().await?;
        let runs = self.shop.begun("count_stock");
        println!("  counted: {}, {}; removed", runs[0], runs[1]);
        Ok(())
    }

    /// The mail server is down for a moment. Mails wait, all else goes on.
    async fn the_mail_is_held_up(&self) -> anyhow::Result<()> {
        self.begin("control.job(\"send_mail\").pause()").await?;
        let mail = self.control.job("send_mail");
        mail.pause().await?;
        CUSTOMERS.into_iter().map(send_mail::with).collect::<Bulk>().enqueue().await?;
        pack::enqueue(100).await?;
        sleep(Duration::from_millis(500)).await;
        let done = |job| self.shop.begun(job).len();
        println!("  held up: {} of 3 mails sent, {} order packed", done("send_mail"), done("pack"));
        mail.resume().await?;
        self.drained().await?;
        println!("  resumed: {} of 3 mails sent", done("send_mail"));
        Ok(())
    }

    async fn begin(&self, title: &str) -> anyhow::Result<()> {
        self.drained().await.context("the scene before")?;
        self.shop.forget();
        println!("{title}");
        Ok(())
    }

    async fn drained(&self) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            let counts = self.queue.counts().await?;
            if counts.waiting + counts.running + counts.scheduled == 0 {
                return Ok(());
            }
            ensure!(start.elapsed() < PATIENCE, "jobs are left: {counts:?}");
            sleep(Duration::from_millis(10)).await;
        }
    }
}
