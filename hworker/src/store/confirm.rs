//! Whether what was written is as safe as asked: on replicas, or on disk. The server is asked behind the write, on the same
//! connection, since it answers for what that connection wrote.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{Cmd, Value};
use tokio::sync::watch;

use super::connection::{CALLS_IN_FLIGHT, Call, Connection, LAST_MOMENT};
use super::fault::{Fault, FaultKind};
use super::reply::{Reply, number};
use crate::durability::Durability;
use crate::time::millis;

/// Beside the time that replicas and disks are given.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// A look whether replicas and disks are there takes at most so long: less than an enqueue has, so that it hears why.
const LOOK_WITHIN: Duration = Duration::from_secs(2);

/// Calls that one question answers for: fewer than are under way at once on a connection, so that each goes out when it is made, ahead
/// of the question.
const CALLS: usize = CALLS_IN_FLIGHT / 2;

/// Asks whether what was written on a connection is safe.
///
/// The server holds up what stands behind a question on its connection until it has answered. Were each writer to ask, those of many
/// queues, and delayed jobs, would stand in line for a question each, with `appendfsync everysec` a second long. So one is asked for
/// all who have written since the last, as databases commit in groups, and who comes meanwhile writes when it is answered.
#[derive(Debug)]
pub(super) struct Questions {
    asked: Durability,
    state: Mutex<State>,
    /// Who writes now stands behind a question.
    closed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    /// Those who have written since the last question.
    round: Option<Round>,
    /// A task asks, or is about to.
    asking: bool,
}

#[derive(Debug)]
struct Round {
    calls: usize,
    tell: watch::Sender<Option<Answer>>,
}

type Answer = Result<(), Fault>;

