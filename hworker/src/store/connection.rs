//! One connection to the server: how it is made, and how a call on it ends.

use std::borrow::Cow;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ConnectionAddr, PushKind, RedisError, Value};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::cluster::{Cluster, Node};
use super::confirm::Questions;
use super::fault::Fault;
use super::lease::Lease;
use super::line::{Endpoint, Meter};
use super::probe::refusal;
use super::script::{Script, Sent};
use crate::durability::Durability;
use crate::time::within;

/// How long making a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// What is under way gets a moment even at the end: its answer is worth more than none.
pub(crate) const LAST_MOMENT: Duration = Duration::from_millis(100);

/// Calls that may be under way at once on a connection before a further one waits for a place.
pub(super) const CALLS_IN_FLIGHT: usize = 1024;

/// So often within its time a line is looked at that was not silent all the time.
const LOOKS: u32 = 5;

/// Room for the name of the command, the hash and the arguments of a call for a job or a few; more is made when needed.
const FEW_ARGUMENTS: usize = 24;
const FEW_BYTES: usize = 256;

/// Makes a connection, driven by the runtime that this is called in; this meter counts what passes over it.
pub(super) async fn open(
    server: Endpoint,
    meter: Option<&Arc<Meter>>,
) -> Result<Connection, Fault> {
    open_with(server, CancellationToken::new(), None, meter).await
}

/// The same with a token that ends it; `told` is notified of every message of a channel.
pub(super) async fn open_with(
    server: Endpoint,
    ended: CancellationToken,
    told: Option<Arc<Notify>>,
    meter: Option<&Arc<Meter>>,
) -> Result<Connection, Fault> {
    let notice = ended.clone();
    let config = AsyncConnectionConfig::new()
        // The crate's own limit would also end blocking commands; every call here has its own.
        .set_response_timeout(None)
        .set_pipeline_buffer_size(CALLS_IN_FLIGHT)
        .set_push_sender(move |push: redis::PushInfo| {
            match (push.kind, &told) {
                (PushKind::Disconnection, _) => notice.cancel(),
                (PushKind::Message, Some(told)) => told.notify_one(),
                _ => {}
            }
            Ok::<(), redis::aio::SendError>(())
        });
    let meter = meter.cloned().unwrap_or_default();
    let connecting = async {
        meter.set_reads_first(false);
        let line = server.connect(&meter).await?;
        MultiplexedConnection::new_with_config(server.info.redis_settings(), line, config).await
    };
    // Of the greeting too, which a server that stalls does not give.
    let (inner, driver) = match within(CONNECT_WITHIN, pin!(connecting)).await {
        Some(Ok(made)) => made,
        failed => {
            let error = failed.and_then(Result::err);
            return Err(refusal(server.info.addr(), error, CONNECT_WITHIN).await);
        }
    };
    meter.set_reads_first(true);
    let driver = tokio::spawn(driver).abort_handle();
    // When the runtime is dropped, so is the task that drives the connection, and this one with it.
    let guard = ended.clone();
    tokio::spawn(async move {
        let _end = guard.clone().drop_guard();
        guard.cancelled().await;
    });
    let held = Arc::new(Held { ended: ended.clone(), driver });
    Ok(Connection {
        inner,
        ended,
        meter,
        _held: held,
        server: Arc::new(server.info.addr().clone()),
        home: None,
        confirms: None,
        sent: Arc::default(),
    })
}

/// A connection; clones share it.
#[derive(Clone)]
pub(crate) struct Connection {
    inner: MultiplexedConnection,
    ended: CancellationToken,
    meter: Arc<Meter>,
    _held: Arc<Held>,
    /// Where it leads.
    server: Arc<ConnectionAddr>,
    /// The cluster, and which of its servers this one leads to.
    home: Option<(Arc<Cluster>, Node)>,
    /// How safe what is written here has to be, and who asks whether it is.
    confirms: Option<Arc<Questions>>,
    /// The scripts that were sent by their text, which the server knows then, unless it refused them, or is made to forget them.
    sent: Arc<Sent>,
}

