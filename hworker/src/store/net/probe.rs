//! What listens at an address where no connection could be made: a server that speaks TLS, one that does not, or one that says nothing.

use std::pin::pin;
use std::time::Duration;

use redis::{ConnectionAddr, RedisError};
use tokio::net::TcpStream;

use super::advice;
use super::fault::{Fault, FaultKind};
use crate::time::within;

/// How long it is listened to.
const PROBE_WITHIN: Duration = Duration::from_millis(500);

/// An empty first message of TLS: a server that speaks TLS refuses it.
const TLS_HELLO: &[u8] = &[0x16, 3, 1, 0, 4, 1, 0, 0, 0];

/// What listens there.
enum Listener {
    Nobody,
    /// It speaks TLS where it is not expected, or does not where it is.
    Misunderstands(&'static str),
    /// It took the connection, and says nothing to that either.
    Silent,
}

/// Why no connection was made; without an error it was not made in time.
pub(super) async fn refusal(
    server: &ConnectionAddr,
    error: Option<RedisError>,
    waited: Duration,
) -> Fault {
    let in_time = error.as_ref().is_some_and(|error| !error.is_timeout());
    let fault = match error {
        Some(error) if in_time => Fault::from_redis(error, false),
        _ => Fault::not_sent(format!("no connection within {waited:?}")),
    };
    if fault.kind != FaultKind::Connection {
        return fault;
    }
    match within(PROBE_WITHIN, pin!(listener(server))).await {
        Some(Listener::Misunderstands(what)) => Fault::denied(format!("{fault}; {what}")),
        Some(Listener::Silent) if !in_time => Fault::silent(format!(
            "what listens there takes connections and says nothing within {waited:?}; look whether it is a Redis server, and whether it hangs"
        )),
        _ => fault,
    }
}

async fn listener(server: &ConnectionAddr) -> Listener {
    let expects_tls = matches!(server, ConnectionAddr::TcpTls { .. });
    let (host, port, hello) = match server {
        ConnectionAddr::Tcp(host, port) => (host, *port, TLS_HELLO),
        // A question without secrets, since the server has not shown its certificate.
        ConnectionAddr::TcpTls { host, port, .. } => (host, *port, b"PING\r\n".as_slice()),
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let connected = tokio::net::UnixStream::connect(path).await;
            return connected.map_or(Listener::Nobody, |_| Listener::Silent);
        }
        _ => return Listener::Nobody,
    };
    let Ok(stream) = TcpStream::connect((host.as_str(), port)).await else {
        return Listener::Nobody;
    };
    let mut answer = [0; 2];
    let asked = async {
        stream.writable().await?;
        stream.try_write(hello)?;
        stream.readable().await?;
        stream.try_read(&mut answer)
    };
    // What it does not answer to in half of the time it does not answer to.
    let answered = within(PROBE_WITHIN / 2, pin!(asked)).await;
    match (answered, answer) {
        (Some(Ok(_)), [0x15 | 0x16, 3]) if !expects_tls => Listener::Misunderstands(advice::IS_TLS),
        (Some(Ok(_)), [b'+' | b'-', _]) if expects_tls => Listener::Misunderstands(advice::NO_TLS),
        _ => Listener::Silent,
    }
}
