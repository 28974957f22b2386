//! Runs a session from its beginning to its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::attempt::record::released;
use super::attempt::runner;
use super::events;
use super::every_queue;
use super::handle::WorkerHandle;
use super::intake::{self, broadcast, parked};
use super::relay;
use super::report::{census, log_every};
use super::state::{Consumer, Running, Session};
use super::supervisor;
use crate::error::Error;
use crate::log::say;

/// A cancelled body ends within this time, unless it blocks its thread.
const CANCELLED_WITHIN: Duration = Duration::from_secs(1);

/// How long jobs that are given back may take to reach the server, from the end of the grace on.
const FLUSH_WITHIN: Duration = Duration::from_secs(3);

/// How long the task of an ended body may take to free its slot. It is polled once or twice for that, on a machine that may be busy.
const LET_GO_WITHIN: Duration = Duration::from_millis(500);

/// How long it may take to tell the server that the worker retires.
const RETIRE_WITHIN: Duration = Duration::from_millis(1_500);

/// The pause before the next session after one that ended by a panic: it may end in the same way.
const AFTER_A_PANIC: Duration = Duration::from_secs(1);

/// Why a session ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Told,
    /// The server does not know the worker.
    Void,
    /// A part of it ended by a panic.
    Broken,
}

/// How a session of a worker ended.
pub(super) enum SessionEnd {
    /// Another session follows.
    Again,
    Over {
        cut_off: bool,
    },
}

pub(super) async fn run_session(
    handle: &WorkerHandle,
    session: &Arc<Session>,
) -> Result<SessionEnd, Error> {
    let no_thread = |error| Error::config(format!("a thread could not be started: {error}"));
    let supervisor = supervisor::spawn(session).map_err(no_thread)?;
    let intake = intake::spawn(session).map_err(no_thread)?;
    let _ends_bodies = EndsBodies(session);
    // The tasks end when this is dropped.
    let _tasks = tasks_of_bodies(session);
    let why = tokio::select! {
        () = handle.stop.cancelled() => Why::Told,
        () = session.void.cancelled() => {
            say!(WARN, { worker = session.id.clone() },
                worker.id = %worker, "the server does not know this worker any more: it was declared dead and its jobs were given to others, or the \
                 server lost its data; it goes on under a new id");
            Why::Void
        }
        () = session.broken.cancelled() => Why::Broken,
        () = supervisor.ended() => Why::Broken,
    };
    if why == Why::Void {
        session.core.totals.was_fenced();
    }
    session.stopping.cancel();
    let cut_off = match why {
        Why::Told => drain(handle, session).await,
        Why::Void => {
            give_up(session).await;
            false
        }
        Why::Broken => {
            say!(ERROR, { worker = session.id.clone() },
                worker.id = %worker, "a part of this worker has ended by a panic: its jobs are given back, and it goes on under a new id; please \
                 report this, with what the panic said");
            give_back(session).await;
            false
        }
    };
    session.retiring.cancel();
    if timeout(RETIRE_WITHIN, intake.ended()).await.is_err() {
        say!(WARN, "the server could not be told that this worker stops; others will find out");
    }
    for consumer in session.consumers().iter() {
        consumer.leases.lose_all();
    }
    // So that two sessions do not overlap.
    supervisor.end();
    let _ = timeout(RETIRE_WITHIN, supervisor.ended()).await;
    if why == Why::Broken {
        let _ = timeout(AFTER_A_PANIC, handle.stop.cancelled()).await;
    }
    if why != Why::Told {
        return Ok(SessionEnd::Again);
    }
    // A body that was given up long ago may still block its thread.
    let cut_off = cut_off || has_bodies(session).await;
    Ok(SessionEnd::Over { cut_off })
}

/// Lets running jobs finish within the grace, then gives the rest back. Returns whether there was a rest.
async fn drain(handle: &WorkerHandle, session: &Session) -> bool {
    let grace = session.core.grace();
    say!(INFO, { worker = session.id.clone() }, worker.id = %worker, ?grace, "worker stops: it takes no more jobs");
    let ran = session.running();
    tokio::select! {
        // If the server no longer knew the worker, its bodies were cut off.
        () = emptied(session) => return ran > 0 && session.void.is_cancelled(),
        () = sleep(grace) => {}
        () = handle.now.cancelled() => {}
    }
    let running = session.running();
    say!(WARN, { worker = session.id.clone() }, worker.id = %worker, running, "the grace is over: jobs that still run are given back");
    give_back(session).await;
    running > 0
}

