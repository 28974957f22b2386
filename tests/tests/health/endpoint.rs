//! The endpoint itself: what it answers, whom it bears, and where it refuses to begin.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use hworker_tests::{TestServer, act};

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

#[tokio::test(flavor = "multi_thread")]
async fn the_address_is_free_once_the_worker_has_ended() {
    // A worker that ends, and the next one in the same process at the same address, many times -> none finds it taken.
    // Guard: whoever drops the `Endpoint` waits for its thread.
    let server = TestServer::start();
    // None of those that systems give to the near end of a connection: another test might have it between two workers.
    let mut ports = std::iter::repeat_with(|| fastrand::u16(20_000..30_000));
    let address =
        ports.find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok()?.local_addr().ok());
    let address = address.expect("a port that is free");
    let mut taken = 0;
    for _ in 0..50 {
        let worker = server.worker().register::<act>().health(address).build().expect("a worker");
        let handle = worker.handle();
        handle.stop();
        taken += usize::from(worker.run_until(std::future::pending()).await.is_err());
    }
    // Another test that starts a process at that very moment holds everything that is open here until that process runs its
    // own program.
    assert!(taken < 5, "{taken} of 50 found it taken");
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
