//! What changes, as a stream.

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hworker::web::{Access, Web};
use hworker_tests::{Proxy, TestServer, act};

use crate::SOON;
use crate::site::{Site, ask};

const EVENTS: &str = "/api/v1/events";

/// Reads until the text has come; gives what came.
fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let (mut all, mut some) = (String::new(), [0; 4096]);
    while !all.contains(text) {
        let read = stream.read(&mut some).expect("more");
        assert!(read > 0, "it ended: {all}");
        all += &String::from_utf8_lossy(&some[..read]);
    }
    all
}

#[test]
fn i15_changes_come_as_a_stream() {
    // A tick with the counts of the queues, numbered; one who comes back with an older number is told to load anew; no proxy holds it back.
    let server = TestServer::start();
    let site = Site::of(&server);
    act::with("one".into(), vec![]).on(server.client()).enqueue_blocking().expect("enqueued");
    let mut stream = site.with_token("GET", EVENTS).open();
    let came = read_until(&mut stream, "\"queues\":");
    assert!(came.to_ascii_lowercase().contains("x-accel-buffering: no"), "{came}");
    assert!(came.contains("content-type: text/event-stream"), "{came}");
    let came = came + &read_until(&mut stream, "\n\n");
    assert!(came.contains("event: tick") && came.contains("\"waiting\":1"), "{came}");
    let mut late = site.with_token("GET", EVENTS).header("last-event-id", "999").open();
    read_until(&mut late, "event: resync");
    site.ask("GET", EVENTS).send().expect(401);
}

#[test]
fn is9_ten_open_pages_ask_the_server_as_one() {
    // Fault 19: calls a tick with one stream and with ten are as many; with none there are none.
    // Guard: one look for all who listen, none without.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    act::with("one".into(), vec![]).on(server.client()).enqueue_blocking().expect("enqueued");
    let site = Site::serve(Web::new(proxy.client()).access(Access::local()).router());
    let open = || site.ask("GET", EVENTS).open();
    let calls_in_a_tick = |stream: &mut TcpStream| {
        read_until(stream, "event: tick");
        let before = proxy.requests();
        read_until(stream, "event: tick");
        proxy.requests() - before
    };
    let mut first = open();
    read_until(&mut first, "event: tick");
    let with_one = calls_in_a_tick(&mut first);
    let others: Vec<_> = (0..9).map(|_| open()).collect();
    let with_ten = calls_in_a_tick(&mut first);
    assert!(with_one > 0 && with_ten <= with_one, "{with_one} calls with one, {with_ten} with ten");
    drop((first, others));
    // A stream that its client has left is noticed with the next tick.
    let mut last = (proxy.requests(), Instant::now());
    server.eventually("nobody asks any more", SOON, || {
        if proxy.requests() != last.0 {
            last = (proxy.requests(), Instant::now());
        }
        last.1.elapsed() > Duration::from_secs(5)
    });
}

#[test]
fn is9_open_streams_do_not_hold_up_a_stop() {
    // Fault 46: 100 streams are open, one more is refused, the server stops -> within about a second.
    // Guard: streams end with the stop token.
    let server = TestServer::start();
    let client = server.client().clone();
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let web = Web::new(client).access(Access::local());
        runtime.expect("a runtime").block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            web.serve(listener, async { drop(stopped.await) }).await
        })
    });
    let mut streams: Vec<_> = (0..100).map(|_| ask(address, "GET", EVENTS).open()).collect();
    for stream in &mut streams {
        read_until(stream, "event-stream");
    }
    ask(address, "GET", EVENTS).send().expect(429);
    let began = Instant::now();
    stop.send(()).expect("it serves");
    serving.join().expect("no panic").expect("it served");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}