/// With the last clone the connection ends, with whoever watches it, and the task that drives it.
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
    /// What is learned on this connection is of use to every other to the same cluster.
    pub(super) fn in_cluster(self, cluster: Arc<Cluster>, node: Node) -> Self {
        Self { home: Some((cluster, node)), ..self }
    }

    /// The same connection, on which writes are confirmed.
    pub(crate) fn confirming(self, asked: Durability) -> Self {
        Self { confirms: asked.asks().map(|asked| Arc::new(Questions::new(asked))), ..self }
    }

    /// How safe what is written on it has to be, and who asks whether it is.
    pub(super) fn confirms(&self) -> Option<&Arc<Questions>> {
        self.confirms.as_ref()
    }

    /// Whether anything that is written on it is confirmed.
    pub(crate) fn is_confirming(&self) -> bool {
        self.confirms.is_some()
    }

    /// Whether both lead to the same server.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.server == other.server
    }

    /// Whether the connection was not seen to end. What is asked of one that is not alive is certainly not sent.
    pub(crate) fn is_alive(&self) -> bool {
        !self.ended.is_cancelled()
    }

    /// Completes when the connection has ended. Cancel safe.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Ends the connection for everyone who shares it.
    pub(crate) fn end(&self) {
        self.ended.cancel();
    }

    /// Sends a command and awaits its reply.
    ///
    /// Not cancel safe: a call that is dropped may have been executed.
    pub(crate) async fn call(&self, command: &Cmd, within: Duration) -> Result<Value, Fault> {
        if !self.is_alive() {
            return Err(Fault::not_sent("the connection has ended"));
        }
        self.send(command, within).await
    }

    /// As [`Connection::call`], also where no further call is wanted on it.
    ///
    /// What is called is on the connection once this was polled, however much the task has done before: what is called after it comes
    /// behind it.
    pub(super) async fn send(&self, command: &Cmd, within: Duration) -> Result<Value, Fault> {
        let mut inner = self.inner.clone();
        let sent = tokio::task::unconstrained(inner.send_packed_command(command));
        self.answer(sent, within).await
    }

    /// Sends two commands in one write, and awaits the reply of the second.
    ///
    /// Not cancel safe, as [`Connection::call`].
    pub(super) async fn call_behind(
        &self,
        first: &Cmd,
        second: &Cmd,
        within: Duration,
    ) -> Result<Value, Fault> {
        let mut both = redis::Pipeline::with_capacity(2);
        both.add_command(first.clone()).add_command(second.clone());
        self.call_together(&both, 1, within).await
    }

    /// Sends a command whose reply is left out, and a script behind it; awaits the reply of that.
    ///
    /// Not cancel safe, as [`Connection::call`].
    pub(crate) async fn run_after(
        &self,
        command: &Cmd,
        script: &Call,
        within: Duration,
    ) -> Result<Value, Fault> {
        let mut unanswered = redis::cmd("CLIENT");
        unanswered.arg("REPLY").arg("SKIP");
        let mut together = redis::Pipeline::with_capacity(3);
        together.add_command(unanswered).add_command(command.clone());
        together.add_command(self.spelled(script).into_owned());
        self.call_together(&together, 0, within).await
    }

    /// Sends commands in one write, and awaits the replies of all.
    pub(super) async fn call_all(
        &self,
        commands: &redis::Pipeline,
        within: Duration,
    ) -> Result<Vec<Result<Value, Fault>>, Fault> {
        if !self.is_alive() {
            return Err(Fault::not_sent("the connection has ended"));
        }
        let mut inner = self.inner.clone();
        let replies = async {
            inner.send_packed_commands(commands, 0, commands.len()).await.map(Value::Array)
        };
        let Value::Array(replies) = self.answer(replies, within).await? else {
            return Err(Fault::reply("several commands", "not one for each"));
        };
        let refused = |reply| match reply {
            Value::ServerError(error) => Err(self.fault(error.into())),
            reply => Ok(reply),
        };
        Ok(replies.into_iter().map(refused).collect())
    }

    /// Sends commands in one write, and awaits the reply that follows so many others.
    async fn call_together(
        &self,
        commands: &redis::Pipeline,
        others: usize,
        within: Duration,
    ) -> Result<Value, Fault> {
        if !self.is_alive() {
            return Err(Fault::not_sent("the connection has ended"));
        }
        let mut inner = self.inner.clone();
        let last = async {
            let mut replies = inner.send_packed_commands(commands, others, 1).await?;
            Ok(replies.pop().unwrap_or_default())
        };
        self.answer(last, within).await
    }

    /// What becomes of a call that was sent.
    async fn answer(
        &self,
        reply: impl Future<Output = redis::RedisResult<Value>>,
        within: Duration,
    ) -> Result<Value, Fault> {
        let written = self.meter.written();
        let result = match self.unless_silent(within, pin!(reply)).await {
            None => Err(Fault::no_answer(within)),
            // The connection had ended by then, unheard of, or ended before anything was written on it: nor is this from now on.
            Some(Err(error)) if self.meter.written() == written => {
                Err(self.fault(error).certainly_not_sent())
            }
            Some(Err(error)) => Err(self.fault(error)),
            Some(Ok(Value::ServerError(error))) => Err(self.fault(error.into())),
            Some(Ok(value)) => Ok(value),
        };
        if let Err(fault) = &result
            && fault.kind == super::FaultKind::Connection
        {
            self.ended.cancel();
            if let (Some((cluster, node)), true) = (&self.home, fault.sent) {
                cluster.doubt(node);
            }
        }
        result
    }

    /// Awaits an answer until the line has been silent for so long: a large call or answer takes its time where the line is slow.
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
        let Some((cluster, node)) = &self.home else { return Fault::from_redis(error, true) };
        cluster.note_moved(&error, node);
        let fault = Fault::from_redis(error, true);
        if fault.says_out_of_service() {
            // What it owned may be another's by now, of which it does not hear: the others are asked.
            cluster.doubt(node);
            return fault.elsewhere();
        }
        fault
    }

    /// How a script goes out on this connection: by its text the first time, since the server may have started just now, and a refusal
    /// costs a round trip for which the jobs that go with it wait, and stands in the server's statistics; then by its hash.
    pub(super) fn spelled<'a>(&self, script: &'a Call) -> Cow<'a, Cmd> {
        if self.sent.is_first(script.script) {
            Cow::Owned(script.by_text())
        } else {
            Cow::Borrowed(&script.by_hash)
        }
    }

    /// Runs a script, and once more by its text where the server does not know it any more.
    ///
    /// Not cancel safe, as [`Connection::call`].
    pub(crate) async fn run(&self, script: &Call, within: Duration) -> Result<Value, Fault> {
        match self.call(&self.spelled(script), within).await {
            Err(fault) if fault.kind == super::FaultKind::NoScript => {
                self.call(&script.by_text(), within).await
            }
            result => result,
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("alive", &self.is_alive()).finish_non_exhaustive()
    }
}

