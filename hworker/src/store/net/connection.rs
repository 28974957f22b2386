//! One connection to the server, and how a call on it ends.

use std::borrow::Cow;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ConnectionAddr, RedisError, ToRedisArgs, Value};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::barrier::Barriers;
use super::call::Call;
use super::fault::{Fault, FaultKind};
use super::meter::Meter;
use super::slots::{Node, Slots};
use super::tracking::{Tell, Tracking};
use crate::durability::Durability;
use crate::store::bounds::CALL_WITHIN;
use crate::store::reply::Reply;
use crate::store::script::Sent;
use crate::time::within;

/// How often within its time a line is checked for new bytes.
const LOOKS: u32 = 5;

/// For a command that has none.
pub(super) const NO_ARGUMENTS: Option<&str> = None;

/// A connection; clones share it.
#[derive(Clone)]
pub(crate) struct Connection {
    inner: MultiplexedConnection,
    ended: CancellationToken,
    meter: Arc<Meter>,
    _held: Arc<Held>,
    /// Where it leads.
    server: Arc<ConnectionAddr>,
    /// The slots of the cluster, and which of its servers this one leads to.
    home: Option<(Arc<Slots>, Node)>,
    /// Only where writes are confirmed.
    barriers: Option<Arc<Barriers>>,
    /// The scripts that were sent by their text.
    sent: Arc<Sent>,
    tracking: Arc<Tracking>,
}

/// Ends the connection and the task that drives it with the last clone.
struct Held {
    ended: CancellationToken,
    driver: AbortHandle,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.ended.cancel();
        self.driver.abort();
    }
}

impl Connection {
    pub(super) fn new(
        inner: MultiplexedConnection,
        driver: AbortHandle,
        ended: CancellationToken,
        meter: Arc<Meter>,
        server: ConnectionAddr,
    ) -> Self {
        // When the runtime is dropped, so is the task that drives the connection, and this one with it.
        let guard = ended.clone();
        tokio::spawn(async move {
            let _end = guard.clone().drop_guard();
            guard.cancelled().await;
        });
        Self {
            inner,
            meter,
            _held: Arc::new(Held { ended: ended.clone(), driver }),
            ended,
            server: Arc::new(server),
            home: None,
            barriers: None,
            sent: Arc::default(),
            tracking: Arc::default(),
        }
    }

    /// With what is done when the server tells of keys.
    pub(super) fn tracked(self, tracking: Arc<Tracking>) -> Self {
        Self { tracking, ..self }
    }

    /// Has the server tell when a key changes that was read on this connection, from the first call on. False where the server does not
    /// do so for us.
    pub(crate) async fn track(&self, tell: impl FnOnce() -> Tell) -> Result<bool, Fault> {
        let Tracking { tell: told, is_on } = &*self.tracking;
        let begin = || async {
            told.get_or_init(tell);
            let on = redis::cmd("CLIENT").arg("TRACKING").arg("ON").to_owned();
            match self.call(&on, CALL_WITHIN).await {
                Ok(_) => Ok(true),
                Err(fault) if fault.kind == FaultKind::Connection => Err(fault),
                Err(_) => Ok(false),
            }
        };
        is_on.get_or_try_init(begin).await.copied()
    }

    /// Reports what it learns about slots to all connections of the same cluster.
    pub(super) fn in_cluster(self, slots: Arc<Slots>, node: Node) -> Self {
        Self { home: Some((slots, node)), ..self }
    }

    /// A connection whose writes are confirmed.
    pub(crate) fn confirming(self, asked: Durability) -> Self {
        Self { barriers: asked.asks().map(|asked| Arc::new(Barriers::new(asked))), ..self }
    }

    /// The barriers of its writes; none if they are not confirmed.
    pub(super) fn barriers(&self) -> Option<&Arc<Barriers>> {
        self.barriers.as_ref()
    }

    /// Whether anything that is written on it is confirmed.
    pub(crate) fn is_confirming(&self) -> bool {
        self.barriers.is_some()
    }

