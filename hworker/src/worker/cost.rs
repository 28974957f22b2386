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
use crate::store::{End, Lease, Settlement};

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

#[hworker::job(queue = "cost")]
// Without `async` it would be a blocking job.
#[allow(clippy::unused_async)]
async fn failed(to: String, user_id: u64) -> crate::Outcome {
    crate::Outcome::Failure(format!("{user_id} cannot be reached at {to}"))
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

/// Of a job of its own: this many of one session have different ids, and may have different arguments, of letters alone.
#[cfg(feature = "embedded")]
fn another<J: Job>(number: usize, differs: bool) -> Vec<u8> {
    let letter = |at: u32| char::from(b'a' + (number / 26_usize.pow(at) % 26) as u8);
    let to = if differs { (0..3).map(letter).collect() } else { "ada".to_owned() };
    let text = String::from_utf8(envelope::<J>()).expect("text");
    let text = text.replace("3f0c5b7d2e68", &format!("{number:012}")).replace("ada@", &(to + "@"));
    text.into_bytes()
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
        let jobs = tokens.map(|token| (Lease::Token(token), payload.clone())).collect();
        let batch = run(&session, jobs).await;
        assert!(batch.len() == TOGETHER && batch.iter().all(|settlement| ends(&settlement.end)));
        consumer.leases.settled(batch);
    }
    assert_eq!(consumer.leases.count(), 0);
}

/// Runs jobs that were reserved, to their ends.
async fn run(session: &Session, mut jobs: Vec<(Lease, Vec<u8>)>) -> Vec<Settlement> {
    let consumer = &session.consumers()[0];
    consumer.leases.reserved(0, &mut jobs);
    for (lease, payload) in jobs {
        let slot = consumer.slots.try_acquire().expect("a slot");
        let job = WaitingJob::Reserved(lease, payload);
        let begun = run::start(&session.core, consumer, job, slot, Instant::now()).await;
        let Err(Over(settlement, slot)) = begun else { panic!("it has not ended") };
        consumer.settle_and_free(settlement, slot);
    }
    consumer.outbox.take()
}

#[test]
fn worker_done() {
    block_on(work::<plain>(|end| matches!(end, End::Acked { .. })));
}

#[test]
fn worker_retried() {
    block_on(work::<refused>(|end| matches!(end, End::Retried { .. })));
}

#[test]
fn worker_failed() {
    block_on(work::<failed>(|end| !matches!(end, End::Acked { .. } | End::Retried { .. })));
}

/// The calls of a worker, one after the other, to a server of their own.
#[cfg(feature = "embedded")]
mod server {
    use std::ops::Range;
    use std::sync::Arc;

    use super::{another, block_on, envelope, failed, jobs, plain, run, session};
    use crate::embedded::Server;
    use crate::envelope::JobId;
    use crate::job::Job;
    use crate::limit::List;
    use crate::store::{
        CALL_WITHIN, Connection, Due, End, Queue, Reconciled, Reserved, Settlement, Submission,
    };
    use crate::unique::KeyLock;
    use crate::worker::state::Session;

    /// A server: that whose instructions are counted, or one of this test.
    fn server() -> (String, Option<Server>) {
        let own = |_| {
            let server = Server::start().expect("a server");
            (server.url(), Some(server))
        };
        std::env::var("HWORKER_TEST_COST_URL").map_or_else(own, |url| (url, None))
    }

    /// A worker for jobs of this type, its connection, and the number of its session.
    async fn begin<J: Job>(url: &str) -> (Arc<Session>, Connection, u64) {
        let session = session::<J>(url);
        let (queue, keys) = (&session.consumers()[0].queue, &session.consumers()[0].keys);
        let on = session.core.client.connection(queue).await.expect("a connection");
        let record = [("host", "here".to_owned())];
        let begun = queue.reconcile(&on, keys, &session.id, true, &record).await;
        let Ok(Reconciled::Session { session: number, .. }) = begun else { panic!("{begun:?}") };
        (session, on, number)
    }

    /// Takes in jobs that are known by their ids, each with a key of its own, or all with one and delayed.
    async fn submit(queue: &Queue, on: &Connection, numbers: Range<usize>, delayed: bool) {
        let (list, envelope) = (List::default().by_id(), envelope::<plain>());
        let ids: Vec<JobId> = numbers.map(|number| format!("job-{number:09}").into()).collect();
        let lock = |id: &JobId| KeyLock {
            held_by: format!("fplain:{}", id.as_str()),
            conflict: "keep".into(),
            ..KeyLock::default()
        };
        let locks: Vec<_> = ids.iter().map(lock).collect();
        let due = delayed.then_some(Due::In(1 << 40));
        let submission = |(id, lock)| Submission {
            list: &list,
            id,
            front: false,
            due,
            lock,
            terms: "",
            envelope: &envelope,
        };
        let jobs: Vec<_> = ids.iter().zip(&locks).map(submission).collect();
        let answers = queue.submit(on, &jobs, CALL_WITHIN).await.expect("submitted");
        assert_eq!(answers.map_or(0, |answers| answers.len()), jobs.len());
    }