/// The tasks of a session on the runtime of the bodies.
fn tasks_of_bodies(session: &Arc<Session>) -> JoinSet<()> {
    let threads = tokio::runtime::Handle::current().metrics().num_workers();
    let clone = || Arc::clone(session);
    let mut tasks = JoinSet::new();
    let shown = clone();
    tasks.spawn(clone().with(async move { shown.runtime.show().await }));
    tasks.spawn(clone().with(census::run(clone())));
    if session.core.config.serves_every() {
        tasks.spawn(clone().with(every_queue::run(clone())));
    }
    if let Some(every) = session.core.config.log_every {
        tasks.spawn(clone().with(log_every::run(clone(), every)));
    }
    let core = Arc::clone(&session.core);
    tasks.spawn(clone().with(async move { core.log_limit.keep_telling().await }));
    tasks.spawn(clone().with(clone().follow_queues()));
    let session = clone();
    tasks.spawn(clone().with(async move {
        let mut of_queues = JoinSet::new();
        let each = session.for_each_queue(|consumer| {
            let core = || Arc::clone(&session.core);
            let with = |session: &Arc<Session>| (Arc::clone(session), core(), Arc::clone(consumer));
            let (of, core_of, consumer_of) = with(&session);
            of_queues.spawn(of.with(parked::run(core_of, consumer_of)));
            let (of, core_of, consumer_of) = with(&session);
            of_queues.spawn(of.with(broadcast::run(core_of, consumer_of)));
            let (of, core_of, consumer_of) = with(&session);
            of_queues.spawn(of.with(relay::run(core_of, consumer_of)));
            let (of, core_of, consumer_of) = with(&session);
            of_queues.spawn(of.with(events::run(core_of, consumer_of)));
            for _ in 0..threads {
                of_queues
                    .spawn(Arc::clone(&session).with(runner::run(core(), Arc::clone(consumer))));
            }
        });
        each.await;
    }));
    tasks
}

/// Ends every body of a session when the future that runs it is dropped: a body must not run on beside the next run of its job.
struct EndsBodies<'a>(&'a Session);

impl Drop for EndsBodies<'_> {
    fn drop(&mut self) {
        self.0.stopping.cancel();
        for consumer in self.0.consumers().iter() {
            consumer.leases.lose_all();
        }
    }
}

/// Gives back all jobs and cuts off running bodies.
async fn give_back(session: &Session) {
    for consumer in session.consumers().iter() {
        consumer.leases.cancel_running();
    }
    if timeout(CANCELLED_WITHIN, emptied(session)).await.is_err() {
        for consumer in session.consumers().iter() {
            give_running_back(consumer);
        }
    }
    let rest = FLUSH_WITHIN.saturating_sub(CANCELLED_WITHIN);
    if timeout(rest, emptied(session)).await.is_err() {
        say!(WARN, { worker = session.id.clone() }, worker.id = %worker, "not everything could be given back in time; other workers will recover it");
    }
}

/// Gives back the jobs of bodies that still run or were about to. Their tasks cannot: a body blocks them, or they have ended.
fn give_running_back(consumer: &Consumer) {
    for lease in consumer.leases.not_started_for(Duration::ZERO) {
        consumer.give_back(&lease);
    }
    for Running { job, .. } in consumer.leases.running() {
        consumer.finish(&job.lease, released(&job, 0));
    }
}

/// A worker that was declared dead in one queue gives back what it holds in the others.
async fn give_up(session: &Session) {
    if session.consumers().len() > 1 {
        for consumer in session.consumers().iter() {
            consumer.leases.cancel_running();
        }
        let _ = timeout(Duration::from_secs(1), emptied(session)).await;
    }
    for consumer in session.consumers().iter() {
        consumer.leases.lose_all();
    }
}

/// Whether a body still holds a slot, under a lease or not, when no job is reserved or started any more.
async fn has_bodies(session: &Session) -> bool {
    let ended = async {
        while session.consumers().iter().any(|consumer| !consumer.slots.are_all_free()) {
            // Polled: a slot that comes free does not wake this task.
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LET_GO_WITHIN, ended).await.is_err()
}

async fn emptied(session: &Session) {
    for consumer in session.consumers().iter() {
        consumer.leases.emptied().await;
    }
}
