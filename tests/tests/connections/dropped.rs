//! What is left of connections that nobody holds any more, and of callers who ask no more.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use hworker::{Bulk, Client, Error};
use hworker_tests::{TestServer, act};
use tokio::runtime::Handle;

use super::tls::{self, Authority};
use super::{SOON, free_port};

#[tokio::test]
async fn a_dropped_client_leaves_no_task() {
    // Guard: the last clone of a `Connection` ends it.
    let server = TestServer::start();
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..20 {
        let client = Client::new(server.url()).expect("a client");
        act::with("a".into(), Vec::new()).on(&client).enqueue().await.expect("enqueued");
    }
    let gone = async {
        while tasks() > before {
            // The next look at the tasks of the runtime.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let in_time = tokio::time::timeout(SOON, gone).await;
    assert!(in_time.is_ok(), "{} tasks are left of {before}", tasks());
}

#[tokio::test]
async fn who_is_not_polled_while_a_connection_is_made_for_him_holds_up_nobody() {
    // As in a `select!` that goes another way, and enqueues there.
    // Guard: a task of its own makes connections, in `client/connections.rs`.
    let server = TestServer::start();
    let client = Client::new(server.url()).expect("a client");
    let job = || act::with("a".into(), Vec::new()).on(&client);
    let mut first = pin!(job().delay(SOON).enqueue());
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    job().enqueue().await.expect("enqueued");
    job().delay(SOON).enqueue().await.expect("scheduled");
    first.await.expect("scheduled");
    assert_eq!(server.redis().len("hworker-jobs-default"), 1);
    assert_eq!(server.redis().len("hworker-scheduled-default"), 2);
}

/// A client for each kind of line to a server.
fn lines() -> (TestServer, [(&'static str, Client); 3]) {
    let (authority, port) = (Authority::new("ours"), free_port());
    let builder = TestServer::builder().arg("--port", &port.to_string());
    let (server, encrypted) = tls::server_of(builder, &authority, "no");
    let client = |url: &str| Client::new(url).expect("a client");
    let encrypted = Client::builder().redis_url(encrypted).tls_ca(authority.ca());
    let clients = [
        ("a unix socket", client(server.url())),
        ("TCP", client(&format!("redis://127.0.0.1:{port}"))),
        ("TLS", encrypted.build().expect("a client")),
    ];
    (server, clients)
}

#[tokio::test]
async fn an_enqueue_on_a_connection_that_was_closed_unheard_is_sent_again() {
    // The server ends the connection while it is idle and the one thread of the runtime is at something else, as after SIGSTOP or
    // the sleep of a machine -> nothing of the job can have left, so it is sent over a new connection, and no caller is left in doubt.
    // Guard: `Metered::write` looks before it writes, and `Fault::certainly_not_done`.
    let (server, clients) = lines();
    let mut jobs = 0;
    for (line, client) in &clients {
        let job = || act::with("a".into(), Vec::new()).on(client);
        // A client adds its queue to the registry beside its first enqueue, of which bytes may leave, and it is done with the second.
        for _ in 0..2 {
            job().enqueue().await.expect("enqueued");
            jobs += 1;
        }
        for kind in ["now", "later", "bulk"] {
            let _: u64 = server.redis().ask(&["CLIENT", "KILL", "TYPE", "normal"]);
            // The thread is at something else for a while: a line is looked at once it was quiet for 0.2 ms.
            let since = Instant::now();
            while since.elapsed() < Duration::from_millis(1) {
                server.redis().len("hworker-jobs-default");
            }
            let enqueued = match kind {
                "now" => job().enqueue().await.map(drop),
                "later" => job().delay(SOON).enqueue().await.map(drop),
                _ => Bulk::from_iter([job(), job()]).enqueue().await.map(drop),
            };
            enqueued.unwrap_or_else(|error| panic!("{kind} over {line}: {error}"));
            jobs += if kind == "bulk" { 2 } else { 1 };
        }
    }
    let pending = server.redis().len("hworker-jobs-default");
    let delayed = server.redis().len("hworker-scheduled-default");
    assert_eq!(pending + delayed, jobs);
}

#[tokio::test(start_paused = true)]
async fn an_enqueue_under_a_paused_clock_waits_for_the_server_and_no_longer() {
    // A test that pauses tokio's clock, which goes ahead whenever all tasks wait -> what is enqueued is in, also where the server takes a
    // while, and without a server there is an error after the time of the machine.
    // Guard: `time::within`.
    let (server, clients) = lines();
    for (_, client) in &clients {
        let job = || act::with("a".into(), Vec::new()).on(client);
        job().enqueue().await.expect("enqueued");
        tokio::time::advance(Duration::from_secs(3600)).await;
        let _: String = server.redis().ask(&["CLIENT", "PAUSE", "300"]);
        job().enqueue().await.expect("enqueued");
        Bulk::from_iter([job(), job().delay(SOON)]).enqueue().await.expect("enqueued");
    }
    assert_eq!(server.redis().len("hworker-jobs-default"), 9);
    assert_eq!(server.redis().len("hworker-scheduled-default"), 3);

    let nobody = format!("redis://127.0.0.1:{}", free_port());
    let within = Duration::from_millis(300);
    let nobody = Client::builder().redis_url(nobody).enqueue_within(within).build().expect("one");
    let began = Instant::now();
    let failed = act::with("a".into(), Vec::new()).on(&nobody).enqueue().await;
    assert!(matches!(failed, Err(Error::Unavailable { .. })), "{failed:?}");
    let took = began.elapsed();
    assert!(took < SOON, "{took:?}");
}
