//! The whole mailing on this machine, with a worker that is killed half-way.

use std::env;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hworker::embedded::Server;
use hworker::{Client, Inspect};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::members::{self, Member};
use crate::sink::{self, Mailboxes};

/// So long without a new mail, and the demo gives up.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub async fn run(recipients: usize) -> anyhow::Result<()> {
    ensure!(recipients > 0, "a mailing needs recipients");
    let members: Vec<Member> = members::sample(recipients).collect();
    let stage = Stage::set(recipients).await?;

    let mut worker = stage.worker()?;
    let (web, address) = stage.web().await?;
    let began = Instant::now();
    stage.post(&members, &address).await?;
    stage.wait_for(recipients.div_ceil(2)).await?;

    stage.kill(&mut worker).await?;
    worker = stage.worker()?;
    stage.wait_for(recipients).await?;
    let took = began.elapsed();
    stage.wait_until_nothing_is_left().await?;

    let statistics = stage.queue.statistics(None).await?;
    for mut program in [worker, web] {
        program.kill().await?;
    }
    stage.bar.finish_and_clear();
    let recovered = statistics.get("recovered").copied().unwrap_or(0);
    println!("{recovered:>6} jobs were in the hands of the worker that was killed, and ran again");
    report(&members, &stage.mailboxes, took)
}

/// What all programs of the demo share, and how far they are.
struct Stage {
    redis: Server,
    queue: Inspect,
    smtp: SocketAddr,
    mailboxes: Mailboxes,
    bar: ProgressBar,
}

impl Stage {
    /// Starts Redis, and the mail server in this process.
    async fn set(recipients: usize) -> anyhow::Result<Self> {
        let redis = Server::start()?;
        let queue = Client::new(redis.url())?.inspect("default");
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let smtp = listener.local_addr()?;
        let mailboxes = Mailboxes::default();
        tokio::spawn(sink::serve(listener, mailboxes.clone()));
        let style = "{wide_bar} {human_pos} of {human_len} recipients, {elapsed} {msg}";
        let style = ProgressStyle::with_template(style)?;
        let bar = ProgressBar::new(recipients as u64).with_style(style);
        let stage = Self { redis, queue, smtp, mailboxes, bar };
        stage.say(&format!(
            "{} and a mail server that only counts",
            stage.redis.program().display()
        ));
        Ok(stage)
    }

    /// Starts this program again, as a part of the mailing that finds the same Redis.
    fn program(&self, args: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(env::current_exe()?);
        command.args(args).env("HWORKER_REDIS_URL", self.redis.url()).kill_on_drop(true);
        Ok(command)
    }

    fn worker(&self) -> anyhow::Result<Child> {
        let mut command = self.program(&["worker", "--smtp", &self.smtp.to_string()])?;
        // Its log would tear the progress bar apart.
        let worker = command.stdout(Stdio::null()).spawn()?;
        self.say(&format!("worker {}: started", pid(&worker)));
        Ok(worker)
    }

    async fn kill(&self, worker: &mut Child) -> anyhow::Result<()> {
        let pid = pid(worker);
        worker.kill().await?;
        let sent = HumanCount(self.mailboxes.reached());
        self.say(&format!("worker {pid}: killed with SIGKILL after {sent} mails"));
        Ok(())
    }

    /// The web server and where it takes mailings, which is its first line.
    async fn web(&self) -> anyhow::Result<(Child, String)> {
        let mut command = self.program(&["web", "--listen", "127.0.0.1:0"])?;
        let mut web = command.stdout(Stdio::piped()).spawn()?;
        let output = web.stdout.take().context("the output of the web server")?;
        let first = BufReader::new(output).lines().next_line().await?;
        let address = first.context("the web server did not start")?;
        self.say(&format!("web server: {address}"));
        Ok((web, address))
    }

    async fn post(&self, members: &[Member], address: &str) -> anyhow::Result<()> {
        let (csv, url) = (members::to_csv(members.iter().cloned())?, address.to_owned());
        let began = Instant::now();
        let size = csv.len() / 1024;
        let post = move || ureq::post(&url).send(&csv)?.body_mut().read_to_string();
        let posted = tokio::task::spawn_blocking(post);
        while !posted.is_finished() {
            self.look().await;
        }
        let answer = posted.await??;
        let took = began.elapsed();
        self.say(&format!(
            "web server: took {size} KiB of CSV and said {answer:?} after {took:.1?}"
        ));
        Ok(())
    }

    async fn wait_for(&self, recipients: usize) -> anyhow::Result<()> {
        let mut last = (self.mailboxes.reached(), Instant::now());
        while self.mailboxes.reached() < recipients as u64 {
            self.look().await;
            if self.mailboxes.reached() > last.0 {
                last = (self.mailboxes.reached(), Instant::now());
            }
            ensure!(
                last.1.elapsed() < PATIENCE,
                "no new mail for {PATIENCE:?}: {} recipients reached",
                last.0
            );
        }
        Ok(())
    }

    /// What the killed worker had not settled comes back to the queue when it is found dead, and may be sent again.
    async fn wait_until_nothing_is_left(&self) -> anyhow::Result<()> {
        self.bar.set_message("(waiting for what the killed worker had in hand)");
        let began = Instant::now();
        loop {
            let left = self.queue.counts().await?;
            if left.waiting + left.scheduled + left.running == 0 {
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "still on the queue: {left:?}");
            self.look().await;
        }
    }

    /// Moves the progress bar and lets time pass.
    async fn look(&self) {
        self.bar.set_position(self.mailboxes.reached());
        sleep(LOOK_EVERY).await;
    }

    fn say(&self, what: &str) {
        self.bar.suspend(|| println!("{what}"));
    }
}

fn pid(program: &Child) -> u32 {
    program.id().unwrap_or_default()
}

/// # Errors
/// Where somebody did not get their mail.
fn report(members: &[Member], mailboxes: &Mailboxes, took: Duration) -> anyhow::Result<()> {
    let mails: Vec<usize> =
        members.iter().map(|member| mailboxes.of(&member.email).mails).collect();
    let missed = mails.iter().filter(|mails| **mails == 0).count();
    let twice = mails.iter().filter(|mails| **mails == 2).count();
    let more = mails.iter().filter(|mails| **mails > 2).count();
    let one_id = members.iter().all(|member| mailboxes.of(&member.email).message_ids.len() <= 1);
    let rate = members.len() as f64 / took.as_secs_f64();

    println!("{:>6} recipients in {took:.1?}, {rate:.0} a second", members.len());
    println!("{missed:>6} got no mail");
    println!("{twice:>6} got it twice, under the same Message-ID");
    println!("{more:>6} got it more often");
    ensure!(one_id, "a recipient got mails with different Message-IDs");
    ensure!(missed == 0, "{missed} recipients did not get their mail");
    Ok(())
}