impl Questions {
    pub(super) fn new(asked: Durability) -> Self {
        Self { asked, state: Mutex::default(), closed: watch::Sender::new(false) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts calls that are on the connection. Gives who tells of them, and whether somebody has to ask.
    fn join(&self, calls: usize) -> (watch::Receiver<Option<Answer>>, bool) {
        let mut state = self.state();
        let round =
            state.round.get_or_insert_with(|| Round { calls: 0, tell: watch::Sender::new(None) });
        round.calls += calls;
        if round.calls >= CALLS {
            self.closed.send_replace(true);
        }
        let told = round.tell.subscribe();
        (told, !std::mem::replace(&mut state.asking, true))
    }
}

/// A task that asks as long as somebody has written.
struct Asker {
    connection: Connection,
    questions: Arc<Questions>,
    /// Nobody has written, and who does has another task.
    over: bool,
}

impl Asker {
    async fn run(mut self) {
        loop {
            self.all_have_written().await;
            let Some(round) = self.next() else { return };
            let answer = self.connection.ask(self.questions.asked).await;
            if answer.is_err() {
                self.connection.end();
            }
            round.tell.send_replace(Some(answer));
            self.questions.closed.send_replace(false);
        }
    }

    /// Lets those write first who were let in at the same time, as long as there are some.
    async fn all_have_written(&self) {
        let mut counted = 0;
        loop {
            tokio::task::yield_now().await;
            let calls = self.questions.state().round.as_ref().map_or(0, |round| round.calls);
            if calls == counted || calls >= CALLS {
                return;
            }
            counted = calls;
        }
    }

    fn next(&mut self) -> Option<Round> {
        let mut state = self.questions.state();
        let round = state.round.take();
        self.over = round.is_none();
        state.asking = !self.over;
        self.questions.closed.send_replace(state.asking);
        round
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        // The runtime ends: who has written hears that nobody asks.
        *self.questions.state() = State::default();
        self.questions.closed.send_replace(false);
    }
}

impl Connection {
    /// How long a write on it may take longer than one that is not confirmed: another may wait ahead of it.
    pub(crate) fn confirms_within(&self) -> Duration {
        let within = |questions: &Arc<Questions>| 2 * questions.asked.time() + ANSWER_WITHIN;
        self.confirms().map_or(Duration::ZERO, within)
    }

    /// Awaits, where writes are confirmed, that none stands behind a question any more; gives what is left of the time.
    ///
    /// # Errors
    /// What was to be written is certainly not.
    pub(crate) async fn free_to_write(&self, within: Duration) -> Result<Duration, Fault> {
        let Some(questions) = self.confirms() else { return Ok(within) };
        let until = Instant::now() + within;
        let mut closed = questions.closed.subscribe();
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

    /// Awaits that so many calls, made right before it is polled for the first time, are as safe as asked. It costs them no round trip.
    ///
    /// A connection on which it was not takes no more: the next looks first whether it can be, and keeps jobs from being
    /// written where it cannot.
    ///
    /// # Cancel safety
    /// Cancel safe: others hear of it all the same.
    pub(crate) async fn confirm(&self, calls: usize) -> Result<(), Fault> {
        let Some(questions) = self.confirms() else { return Ok(()) };
        let (mut told, asks) = questions.join(calls);
        if asks {
            let questions = Arc::clone(questions);
            let asker = Asker { connection: self.clone(), questions, over: false };
            tokio::spawn(asker.run());
        }
        let answer = told.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
        answer.unwrap_or_else(|| Err(Fault::not_durable("the runtime of the connection has ended")))
    }

    /// Asks whether what was written on it before is as safe as asked.
    async fn ask(&self, asked: Durability) -> Result<(), Fault> {
        // Also where somebody else met an error meanwhile, such as a slot that has moved: what was written is asked for.
        let reached = match self.send(&question(asked, asked.time()), self.confirms_within()).await
        {
            Ok(reply) => Reached::read(asked, &reply),
            Err(fault) => Err(fault),
        };
        let confirmed = match reached {
            Ok(reached) => reached.suffices(asked),
            Err(fault) => Err(fault.to_string()),
        };
        confirmed
            .map_err(|why| Fault::not_durable(format!("{asked} was asked for, but {why} in time")))
    }

    /// Runs a script that writes, for who is the only one that writes here. What it answered counts as much where it is not as safe
    /// as asked.
    ///
    /// Not cancel safe, as [`Connection::call`].
    pub(super) async fn run_confirmed(
        &self,
        script: &Call,
        within: Duration,
    ) -> Result<(Value, Result<(), Fault>), Fault> {
        let confirm = || async {
            match self.confirms() {
                Some(questions) => self.ask(questions.asked).await,
                None => Ok(()),
            }
        };
        self.run_beside(script, within, confirm).await
    }

    /// Runs a script, and what follows it on the connection.
    ///
    /// Not cancel safe, as [`Connection::call`].
    pub(super) async fn run_beside<T, F: Future<Output = T>>(
        &self,
        script: &Call,
        within: Duration,
        follow: impl Fn() -> F,
    ) -> Result<(Value, T), Fault> {
        let command = self.spelled(script);
        let (reply, followed) = tokio::join!(biased; self.call(&command, within), follow());
        match reply {
            // Nothing was written yet that could have been confirmed.
            Err(fault) if fault.kind == FaultKind::NoScript => {
                let text = script.by_text();
                let (reply, followed) = tokio::join!(biased; self.call(&text, within), follow());
                Ok((reply?, followed))
            }
            reply => Ok((reply?, followed)),
        }
    }

    /// Looks, before anything is written, whether the server can confirm it now: a server answers for all that was written
    /// before a connection's last command, so this asks for a sign of life of replicas and disks.
    pub(crate) async fn can_confirm(&self) -> Result<(), Fault> {
        let Some(asked) = self.confirms().map(|questions| questions.asked) else { return Ok(()) };
        let time = asked.time().min(LOOK_WITHIN);
        let reply = match self.call(&question(asked, time), time + ANSWER_WITHIN).await {
            Err(fault) if fault.to_string().contains("unknown command") => {
                let why = format!(
                    "durability {asked} takes WAITAOF, which Redis has from 7.2 on, and Valkey; with replicated=1 alone, or `appendfsync always`, it is not needed"
                );
                return Err(Fault::denied(why));
            }
            // Nothing is written yet.
            reply => reply.map_err(|fault| fault.about(format_args!("durability {asked}")))?,
        };
        let reached = Reached::read(asked, &reply)?;
        let cannot = |why| Fault::not_sent(format!("{asked} is asked for, but {why} now"));
        reached.suffices(asked).map_err(cannot)
    }
}

fn question(asked: Durability, time: Duration) -> Cmd {
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

/// Who has what was written.
#[derive(Debug)]
struct Reached {
    own_disk: bool,
    replicas: u64,
}

impl Reached {
    fn read(asked: Durability, reply: &Value) -> Result<Self, Fault> {
        if !asked.on_disk() {
            let replicas = number("WAIT", reply)?.unsigned_abs();
            return Ok(Self { own_disk: false, replicas });
        }
        let mut reply = Reply::list("WAITAOF", reply.clone())?;
        Ok(Self { own_disk: reply.count()? > 0, replicas: reply.count()? })
    }

    fn suffices(&self, asked: Durability) -> Result<(), String> {
        let wanted = u64::from(asked.replicas());
        if asked.on_disk() && !self.own_disk {
            return Err("the server's own disk did not have it".into());
        }
        if self.replicas < wanted {
            return Err(format!("{} of {wanted} replicas had it", self.replicas));
        }
        Ok(())
    }
}
