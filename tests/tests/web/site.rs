//! A site that a test asks over HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use hworker::web::{Access, Web};
use hworker_tests::TestServer;
use serde_json::Value;
use tokio::sync::oneshot;

/// The token of sites that ask for one.
pub(crate) const TOKEN: &str = "the secret of this test";

/// A server of HTTP that ends with its test.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Site {
    /// The page of this server's jobs, for whoever has the token.
    pub(crate) fn of(server: &TestServer) -> Self {
        Self::serve(Web::new(server.client().clone()).access(Access::token(TOKEN)).router())
    }

    pub(crate) fn serve(app: Router) -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                let app = app.into_make_service_with_connect_info::<SocketAddr>();
                tokio::select! {
                    served = axum::serve(listener, app).into_future() => served.expect("it serves"),
                    _ = stopped => {}
                }
            });
        });
        Self { address, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn ask(&self, method: &str, path: &str) -> Asking {
        ask(self.address, method, path)
    }

    /// With the token.
    pub(crate) fn with_token(&self, method: &str, path: &str) -> Asking {
        self.ask(method, path).header("authorization", &format!("Bearer {TOKEN}"))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.with_token("GET", path).send()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.with_token("POST", path).json(body).send()
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.with_token("DELETE", path).send()
    }
}

pub(crate) fn ask(address: SocketAddr, method: &str, path: &str) -> Asking {
    let head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    Asking { address, head, host: Some(address.to_string()), body: String::new() }
}

/// A request.
#[must_use]
pub(crate) struct Asking {
    address: SocketAddr,
    head: String,
    host: Option<String>,
    body: String,
}

impl Asking {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        if name == "host" {
            self.host = Some(value.to_owned());
        } else {
            self.head = format!("{}{name}: {value}\r\n", self.head);
        }
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    pub(crate) fn body(mut self, of_type: &str, body: String) -> Self {
        self.body = body;
        self.header("content-type", of_type)
    }

    /// Sends it, and leaves the answer on the line.
    pub(crate) fn open(self) -> TcpStream {
        let Self { address, head, host, body } = self;
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        let host = host.map_or_else(String::new, |host| format!("host: {host}\r\n"));
        let text = format!("{head}{host}content-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(text.as_bytes()).expect("sent");
        stream
    }

    pub(crate) fn send(self) -> Answer {
        let mut bytes = Vec::new();
        self.open().read_to_end(&mut bytes).expect("an answer");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = body.to_owned();
        Answer { status: status.expect("a status"), head: head.to_ascii_lowercase(), body }
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The same, if its status is this one.
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// The kind of its problem.
    pub(crate) fn problem(&self) -> String {
        assert!(self.head.contains("content-type: application/problem+json"), "{self:?}");
        let kind = self.json()["type"].as_str().unwrap_or_default().to_owned();
        kind.trim_start_matches("urn:hworker:problem:").to_owned()
    }
}
