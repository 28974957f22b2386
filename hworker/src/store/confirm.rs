//! Whether what was written is as safe as asked: on replicas, or on disk. The server is asked behind the write, on the same
//! connection, since it answers for what that connection wrote.

use std::time::Duration;

use redis::{Cmd, Value};

use super::connection::{Call, Connection};
use super::fault::{Fault, FaultKind};
use super::reply::{Reply, number};
use crate::durability::Durability;
use crate::time::millis;

/// Beside the time that replicas and disks are given.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// A look whether replicas and disks are there takes at most so long: less than an enqueue has, so that it hears why.
const LOOK_WITHIN: Duration = Duration::from_secs(2);

impl Connection {
    /// How long a write on it may take longer than one that is not confirmed: another may wait ahead of it.
    pub(crate) fn confirms_within(&self) -> Duration {
        self.confirms().map_or(Duration::ZERO, |asked| 2 * asked.time() + ANSWER_WITHIN)
    }

    /// Awaits that what was enqueued before is as safe as asked. Sent together with the write it costs no round trip.
    ///
    /// A connection on which it was not takes no more: the next looks first whether it can be, and keeps jobs from being
    /// written where it cannot.
    pub(crate) async fn confirm(&self) -> Result<(), Fault> {
        self.confirmed().await.inspect_err(|_| self.end())
    }

    async fn confirmed(&self) -> Result<(), Fault> {
        let Some(asked) = self.confirms() else { return Ok(()) };
        let reached = match self.call(&question(asked, asked.time()), self.confirms_within()).await
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

    /// Runs a script that writes. What it answered counts as much where it is not as safe as asked.
    ///
    /// Not cancel safe, as [`Connection::call`].
    pub(super) async fn run_confirmed(
        &self,
        script: &Call,
        within: Duration,
    ) -> Result<(Value, Result<(), Fault>), Fault> {
        let command = self.spelled(script);
        let (reply, confirmed) = tokio::join!(self.call(&command, within), self.confirmed());
        match reply {
            // Nothing was written yet that could have been confirmed.
            Err(fault) if fault.kind == FaultKind::NoScript => {
                let text = script.by_text();
                let (reply, confirmed) = tokio::join!(self.call(&text, within), self.confirmed());
                Ok((reply?, confirmed))
            }
            reply => Ok((reply?, confirmed)),
        }
    }

    /// Looks, before anything is written, whether the server can confirm it now: a server answers for all that was written
    /// before a connection's last command, so this asks for a sign of life of replicas and disks.
    pub(crate) async fn can_confirm(&self) -> Result<(), Fault> {
        let Some(asked) = self.confirms() else { return Ok(()) };
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
