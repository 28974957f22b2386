//! One connection to the server: how it is made, and how a call on it ends. Only here and in `fault` and `script` is
//! the redis crate known.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, PushKind,
    Value,
};
use tokio_util::sync::CancellationToken;

use super::Queue;
use super::fault::Fault;
use super::lease::Lease;
use super::script::Script;
use crate::error::Error;

/// How long making a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// Calls that may be under way at once on a connection before a further one waits for a place.
const CALLS_IN_FLIGHT: usize = 1024;

/// Where the server is.
#[derive(Clone)]
pub(crate) struct Address {
    info: ConnectionInfo,
    shown: Arc<str>,
}

impl Address {
    /// Reads `redis://`, `redis+unix://`, `unix://` and, with the feature `tls`, `rediss://`.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let shown: Arc<str> = without_secrets(url).into();
        let wrong = |why: &dyn std::fmt::Display| {
            Error::config(format!(
                "the Redis URL `{shown}` cannot be used: {why}; write `redis://user:password@host:6379/0`, \
                 `redis+unix:///path`, or `rediss://` for TLS, and `%23` for a `#` in a password and the like"
            ))
        };
        for scheme in ["redis-sentinel", "redis-cluster"] {
            if url.starts_with(&format!("{scheme}:")) {
                return Err(wrong(&format!("{scheme}:// is not yet supported")));
            }
        }
        if url.starts_with("rediss:") && !cfg!(feature = "tls") {
            return Err(wrong(&"rediss:// needs the feature `tls` of hworker"));
        }
        #[cfg(feature = "tls")]
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Another thread, or the program itself, may be quicker; then theirs is used.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let info = url.into_connection_info().map_err(|error| wrong(&error))?;
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(10))
            .with_interval(Duration::from_secs(3))
            .with_retries(3);
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
        Ok(Self { info: info.set_redis_settings(settings).set_tcp_settings(tcp), shown })
    }

    /// Makes a connection to the server that has this queue, driven by the runtime that this is called in.
    pub(crate) async fn connect(&self, _to: &Queue) -> Result<Connection, Fault> {
        let ended = CancellationToken::new();
        let notice = ended.clone();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            // The crate's own limit would also end blocking commands; every call here has its own.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(CALLS_IN_FLIGHT)
            .set_push_sender(move |push: redis::PushInfo| {
                if push.kind == PushKind::Disconnection {
                    notice.cancel();
                }
                Ok::<(), redis::aio::SendError>(())
            });
        let client = redis::Client::open(self.info.clone())
            .map_err(|error| Fault::from_redis(error, false))?;
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        // The crate's limit covers the socket, not the greeting of a server that stalls.
        let inner = tokio::time::timeout(CONNECT_WITHIN, connecting)
            .await
            .map_err(|_| Fault::not_sent(format!("no connection within {CONNECT_WITHIN:?}")))?
            .map_err(|error| Fault::from_redis(error, false))?;
        // When the runtime is dropped, so is the task that drives the connection, and this one with it.
        let guard = ended.clone();
        tokio::spawn(async move {
            let _end = guard.clone().drop_guard();
            guard.cancelled().await;
        });
        Ok(Connection { inner, ended })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Address({})", self.shown)
    }
}

/// The URL as it may be shown: what stands before the host replaced, the query left out. Whatever it is, a part before
/// an `@` may be a password, and what is no URL at all may be anything.
fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (secret, rest) = match rest.rsplit_once('@') {
        Some((_, host)) => ("***@", host),
        None => ("", rest),
    };
    let place = rest.split(['?', '#']).next().unwrap_or(rest);
    if scheme.is_empty() {
        format!("{secret}{place}")
    } else {
        format!("{scheme}://{secret}{place}")
    }
}

/// A connection; clones share it.
#[derive(Clone)]
pub(crate) struct Connection {
    inner: MultiplexedConnection,
    ended: CancellationToken,
}

impl Connection {
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
        let mut inner = self.inner.clone();
        let reply = tokio::time::timeout(within, inner.send_packed_command(command)).await;
        let result = match reply {
            Err(_) => Err(Fault::no_answer(within)),
            Ok(Err(error)) => Err(Fault::from_redis(error, true)),
            Ok(Ok(Value::ServerError(error))) => Err(Fault::from_redis(error.into(), true)),
            Ok(Ok(value)) => Ok(value),
        };
        if result.as_ref().is_err_and(|fault| fault.kind == super::FaultKind::Connection) {
            self.ended.cancel();
        }
        result
    }

    /// Runs a script by its hash, and by its text where the server does not know it.
    ///
    /// Not cancel safe, as [`Connection::call`].
    pub(crate) async fn run(&self, script: &Call, within: Duration) -> Result<Value, Fault> {
        match self.call(&script.by_hash, within).await {
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
        let mut by_hash = redis::cmd("EVALSHA");
        by_hash.arg(script.hash()).arg(keys.len());
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
            Lease::Token(token) => {
                let mut name = [0; 22];
                let mut digits = itoa::Buffer::new();
                let digits = digits.format(*token).as_bytes();
                name[..digits.len()].copy_from_slice(digits);
                name[digits.len()..digits.len() + 2].copy_from_slice(b".0");
                self.by_hash.arg(&name[..digits.len() + 2]);
            }
            Lease::Foreign(name) => {
                self.by_hash.arg(name.as_bytes());
            }
        }
        self
    }

    fn by_text(&self) -> Cmd {
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

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn no_password_is_shown_however_the_url_is_written() {
        for (url, shown) in [
            ("redis://host:6379/0", "redis://host:6379/0"),
            ("redis://user:s3cret@host", "redis://***@host"),
            ("redis://user:s3c@r#e?t@host", "redis://***@host"),
            ("redis//user:s3cret@host", "***@host"),
            ("redis+unix:///a.sock?user=u&pass=s3cret", "redis+unix:///a.sock"),
            ("localhost:6379", "localhost:6379"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
