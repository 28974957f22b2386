//! The endpoint itself: what it answers, whom it bears, and where it refuses to begin.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use hworker_tests::TestServer;

use crate::probe::{Probed, SOON, ask, log};

#[test]
fn what_is_no_probe_is_refused() {
    // Other paths, methods and versions of the protocol, and heads that are too large.
    // Guard: `respond`; the limits of `answer`.
    let server = TestServer::start();
    let worker = Probed::start(&server, &[]);
    assert_eq!(worker.get("/").0, 404);
    assert_eq!(worker.get("/live?verbose").0, 200);
    let with = |request: &str| ask(worker.address, request).0;
    assert_eq!(with("POST /live HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"), 405);
    assert_eq!(with("HEAD /live HTTP/1.1\r\nhost: a\r\n\r\n"), 200);
    assert_eq!(with("GET /live HTTP/1.0\r\n\r\n"), 200);
    assert_eq!(with("hello\r\n\r\n"), 400);
    let large = format!("GET /live HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    assert_ne!(with(&large), 200);
    let many = format!("GET /live HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(65));
    assert_eq!(with(&many), 431);
    assert!(worker.is_live());
}

#[test]
fn clients_that_say_nothing_neither_stay_nor_stop_the_others() {
    // Three hundred connections, half of which have sent half a request: a probe is answered at once all the same, and
    // each of them is over within the time of a connection.
    // Guard: a connection too many ends the oldest; the timeout of `answer`.
    let server = TestServer::start();
    let worker = Probed::start(&server, &[]);
    server.eventually("it is ready", SOON, || worker.is_ready());
    let mut silent: Vec<_> = (0..300)
        .map(|number| {
            let mut stream = TcpStream::connect(worker.address).expect("a connection");
            if number % 2 == 0 {
                // The oldest may be ended already.
                let _ = stream.write_all(b"GET /ready HTTP/1.1\r\n");
            }
            stream
        })
        .collect();
    let asked = Instant::now();
    assert!(worker.is_ready());
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    for stream in &mut silent {
        stream.set_read_timeout(Some(SOON)).expect("a timeout");
        let ended = stream.read_to_end(&mut Vec::new());
        let timed_out = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!timed_out, "a connection stays");
    }
}

#[test]
fn a_bad_address_is_an_error_at_the_start() {
    // One that cannot be read, and one that is taken.
    // Guard: `HWORKER_HEALTH` is read with the other settings, and listened at before the first job.
    for (address, says) in [("8080", "write `127.0.0.1:8080`"), ("localhost:http", "is no address")]
    {
        refuses(address, says);
    }
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    refuses(&taken.local_addr().expect("its address").to_string(), "health cannot be told at");
}

#[track_caller]
fn refuses(address: &str, says: &str) {
    let server = TestServer::start();
    let mut process = server.worker_process(&[("HWORKER_HEALTH", address)]);
    let status = process.wait(SOON).expect("it ends");
    let log = log(&server);
    assert!(!status.success() && log.contains(says) && log.contains("HWORKER_HEALTH"), "{log}");
}
