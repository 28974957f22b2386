//! No code of the user can cause this: a part of a worker that ends by a panic.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::report::health::Stage;
use super::*;
use crate::client::Client;
use crate::context::{Context, State};
use crate::embedded::Server;
use crate::registry::Registry;

/// The ids under which the job ran.
type Ran = Arc<Mutex<Vec<String>>>;

/// Ends in the second run.
#[hworker::job]
async fn held(context: Context, ran: State<Ran>) {
    let runs = {
        let mut ran = ran.lock().expect("nobody panicked");
        ran.push(context.worker().to_owned());
        ran.len()
    };
    if runs == 1 {
        std::future::pending::<()>().await;
    }
}

async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), wait).await.unwrap_or_else(|_| panic!("not: {what}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_panics_ends_its_life_and_another_begins() {
    // Guard: `Vital`, and `give_back` in a broken session.
    let server = Server::start().expect("a server");
    let client = Client::new(server.url()).expect("a client");
    let ran = Ran::default();
    let registry = Registry::new();
    let worker = Worker::builder().client(&client).registry(registry).register::<held>();
    let worker = worker.state(Arc::clone(&ran)).build().expect("a worker");
    let (health, handle) = (worker.health(), worker.handle());
    let running = tokio::spawn(worker.run_until(std::future::pending()));
    held::with().on(&client).enqueue().await.expect("enqueued");
    let ids = || ran.lock().expect("nobody panicked").clone();
    eventually("it runs", || ids().len() == 1 && health.ready().is_ok()).await;

    let session = match &*health.stage() {
        Stage::Runs(session) => session.upgrade().expect("it runs"),
        _ => panic!("it does not run"),
    };
    let part = tokio::spawn(Arc::clone(&session).with(async { panic!("on purpose") }));
    assert!(part.await.expect_err("it panics").is_panic());
    assert_eq!(
        (health.live(), health.ready()),
        (Err(Unhealthy::Panicked), Err(Unhealthy::Panicked))
    );
    eventually("it runs again", || ids().len() == 2).await;
    assert_ne!(ids()[0], ids()[1]);
    eventually("it is ready", || health.ready().is_ok()).await;
    // It is given back, not recovered.
    eventually("the job is done", || session.consumers()[0].leases.count() == 0).await;
    let counters = client.inspect("default").statistics(None).await.expect("the counters");
    assert_eq!(counters.get("recovered"), None);

    handle.stop();
    running.await.expect("it does not panic").expect("it stops");
}

/// Tells which thread dropped it.
struct Told(std::sync::mpsc::Sender<std::thread::ThreadId>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send(std::thread::current().id());
    }
}

#[tokio::test]
async fn one_that_is_dropped_leaves_no_thread_with_the_states_of_the_user() {
    // Guard: `Thread` waits for the end of its thread when it is dropped.
    let server = Server::start().expect("a server");
    let client = Client::new(server.url()).expect("a client");
    for _ in 0..20 {
        let (dropped, told) = std::sync::mpsc::channel();
        let worker = Worker::builder().client(&client).registry(Registry::new().with::<held>());
        let worker =
            worker.state(Ran::default()).state(Arc::new(Told(dropped))).build().expect("a worker");
        let health = worker.health();
        let running = worker.run_until(std::future::pending());
        let ready = async {
            while health.ready().is_err() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            ended = running => panic!("it ended: {ended:?}"),
            () = ready => {}
        }
        // On the thread of the runtime of the bodies, after it has dropped the tasks.
        tokio::task::yield_now().await;
        assert_eq!(told.try_recv(), Ok(std::thread::current().id()));
    }
}
