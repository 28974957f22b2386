//! The workers as processes of their own, one killed and one stopped, each at the worst moment.

use std::env;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use hworker::embedded::Server;
use hworker::{Client, Inspect};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::bank::Bank;
use crate::jobs::{transfer, write_statement};

/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a job of the worker dawdles that is about to be struck: a step of the demo passes meanwhile. A blocking body
/// that is stopped has slept enough when it wakes, and writes at once.
const DAWDLE: Duration = Duration::from_secs(3);

pub async fn run() -> anyhow::Result<()> {
    let stage = Stage::set()?;
    stage.kill_between_effect_and_result().await?;
    stage.stop_before_the_write().await?;

    let (ada, bob) = (stage.bank.balance("Ada")?, stage.bank.balance("Bob")?);
    let statement = stage.bank.statement("Ada")?;
    println!("\nAda has {ada} cents, Bob {bob}; {} transfers are booked", stage.bank.transfers()?);
    println!("the statement of Ada says {statement:?}");
    ensure!((ada, bob, stage.bank.transfers()?) == (600, 400, 2), "money is lost or made");
    ensure!(statement == Some(600), "the statement is an old one");
    println!("nothing was booked twice, and nothing old was written over what is new");
    Ok(())
}

/// What all programs of the demo share.
struct Stage {
    redis: Server,
    queue: Inspect,
    bank: Bank,
    file: PathBuf,
    _dir: tempfile::TempDir,
}

impl Stage {
    fn set() -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("accounts.sqlite");
        let bank = Bank::open(&file)?;
        bank.deposit("Ada", 1000)?;
        bank.deposit("Bob", 0)?;
        let redis = Server::start()?;
        let client = Client::new(redis.url())?;
        client.make_default()?;
        let queue = client.inspect("default");
        Ok(Self { redis, queue, bank, file, _dir: dir })
    }

    /// The money has moved, and the worker dies before it can say so.
    async fn kill_between_effect_and_result(&self) -> anyhow::Result<()> {
        println!("a worker is killed between the effect of its job and the result");
        let mut first = self.worker("first", DAWDLE)?;
        transfer::enqueue("Ada".into(), "Bob".into(), 300).await?;
        first.says("booked").await?;
        first.process.kill().await?;
        println!("  first:  killed with SIGKILL");

        let mut second = self.worker("second", Duration::ZERO)?;
        second.says("was booked by an earlier run").await?;
        self.drained().await?;
        second.end().await
    }

    /// A worker has read what it is about to write, and is stopped until another has written something newer.
    async fn stop_before_the_write(&self) -> anyhow::Result<()> {
        println!("\na worker is stopped before its write, for longer than its lease lasts");
        let mut third = self.worker("third", DAWDLE)?;
        write_statement::enqueue("Ada".into()).await?;
        third.says("reads 700 cents").await?;
        third.signal(Signal::STOP)?;
        println!("  third:  stopped with SIGSTOP");

        transfer::enqueue("Ada".into(), "Bob".into(), 100).await?;
        let mut fourth = self.worker("fourth", Duration::ZERO)?;
        fourth.says("booked").await?;
        fourth.says("600 cents, written").await?;

        third.signal(Signal::CONT)?;
        println!("  third:  goes on with SIGCONT");
        third.says("700 cents, refused").await?;
        self.drained().await?;
        third.end().await?;
        fourth.end().await
    }

    fn worker(&self, name: &'static str, dawdle: Duration) -> anyhow::Result<Program> {
        let mut command = Command::new(env::current_exe()?);
        command
            .arg("worker")
            .arg(&self.file)
            .env("HWORKER_REDIS_URL", self.redis.url())
            // The least; with the default of 5s the demo would take longer.
            .env("HWORKER_DEAD_AFTER", "2s")
            // One that is stopped while it waits for more would be handed the next job too, until its death is noticed.
            .env("HWORKER_CONCURRENCY", "1")
            .env("HWORKER_LOG", "error")
            .env("LEDGER_DAWDLE_MS", dawdle.as_millis().to_string())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut process = command.spawn()?;
        let output = process.stdout.take().context("the output of a worker")?;
        Ok(Program { name, process, output: BufReader::new(output).lines() })
    }

    async fn drained(&self) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            let counts = self.queue.counts().await?;
            if counts.waiting + counts.running + counts.scheduled == 0 {
                return Ok(());
            }
            ensure!(start.elapsed() < PATIENCE, "jobs are left: {counts:?}");
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A worker, and what its jobs say.
struct Program {
    name: &'static str,
    process: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// Waits until one of its jobs says this, and shows what they say until then.
    async fn says(&mut self, words: &str) -> anyhow::Result<()> {
        let name = format!("{}:", self.name);
        let said = async {
            while let Some(line) = self.output.next_line().await? {
                println!("  {name:<7} {line}");
                if line.contains(words) {
                    return Ok(());
                }
            }
            anyhow::bail!("the worker has ended")
        };
        timeout(PATIENCE, said).await.with_context(|| format!("{name} did not say {words:?}"))?
    }

    async fn end(mut self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)?;
        let status = timeout(PATIENCE, self.process.wait()).await.context("a worker stays")??;
        ensure!(status.success(), "{}: {status}", self.name);
        Ok(())
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let number = self.process.id().context("the worker has ended")?;
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw).context("its number")?;
        Ok(kill_process(pid, signal)?)
    }
}
