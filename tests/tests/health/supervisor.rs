//! A supervisor that hangs, as a program of the user's sees it that asks for itself.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use hworker::{Context, Unhealthy};
use hworker_tests::TestServer;

use crate::probe::SOON;

static LISTENS: AtomicBool = AtomicBool::new(false);
static WAKER_HANGS: AtomicBool = AtomicBool::new(false);
static HANGS: AtomicBool = AtomicBool::new(false);

/// A waker of a program's own, which does not come back to the supervisor: the only code of a user that runs on its thread.
struct Hanging;

impl Wake for Hanging {
    fn wake(self: Arc<Self>) {
        let supervisor = std::thread::current().name() == Some("hworker-supervisor");
        while supervisor && WAKER_HANGS.load(Ordering::Acquire) {
            HANGS.store(true, Ordering::Release);
            // It hangs until the test says so.
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Hears of its end with that waker.
#[hworker::job]
async fn listens(context: Context) {
    let waker = Waker::from(Arc::new(Hanging));
    let mut cancelled = pin!(context.cancelled());
    let _ = cancelled.as_mut().poll(&mut std::task::Context::from_waker(&waker));
    LISTENS.store(true, Ordering::Release);
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_supervisor_hangs_is_not_live() {
    // What hears that its lease was revoked does not come back: not live after 10 s, live and ready when it does. The worker is
    // dropped while it hangs again: not live, and the runtime of the bodies does not hang with it.
    // Guard: `Health::live` looks at the supervisor's runtime; `ENDS_WITHIN`.
    let server = TestServer::start();
    let worker = server.worker().register::<listens>().build().expect("a worker");
    let health = worker.health();
    assert_eq!((health.live(), health.ready()), (Ok(()), Err(Unhealthy::Starting)));
    let running = tokio::spawn(worker.run_until(std::future::pending()));
    let eventually = async |what: &str, holds: &dyn Fn() -> bool| {
        server.eventually_async(what, SOON, async || holds()).await;
    };
    eventually("it is ready", &|| health.ready().is_ok()).await;

    let job = listens::with().on(server.client()).enqueue().await.expect("enqueued");
    eventually("it listens", &|| LISTENS.load(Ordering::Acquire)).await;
    WAKER_HANGS.store(true, Ordering::Release);
    server.inspect().revoke(&job).await.expect("it runs");
    eventually("the supervisor hangs", &|| HANGS.load(Ordering::Acquire)).await;
    eventually("it is not live", &|| matches!(health.live(), Err(Unhealthy::SupervisorStuck(_))))
        .await;
    assert!(matches!(health.ready(), Err(Unhealthy::SupervisorStuck(_))));
    WAKER_HANGS.store(false, Ordering::Release);
    eventually("it is ready again", &|| health.ready().is_ok()).await;

    // It hangs again, and the worker is dropped.
    LISTENS.store(false, Ordering::Release);
    HANGS.store(false, Ordering::Release);
    let job = listens::with().on(server.client()).enqueue().await.expect("enqueued");
    eventually("it listens", &|| LISTENS.load(Ordering::Acquire)).await;
    WAKER_HANGS.store(true, Ordering::Release);
    server.inspect().revoke(&job).await.expect("it runs");
    eventually("the supervisor hangs", &|| HANGS.load(Ordering::Acquire)).await;
    running.abort();
    eventually("it has ended", &|| health.live() == Err(Unhealthy::Ended)).await;
    WAKER_HANGS.store(false, Ordering::Release);
}
