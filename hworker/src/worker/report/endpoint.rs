//! Answers probes and scrapes over HTTP, on a thread of its own: bodies that block hold up no answer, and a slow client holds up no part of
//! the worker.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::log::say;
#[cfg(feature = "metrics")]
use crate::open_metrics::OPEN_METRICS;
use crate::worker::report::health::{Health, Unhealthy};

/// How many connections may be open at once. One more ends the oldest: a probe asks at once, so an old connection is no probe.
const CONNECTIONS: usize = 32;

/// A connection ends after this, whatever its client does.
const CONNECTION_WITHIN: Duration = Duration::from_secs(5);

/// A request with a larger head is refused. hyper takes no lower limit.
const HEAD_BYTES: usize = 8 * 1024;
const HEADERS: usize = 64;

/// What is told where.
const PATHS: &str =
    if cfg!(feature = "metrics") { "/live, /ready and /metrics" } else { "/live and /ready" };

/// The pause after a connection could not be accepted; the process may have no more files to open.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Answers probes until it is dropped; then the address is free again.
pub(crate) struct Endpoint {
    end: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.end.cancel();
        // The thread has nothing to wait for but its end. The panic hook has reported a panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Answers probes at this address until the returned value is dropped.
pub(crate) fn listen(address: SocketAddr, health: Health) -> Result<Endpoint, Error> {
    let cannot = |error| {
        Error::config(format!("health cannot be told at {address} (HWORKER_HEALTH): {error}"))
    };
    let listener = std::net::TcpListener::bind(address).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    // With port 0 the system chooses the port.
    let address = listener.local_addr().map_err(cannot)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(cannot)?;
    let listener = {
        let _runtime = runtime.enter();
        TcpListener::from_std(listener).map_err(cannot)?
    };
    let end = CancellationToken::new();
    let ended = end.clone();
    let thread = move || {
        runtime.block_on(async {
            tokio::select! {
                () = serve(listener, health) => {}
                () = ended.cancelled() => {}
            }
        });
    };
    let thread = std::thread::Builder::new().name("hworker-health".into()).spawn(thread);
    let thread = Some(thread.map_err(cannot)?);
    say!(INFO, %address, "health is told at {PATHS}");
    Ok(Endpoint { end, thread })
}

async fn serve(listener: TcpListener, health: Health) {
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                open.retain(|connection| !connection.is_finished());
                if open.len() == CONNECTIONS
                    && let Some(oldest) = open.pop_front()
                {
                    oldest.abort();
                }
                open.push_back(tokio::spawn(answer(stream, health.clone())).abort_handle());
            }
            Err(error) => {
                say!(DEBUG, "a probe could not be accepted: {error}");
                sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn answer(stream: TcpStream, health: Health) {
    let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
        let response = respond(&health, request.method(), request.uri().path());
        async { Ok::<_, Infallible>(response) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    // A fault on the connection concerns only its client.
    let _ = timeout(CONNECTION_WITHIN, connection).await;
}

fn respond(health: &Health, method: &Method, path: &str) -> Response<String> {
    let answer: fn(&Health) -> Response<String> = match path {
        "/live" => |health| verdict("live", health.live()),
        "/ready" => |health| verdict("ready", health.ready()),
        #[cfg(feature = "metrics")]
        "/metrics" => |health| text(StatusCode::OK, OPEN_METRICS, health.metrics()),
        _ => return error(StatusCode::NOT_FOUND, &format!("ask for {PATHS}")),
    };
    if method != Method::GET && method != Method::HEAD {
        let mut refused = error(StatusCode::METHOD_NOT_ALLOWED, "ask with GET or HEAD");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    answer(health)
}

fn verdict(name: &str, verdict: Result<(), Unhealthy>) -> Response<String> {
    match verdict {
        Ok(()) => reply(StatusCode::OK, &json!({ name: true })),
        Err(why) => {
            reply(StatusCode::SERVICE_UNAVAILABLE, &json!({ name: false, "why": why.to_string() }))
        }
    }
}

fn error(status: StatusCode, why: &str) -> Response<String> {
    reply(status, &json!({ "error": why }))
}

fn reply(status: StatusCode, what: &serde_json::Value) -> Response<String> {
    text(status, "application/json", format!("{what}\n"))
}

fn text(status: StatusCode, of_type: &'static str, text: String) -> Response<String> {
    let mut response = Response::new(text);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(of_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