    /// Whether both lead to the same server.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.server == other.server
    }

    /// Whether the connection has not ended yet, as far as is known. A call on one that has ended is certainly not sent.
    pub(crate) fn is_alive(&self) -> bool {
        !self.ended.is_cancelled()
    }

    /// Completes when the connection has ended. Cancel safe.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Ends the connection with all its clones.
    pub(crate) fn end(&self) {
        self.ended.cancel();
    }

    /// Sends a command and awaits its reply.
    ///
    /// Not cancel safe: a call that is dropped may have been executed.
    pub(crate) async fn call(&self, command: &Cmd, within: Duration) -> Result<Value, Fault> {
        self.line()?;
        self.send(command, within).await
    }

    /// As [`Connection::call`], also on a connection that is to take no further calls.
    ///
    /// The first poll puts the call on the connection, however much the task has done before; later calls come behind it.
    pub(super) async fn send(&self, command: &Cmd, within: Duration) -> Result<Value, Fault> {
        let mut inner = self.inner.clone();
        let sent = tokio::task::unconstrained(inner.send_packed_command(command));
        self.answer(sent, within).await
    }

    /// As [`Connection::call`], with these arguments, and [`CALL_WITHIN`].
    pub(crate) async fn ask(
        &self,
        command: &'static str,
        arguments: impl ToRedisArgs,
    ) -> Result<Reply, Fault> {
        let reply = self.call(redis::cmd(command).arg(arguments), CALL_WITHIN).await?;
        Ok(Reply::new(command, reply))
    }

    /// Sends a command whose reply is left out, and a script behind it; awaits the reply of that.
    ///
    /// Not cancel safe, as [`Connection::call`].
    pub(crate) async fn run_after(
        &self,
        command: Cmd,
        script: &Call,
        within: Duration,
    ) -> Result<Reply, Fault> {
        let mut together = redis::Pipeline::with_capacity(3);
        together.cmd("CLIENT").arg("REPLY").arg("SKIP").add_command(command);
        together.add_command(self.spelled(script).into_owned());
        let mut line = self.line()?;
        let last = async {
            let mut replies = line.send_packed_commands(&together, 0, 1).await?;
            Ok(replies.pop().unwrap_or_default())
        };
        Ok(script.reply(self.answer(last, within).await?))
    }

    /// Sends commands in one write, and awaits the replies of all.
    pub(crate) async fn ask_all(
        &self,
        commands: &redis::Pipeline,
    ) -> Result<Vec<Result<Reply, Fault>>, Fault> {
        let mut line = self.line()?;
        let replies = async {
            line.send_packed_commands(commands, 0, commands.len()).await.map(Value::Array)
        };
        let Value::Array(replies) = self.answer(replies, CALL_WITHIN).await? else {
            return Err(Fault::reply("several commands", "not one for each"));
        };
        let refused = |reply| match reply {
            Value::ServerError(error) => Err(self.fault(error.into())),
            reply => Ok(Reply::new("one of several commands", reply)),
        };
        Ok(replies.into_iter().map(refused).collect())
    }

    /// The line, where it has not ended.
    fn line(&self) -> Result<MultiplexedConnection, Fault> {
        let ended = || Fault::not_sent("the connection has ended");
        self.is_alive().then(|| self.inner.clone()).ok_or_else(ended)
    }

    /// Waits for the reply of a call, and ends the connection if it failed.
    async fn answer(
        &self,
        reply: impl Future<Output = redis::RedisResult<Value>>,
        within: Duration,
    ) -> Result<Value, Fault> {
        let written = self.meter.written();
        let result = match self.unless_silent(within, pin!(reply)).await {
            None => Err(Fault::no_answer(within)),
            // The connection had already ended, or ended before anything was written on it; nothing will be written on it now.
            Some(Err(error)) if self.meter.written() == written => {
                Err(self.fault(error).certainly_not_done())
            }
            Some(Err(error)) => Err(self.fault(error)),
            Some(Ok(Value::ServerError(error))) => Err(self.fault(error.into())),
            Some(Ok(value)) => Ok(value),
        };
        if let Err(fault) = &result
            && fault.kind == FaultKind::Connection
        {
            self.ended.cancel();
            if let (Some((slots, node)), true) = (&self.home, fault.sent) {
                slots.doubt(node);
            }
        }
        result
    }

    /// Waits for an answer until the line has been silent for this long. A large call or answer takes long on a slow line.
    async fn unless_silent<T>(
        &self,
        time: Duration,
        mut answer: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let mut passed = self.passed();
        if let Some(answer) = within(time, answer.as_mut()).await {
            return Some(answer);
        }
        let mut silent = if self.passed() == passed { LOOKS } else { 0 };
        while silent < LOOKS {
            passed = self.passed();
            if let Some(answer) = within(time / LOOKS, answer.as_mut()).await {
                return Some(answer);
            }
            silent = if self.passed() == passed { silent + 1 } else { 0 };
        }
        None
    }

    /// Grows as long as the line is not silent.
    pub(crate) fn passed(&self) -> u64 {
        self.meter.passed()
    }

    /// Asks for the messages of these channels.
    pub(super) async fn subscribe(&self, to: &[&str], within: Duration) -> Result<(), Fault> {
        let mut inner = self.inner.clone();
        let reply = tokio::time::timeout(within, inner.subscribe(to)).await;
        reply.map_err(|_| Fault::no_answer(within))?.map_err(|error| Fault::from_redis(error, true))
    }

    fn fault(&self, error: RedisError) -> Fault {
        let Some((slots, node)) = &self.home else { return Fault::from_redis(error, true) };
        slots.note_moved(&error, node);
        let fault = Fault::from_redis(error, true);
        if fault.says_out_of_service() {
            // Its slots may have moved without its knowledge, so the other servers are asked.
            slots.doubt(node);
            return fault.elsewhere();
        }
        fault
    }

    /// How a script is sent on this connection: the first time by its text, later by its hash. The server may have started just now; a
    /// refused hash would cost the jobs a round trip and count as an error in the server's statistics.
    pub(super) fn spelled<'a>(&self, script: &'a Call) -> Cow<'a, Cmd> {
        if self.sent.is_first(script.script) {
            Cow::Owned(script.by_text())
        } else {
            Cow::Borrowed(&script.by_hash)
        }
    }

    /// Runs a script; if the server has forgotten it, sends its text.
    ///
    /// Not cancel safe, as [`Connection::call`].
    pub(crate) async fn run(&self, script: &Call, within: Duration) -> Result<Reply, Fault> {
        let (reply, ()) = self.run_beside(script, within, || std::future::ready(())).await?;
        Ok(reply)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("alive", &self.is_alive()).finish_non_exhaustive()
    }
}
