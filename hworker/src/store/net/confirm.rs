//! Whether what was written is as safe as asked: on replicas, or on disk. The server is asked behind the write, on the same
//! connection, since it answers for what that connection wrote.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, Value};

use super::barrier::Barriers;
use super::call::Call;
use super::connection::Connection;
use super::fault::{Fault, FaultKind};
use crate::durability::Durability;
use crate::store::bounds::LAST_MOMENT;
use crate::store::reply::Reply;
use crate::time::millis;

/// In addition to the time that replicas and disks are given.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The check of replicas and disks takes at most this long. It is less than an enqueue has, so that the enqueue can say why it failed.
const LOOK_WITHIN: Duration = Duration::from_secs(2);

/// The task that sends barriers as long as there are writes to cover.
struct Sender {
    connection: Connection,
    barriers: Arc<Barriers>,
    /// No write is left; the next one starts another task.
    over: bool,
}

impl Sender {
    async fn run(mut self) {
        loop {
            self.all_have_written().await;
            let Some(round) = self.barriers.next() else {
                self.over = true;
                return;
            };
            let answer = self.connection.wait_for_writes(self.barriers.asked()).await;
            if answer.is_err() {
                self.connection.end();
            }
            self.barriers.answered(&round, answer);
        }
    }

    /// Lets the writes go first that were let in at the same time, as long as there are some.
    async fn all_have_written(&self) {
        let mut counted = 0;
        loop {
            tokio::task::yield_now().await;
            let (calls, has_room) = self.barriers.joined();
            if calls == counted || !has_room {
                return;
            }
            counted = calls;
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if !self.over {
            self.barriers.abandon();
        }
    }
}

impl Connection {
    /// How much longer a confirmed write may take than a plain one: the barrier of another write may be ahead of it.
    pub(crate) fn confirms_within(&self) -> Duration {
        let within = |barriers: &Arc<Barriers>| 2 * barriers.asked().time() + ANSWER_WITHIN;
        self.barriers().map_or(Duration::ZERO, within)
    }

    /// Waits until a write would not stand behind a barrier; gives the time that is left. Returns at once if writes are not confirmed.
    ///
    /// # Errors
    /// Nothing was written.
    pub(crate) async fn free_to_write(&self, within: Duration) -> Result<Duration, Fault> {
        let Some(barriers) = self.barriers() else { return Ok(within) };
        let until = Instant::now() + within;
        let mut closed = barriers.closed();
        tokio::select! {
            biased;
            () = self.ended() => return Err(Fault::not_sent("the connection has ended")),
            _ = closed.wait_for(|closed| !closed) => {}
            () = tokio::time::sleep(within) => {
                return Err(Fault::not_sent("what was written before is not yet as safe as asked"));
            }
        }
        Ok(until.saturating_duration_since(Instant::now()).max(LAST_MOMENT))
    }

    /// Waits until this many calls are as safe as asked. They must be made right before this is polled first; it costs them no round trip.
    ///
    /// If it fails, the connection ends. The next one is checked with [`Connection::can_confirm`] before anything is written on it.
    ///
    /// # Cancel safety
    /// Cancel safe: other calls of the same barrier still get its answer.
    pub(crate) async fn confirm(&self, calls: usize) -> Result<(), Fault> {
        let Some(barriers) = self.barriers() else { return Ok(()) };
        let (mut told, starts_sender) = barriers.join(calls);
        if starts_sender {
            let barriers = Arc::clone(barriers);
            let sender = Sender { connection: self.clone(), barriers, over: false };
            tokio::spawn(sender.run());
        }
        let answer = told.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
        answer.unwrap_or_else(|| Err(Fault::not_durable("the runtime of the connection has ended")))
    }

    /// Sends a barrier: whether everything that was written on this connection is as safe as asked.
    async fn wait_for_writes(&self, asked: Durability) -> Result<(), Fault> {
        // Also if another call met an error, such as a slot that has moved: earlier writes still need their answer.
        let reached = match self.send(&barrier(asked, asked.time()), self.confirms_within()).await {
            Ok(reply) => reached(asked, reply),
            Err(fault) => Err(fault),
        };
        let confirmed = reached.unwrap_or_else(|fault| Err(fault.to_string()));
        confirmed
            .map_err(|why| Fault::not_durable(format!("{asked} was asked for, but {why} in time")))
    }

    /// Runs a script that writes, on a connection that nothing else writes on. The second result says whether the write is as safe as
    /// asked; the reply counts in both cases.
    ///
    /// Not cancel safe, as [`Connection::call`].
    pub(crate) async fn run_confirmed(
        &self,
        script: &Call,
        within: Duration,
    ) -> Result<(Reply, Result<(), Fault>), Fault> {
        let confirm = || async {
            match self.barriers() {
                Some(barriers) => self.wait_for_writes(barriers.asked()).await,
                None => Ok(()),
            }
        };
        self.run_beside(script, within, confirm).await
    }

    /// Runs a script, and what follows it on the connection.
    ///
    /// Not cancel safe, as [`Connection::call`].
    pub(crate) async fn run_beside<T, F: Future<Output = T>>(
        &self,
        script: &Call,
        within: Duration,
        follow: impl Fn() -> F,
    ) -> Result<(Reply, T), Fault> {
        let command = self.spelled(script);
        let mut made = tokio::join!(biased; self.call(&command, within), follow());
        if made.0.as_ref().is_err_and(|fault| fault.kind == FaultKind::NoScript) {
            // The server has forgotten it. Nothing was written yet that could have been confirmed.
            let text = script.by_text();
            made = tokio::join!(biased; self.call(&text, within), follow());
        }
        Ok((script.reply(made.0?), made.1))
    }

    /// Checks, before anything is written, whether the server can confirm writes now. A barrier without writes of its own needs a sign
    /// of life from replicas and disks.
    pub(crate) async fn can_confirm(&self) -> Result<(), Fault> {
        let Some(asked) = self.barriers().map(|barriers| barriers.asked()) else { return Ok(()) };
        let time = asked.time().min(LOOK_WITHIN);
        let reply = match self.call(&barrier(asked, time), time + ANSWER_WITHIN).await {
            Err(fault) if fault.to_string().contains("unknown command") => {
                let why = format!(
                    "durability {asked} takes WAITAOF, which Redis has from 7.2 on, and Valkey; with replicated=1 alone, or `appendfsync always`, it is not needed"
                );
                return Err(Fault::denied(why));
            }
            // Nothing is written yet.
            reply => reply.map_err(|fault| fault.about(format_args!("durability {asked}")))?,
        };
        let cannot = |why| Fault::not_sent(format!("{asked} is asked for, but {why} now"));
        reached(asked, reply)?.map_err(cannot)
    }
}

fn barrier(asked: Durability, time: Duration) -> Cmd {
    let mut command = if asked.on_disk() {
        let mut command = redis::cmd("WAITAOF");
        command.arg(1);
        command
    } else {
        redis::cmd("WAIT")
    };
    command.arg(asked.replicas()).arg(millis(time));
    command
}

/// Whether the writes are where they were asked to be, or else which are not.
fn reached(asked: Durability, reply: Value) -> Result<Result<(), String>, Fault> {
    let mut reply = Reply::new("WAIT", reply);
    if asked.on_disk() && reply.count()? == 0 {
        return Ok(Err("the server's own disk did not have it".into()));
    }
    let (replicas, wanted) = (reply.count()?, u64::from(asked.replicas()));
    if replicas < wanted {
        return Ok(Err(format!("{replicas} of {wanted} replicas had it")));
    }
    Ok(Ok(()))
}