/// A script with its keys and arguments.
#[derive(Debug)]
pub(crate) struct Call {
    script: &'static Script,
    by_hash: Cmd,
}

impl Call {
    pub(crate) fn new(script: &'static Script, keys: &[&str]) -> Self {
        let bytes: usize = keys.iter().map(|key| key.len()).sum();
        let mut by_hash = Cmd::with_capacity(keys.len() + FEW_ARGUMENTS, bytes + FEW_BYTES);
        by_hash.arg("EVALSHA").arg(script.hash()).arg(keys.len());
        for key in keys {
            by_hash.arg(*key);
        }
        Self { script, by_hash }
    }

    pub(crate) fn arg(&mut self, argument: impl AsRef<[u8]>) -> &mut Self {
        self.by_hash.arg(argument.as_ref());
        self
    }

    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.by_hash.arg(number);
        self
    }

    pub(crate) fn lease(&mut self, lease: &Lease) -> &mut Self {
        match lease {
            Lease::Token(token) => self.number(*token),
            Lease::Foreign(name) => self.arg(name.as_bytes()),
        }
    }

    pub(super) fn by_text(&self) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(self.script.text());
        // After the name of the command and the hash.
        for argument in self.by_hash.args_iter().skip(2) {
            if let redis::Arg::Simple(argument) = argument {
                command.arg(argument);
            }
        }
        command
    }
}
