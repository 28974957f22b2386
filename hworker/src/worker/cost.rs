//! What a plain job costs the server and the worker, in steps that are the same at every run: `script/cost` counts their instructions. As
//! tests they check that each step does its work.

use std::sync::Arc;
use std::time::Instant;

use super::attempt::run::{self, Over};
use super::builder::WorkerBuilder;
use super::state::{Session, WaitingJob};
use crate::client::Client;
use crate::job::Job;
use crate::registry::Registry;
use crate::store::{End, Lease};

/// How many jobs a worker may reserve at once.
const AT_ONCE: usize = 300;

#[hworker::job(queue = "cost")]
// Without `async` it would be a blocking job.
#[allow(clippy::unused_async)]
async fn plain(to: String, user_id: u64) {
    drop((to, user_id));
}

#[hworker::job(queue = "cost")]
// Without `async` it would be a blocking job.
#[allow(clippy::unused_async)]
async fn refused(to: String, user_id: u64) -> Result<(), String> {
    Err(format!("{user_id} cannot be reached at {to}"))
}

/// How many jobs a step runs. `script/cost` runs more and fewer, to leave out the other costs of a run.
fn jobs() -> usize {
    let given = std::env::var("HWORKER_TEST_COST_JOBS").ok();
    given.map_or(2 * AT_ONCE, |jobs| jobs.parse().expect("a number of jobs"))
}

fn envelope<J: Job>() -> Vec<u8> {
    format!(
        r#"{{"v":1,"id":"019ac1e2-7d5b-7c3e-9a41-3f0c5b7d2e68","job":"{}","args":{{"to":"ada@example.org","user_id":4211017}},"enqueued_at":1795261234567}}"#,
        J::NAME
    )
    .into_bytes()
}

fn session<J: Job>(url: &str) -> Arc<Session> {
    let client = Client::new(url).expect("a client");
    let worker = WorkerBuilder::default().client(&client).concurrency(AT_ONCE);
    let worker = worker.registry(Registry::new().with::<J>()).build().expect("a worker");
    Arc::new(Session::new(&worker.core))
}

fn block_on(step: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(step);
}

/// Admits, runs, decides and settles jobs, without a server.
async fn work<J: Job>(ends: fn(&End) -> bool) {
    const TOGETHER: usize = 16;
    let session = session::<J>("redis://localhost");
    let consumer = &session.consumers()[0];
    let payload = envelope::<J>();
    for first in (1..=jobs() as u64).step_by(TOGETHER) {
        let tokens = (first..).take(TOGETHER);
        let mut jobs = tokens.map(|token| (Lease::Token(token), payload.clone())).collect();
        consumer.leases.reserved(0, &mut jobs);
        for (lease, payload) in jobs {
            let slot = consumer.slots.try_acquire().expect("a slot");
            let job = WaitingJob::Reserved(lease, payload);
            let begun = run::start(&session.core, consumer, job, slot, Instant::now()).await;
            let Err(Over(settlement, slot)) = begun else { panic!("it has not ended") };
            consumer.settle_and_free(settlement, slot);
        }
        let batch = consumer.outbox.take();
        assert!(batch.len() == TOGETHER && batch.iter().all(|settlement| ends(&settlement.end)));
        consumer.leases.settled(batch);
    }
    assert_eq!(consumer.leases.count(), 0);
}

#[test]
fn worker_done() {
    block_on(work::<plain>(|end| matches!(end, End::Acked { .. })));
}

#[test]
fn worker_retried() {
    block_on(work::<refused>(|end| matches!(end, End::Retried { .. })));
}

/// The calls of a worker, one after the other, to a server of their own.
#[cfg(feature = "embedded")]
mod server {
    use super::{block_on, envelope, jobs, plain, session};
    use crate::embedded::Server;
    use crate::store::{CALL_WITHIN, End, Reconciled, Reserved, Settlement};

    /// Enqueues this many jobs at once and reserves them, again and again. Settles the jobs before them in the same call, or none.
    fn serve(at_once: usize, settles: bool) {
        let own = |_| {
            let server = Server::start().expect("a server");
            (server.url(), Some(server))
        };
        let (url, _server) =
            std::env::var("HWORKER_TEST_COST_URL").map_or_else(own, |url| (url, None));
        block_on(async {
            let session = session::<plain>(&url);
            let (queue, keys) = (&session.consumers()[0].queue, &session.consumers()[0].keys);
            let on = session.core.client.connection(queue).await.expect("a connection");
            let record = [("host", "here".to_owned())];
            let begun = queue.reconcile(&on, keys, &session.id, true, &record).await;
            let Ok(Reconciled::Session { session, .. }) = begun else { panic!("{begun:?}") };
            let envelopes = vec![envelope::<plain>(); at_once];
            let mut done: Vec<Settlement> = Vec::new();
            for _ in 0..jobs() / at_once {
                queue.enqueue(&on, &envelopes, CALL_WITHIN).await.expect("enqueued");
                let reserved = if done.is_empty() {
                    queue.reserve(&on, keys, session, at_once, CALL_WITHIN).await
                } else {
                    let both =
                        queue.ack_and_reserve(&on, keys, "20260101", &done, session, at_once);
                    both.await.map(|(settled, reserved)| {
                        assert_eq!(settled.held, at_once as u64);
                        reserved
                    })
                };
                let Ok(Reserved::Jobs { jobs, .. }) = reserved else { panic!("{reserved:?}") };
                assert_eq!(jobs.len(), at_once);
                if settles {
                    let end =
                        |(lease, _)| Settlement { lease, end: End::Acked { job: plain::NAME } };
                    done = jobs.into_iter().map(end).collect();
                }
            }
        });
    }

    macro_rules! steps {
        ($($name:ident: $at_once:literal, $settles:literal;)*) => {
            $(#[test]
            fn $name() {
                serve($at_once, $settles);
            })*
        };
    }

    steps! {
        reserve_1: 1, false;
        reserve_16: 16, false;
        reserve_300: 300, false;
        settle_and_reserve_1: 1, true;
        settle_and_reserve_16: 16, true;
        settle_and_reserve_300: 300, true;
    }
}
