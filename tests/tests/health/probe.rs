//! A worker process with its probes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use hworker_tests::{Process, TestServer};

/// What goes without a fault is done by then, also on a machine with much else to do.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A worker process that answers probes.
pub(crate) struct Probed {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Probed {
    /// Starts it, the only one of this server; it may not be ready yet.
    pub(crate) fn start(server: &TestServer, settings: &[(&str, &str)]) -> Self {
        let settings = [&[("HWORKER_HEALTH", "127.0.0.1:0")], settings].concat();
        let process = server.worker_process(&settings);
        let mut address = None;
        server.eventually("it says where it answers probes", SOON, || {
            address = log(server).lines().find_map(told_at);
            address.is_some()
        });
        Self { process, address: address.expect("an address") }
    }

    /// The status of a probe, and what it says.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        ask(self.address, &format!("GET {path} HTTP/1.1\r\nhost: worker\r\n\r\n"))
    }

    pub(crate) fn is_live(&self) -> bool {
        self.get("/live").0 == 200
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.get("/ready").0 == 200
    }

    /// Whether it is not ready, and says this among its reasons.
    pub(crate) fn is_unready_since(&self, why: &str) -> bool {
        let (status, text) = self.get("/ready");
        status == 503 && text.contains(why)
    }
}

/// What the processes of the test logged.
pub(crate) fn log(server: &TestServer) -> String {
    std::fs::read_to_string(server.dir().join("process-0.log")).unwrap_or_default()
}

fn told_at(line: &str) -> Option<SocketAddr> {
    let (_, fields) = line.split_once("health is told at")?;
    fields.split_once("address=")?.1.split_whitespace().next()?.parse().ok()
}

/// The status of the answer to a request, and its body.
pub(crate) fn ask(address: SocketAddr, request: &str) -> (u16, String) {
    let (head, body) = answer(address, request);
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_default(), body)
}

/// The head of the answer to a request, and its body.
pub(crate) fn answer(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(SOON)).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = Vec::new();
    // It may be cut short by a reset, where not all of the request was read.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_owned(), body.to_owned())
}
