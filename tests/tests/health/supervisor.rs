//! A supervisor that hangs, as a program of the user's sees it that asks for itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hworker::Unwell;
use hworker_tests::{Act, TestServer, act};
use tracing::Subscriber;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::probe::SOON;

static LOG_HANGS: AtomicBool = AtomicBool::new(false);
static HANGS: AtomicBool = AtomicBool::new(false);

/// A log that takes no line of the supervisor, as one does that writes into a full pipe.
struct Hanging;

impl<S: Subscriber> Layer<S> for Hanging {
    fn on_event(&self, _: &tracing::Event<'_>, _: Context<'_, S>) {
        let supervisor = std::thread::current().name() == Some("hworker-supervisor");
        while supervisor && LOG_HANGS.load(Ordering::Acquire) {
            HANGS.store(true, Ordering::Release);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_supervisor_hangs_is_not_live() {
    // The line about a lease that was revoked does not come through: not live after 10 s, live and ready when it does. The
    // worker is dropped: not live.
    // Guard: `Health::live` looks at the supervisor's runtime; the end of a life is noted however it ends.
    tracing_subscriber::registry().with(Hanging).init();
    let server = TestServer::start();
    let worker = server.worker().register::<act>().build().expect("a worker");
    let health = worker.health();
    assert_eq!((health.live(), health.ready()), (Ok(()), Err(Unwell::Starting)));
    let running = tokio::spawn(worker.run_until(std::future::pending()));
    let eventually = async |what: &str, holds: &dyn Fn() -> bool| {
        server.eventually_async(what, SOON, async || holds()).await;
    };
    eventually("it is ready", &|| health.ready().is_ok()).await;

    let job = server.enqueue("held", vec![vec![Act::Sleep(3_600_000)], vec![]]).await;
    eventually("it runs", &|| server.begun("held") == 1).await;
    LOG_HANGS.store(true, Ordering::Release);
    server.inspect().revoke(&job).await.expect("it runs");
    eventually("the supervisor hangs", &|| HANGS.load(Ordering::Acquire)).await;
    eventually("it is not live", &|| matches!(health.live(), Err(Unwell::SupervisorStuck(_))))
        .await;
    assert!(matches!(health.ready(), Err(Unwell::SupervisorStuck(_))));
    LOG_HANGS.store(false, Ordering::Release);
    eventually("it is ready again", &|| health.ready().is_ok()).await;

    running.abort();
    eventually("it has ended", &|| health.live() == Err(Unwell::Ended)).await;
}
