//! A worker in a test: one attempt without a server, or all that is to be done, until nothing is left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::attempt::decide::Transition;
use super::attempt::decode::read;
use super::attempt::finish::decided;
use super::attempt::run::{Here, here};
use super::idle::idle;
use super::{Worker, WorkerBuilder};
use crate::context::{Context, Scope};
use crate::error::Error;
use crate::hooks::EventKind;
use crate::store::Lease;

/// How an attempt ended.
pub(crate) struct Attempted {
    pub(crate) kind: EventKind,
    /// What it returned, as JSON, where that is kept.
    pub(crate) value: Option<Result<String, String>>,
    /// The kind of what went wrong, and what was said of it.
    pub(crate) why: Option<(&'static str, String)>,
    /// After so long it runs again.
    pub(crate) again_in: Option<Duration>,
    pub(crate) context: Context,
    pub(crate) ran: Duration,
}

/// Runs one attempt of a job as a worker would that is built so, but that there is no server. `prepare` is told its context before it starts.
///
/// # Errors
/// The worker cannot be built, or the job cannot be read, or the arguments do not fit.
pub(crate) async fn attempt(
    builder: WorkerBuilder,
    queue: &str,
    payload: Vec<u8>,
    prepare: impl FnOnce(&Context),
) -> Result<Attempted, Error> {
    // Without the client of the worker, so that nothing is asked of a server.
    let states = Arc::new(builder.states().clone());
    let core = builder.build()?.core;
    let job = read(&core, Lease::Token(1), payload).map_err(|(why, _)| Error::config(why.why()))?;
    let job = Arc::new(job);
    let scope = Scope {
        queue: queue.into(),
        shard: queue.into(),
        worker: "test".into(),
        states,
        stopping: CancellationToken::new(),
        runtime: None,
    };
    let began = Instant::now();
    let here = here(&core, &job, &Arc::new(scope), began + job.timeout, prepare).await;
    let (context, finish) = match here {
        Here::Ended(context, finish) => (context, finish),
        Here::Unfit(why) => return Err(Error::config(format!("its arguments do not fit: {why}"))),
    };
    let becomes = finish.map(|finish| decided(&core, &job, finish, &job.definition.policy));
    let (kind, mut again_in, mut value) = (EventKind::Cancelled, None, None);
    let (kind, evidence) = match becomes {
        None => (kind, None),
        Some(Transition::Ack(returned)) => {
            value = returned.map(|returned| returned.0);
            (EventKind::Done, None)
        }
        Some(Transition::Retry(delay, evidence)) => {
            again_in = Some(delay);
            (EventKind::Retried, Some(evidence))
        }
        Some(Transition::Snooze(delay) | Transition::SlowDown(delay)) => {
            again_in = Some(delay);
            (EventKind::Snoozed, None)
        }
        Some(Transition::Fail(evidence)) => (EventKind::Failed, Some(evidence)),
        Some(Transition::Cancel(evidence)) => (kind, Some(evidence)),
        Some(Transition::Expire(evidence)) => (EventKind::Expired, Some(evidence)),
    };
    let why = evidence.map(|evidence| (evidence.kind, evidence.message));
    Ok(Attempted { kind, value, why, again_in, context, ran: began.elapsed() })
}

/// Runs a worker; each time that it has nothing to do `more` is asked to find it something, until there is nothing.
///
/// # Errors
/// As [`Worker::run_until`], and of `more`.
pub(crate) async fn run_while(
    worker: Worker,
    mut more: impl AsyncFnMut() -> Result<bool, Error>,
) -> Result<(), Error> {
    let (health, mut ended) = (worker.health(), Ok(()));
    let until = async {
        ended = async {
            loop {
                idle(&health).await?;
                if !more().await? {
                    return Ok(());
                }
            }
        }
        .await;
    };
    worker.run_until(until).await?;
    ended
}