    /// Enqueues this many jobs at once and reserves them, again and again. Settles the jobs before them in the same call, or none.
    fn serve(at_once: usize, settles: bool) {
        serve_beside(at_once, settles, 0, false);
    }

    /// The same with unique jobs.
    fn serve_unique(at_once: usize, settles: bool) {
        serve_beside(at_once, settles, 0, true);
    }

    /// Takes in this many unique jobs at once, again and again, and no more.
    fn only_submit(at_once: usize, _: bool) {
        let (url, _server) = server();
        block_on(async {
            let (session, on, _) = begin::<plain>(&url).await;
            for turn in 0..jobs() / at_once {
                let numbers = turn * at_once..(turn + 1) * at_once;
                submit(&session.consumers()[0].queue, &on, numbers, false).await;
            }
        });
    }

    /// The same with plain jobs, while so many are delayed that are known by their ids.
    fn serve_with_delayed(at_once: usize, settles: bool) {
        let beside = std::env::var("HWORKER_TEST_COST_BESIDE").ok();
        let beside = beside.map_or(1_000, |jobs| jobs.parse().expect("a number of jobs"));
        serve_beside(at_once, settles, beside, false);
    }

    fn serve_beside(at_once: usize, settles: bool, beside: usize, is_unique: bool) {
        let (url, _server) = server();
        block_on(async {
            let (session, on, number) = begin::<plain>(&url).await;
            for first in (0..beside).step_by(500) {
                submit(&session.consumers()[0].queue, &on, first..beside.min(first + 500), true)
                    .await;
            }
            let (queue, keys) = (&session.consumers()[0].queue, &session.consumers()[0].keys);
            let envelopes = vec![envelope::<plain>(); at_once];
            let want = crate::store::Want { slots: at_once, ahead: 0 };
            let mut done: Vec<Settlement> = Vec::new();
            for turn in 0..jobs() / at_once {
                if is_unique {
                    submit(queue, &on, turn * at_once..(turn + 1) * at_once, false).await;
                } else {
                    queue.enqueue(&on, &envelopes, CALL_WITHIN).await.expect("enqueued");
                }
                let reserved = if done.is_empty() {
                    queue.reserve(&on, keys, number, want, CALL_WITHIN).await
                } else {
                    let both = queue.ack_and_reserve(&on, keys, "20260101", &done, number, want);
                    both.await.map(|(settled, reserved)| {
                        assert_eq!(settled.held, at_once as u64);
                        reserved
                    })
                };
                let Ok(Reserved::Jobs { jobs, .. }) = reserved else { panic!("{reserved:?}") };
                assert_eq!(jobs.len(), at_once);
                if settles {
                    let end = |(lease, _)| Settlement {
                        lease,
                        end: End::Acked { job: plain::NAME },
                        event: None,
                    };
                    done = jobs.into_iter().map(end).collect();
                }
            }
        });
    }

    /// Enqueues this many jobs at once, reserves them and settles them as failed, again and again, all for one reason or each for its own.
    fn fail(at_once: usize, differ: bool) {
        let (url, _server) = server();
        block_on(async {
            let (session, on, number) = begin::<failed>(&url).await;
            let (queue, keys) = (&session.consumers()[0].queue, &session.consumers()[0].keys);
            for turn in 0..jobs() / at_once {
                let numbers = turn * at_once..(turn + 1) * at_once;
                let envelopes: Vec<_> =
                    numbers.map(|number| another::<failed>(number, differ)).collect();
                queue.enqueue(&on, &envelopes, CALL_WITHIN).await.expect("enqueued");
                let want = crate::store::Want { slots: at_once, ahead: 0 };
                let reserved = queue.reserve(&on, keys, number, want, CALL_WITHIN).await;
                let Ok(Reserved::Jobs { jobs, .. }) = reserved else { panic!("{reserved:?}") };
                let batch = run(&session, jobs).await;
                let settled = queue.settle(&on, keys, "20260101", &batch).await.expect("settled");
                assert_eq!(settled.held, at_once as u64);
                session.consumers()[0].leases.settled(batch);
            }
        });
    }

    macro_rules! steps {
        ($($name:ident: $step:ident, $at_once:literal, $flag:literal;)*) => {
            $(#[test]
            fn $name() {
                $step($at_once, $flag);
            })*
        };
    }

    steps! {
        reserve_1: serve, 1, false;
        reserve_16: serve, 16, false;
        reserve_300: serve, 300, false;
        settle_and_reserve_1: serve, 1, true;
        settle_and_reserve_16: serve, 16, true;
        settle_and_reserve_300: serve, 300, true;
        submit_1: only_submit, 1, true;
        submit_16: only_submit, 16, true;
        unique_1: serve_unique, 1, true;
        unique_16: serve_unique, 16, true;
        beside_delayed_16: serve_with_delayed, 16, true;
        fail_alike_1: fail, 1, false;
        fail_alike_16: fail, 16, false;
        fail_apart_1: fail, 1, true;
        fail_apart_16: fail, 16, true;
    }
}
