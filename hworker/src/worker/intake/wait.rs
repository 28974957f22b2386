//! Waits at the server, on a connection of its own. An idle worker asks nothing: the server moves the next job into this worker's inbox,
//! which counts as its lease even if the answer is lost. A reserve is sent along with the wait, so that the server puts the job under its
//! lease at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::log::say;
use crate::reconnect::Reconnect;
use crate::store::{Connection, Fault, FaultKind, Reserved, connection_id, end_wait};
use crate::worker::intake::accept::{accept, report_set_aside};
use crate::worker::state::{Consumer, Session};

/// How long one wait lasts at most.
const WAIT: Duration = Duration::from_secs(20);

/// How long the end of a wait may take.
const END_WITHIN: Duration = Duration::from_millis(300);

/// How often to look at a server that refuses waits.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// If no connection could be made for this long while heartbeats are accepted, the server has no outage.
const OUTAGE: Duration = Duration::from_secs(5);

/// The time between two log lines about refused waits.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// This many waits in a row that end early and bring nothing count as refused. After one or two, another call may have taken the job.
const IN_VAIN: u32 = 3;

/// Sends a wait whenever one is wanted, until the worker stops.
pub(crate) async fn run(session: Arc<Session>, consumer: Arc<Consumer>) {
    let mut reconnect = Reconnect::new();
    let mut wanted = consumer.waiting.subscribe();
    let mut said = None;
    let mut failing_since = None;
    while !consumer.stopping.is_cancelled() {
        let connected = async {
            let address = session.core.client.address();
            let connection = address.connect(&consumer.queue, None).await?;
            let id = connection_id(&connection).await?;
            Ok::<_, Fault>((connection, id))
        };
        match connected.await {
            Ok((connection, id)) => {
                failing_since = None;
                let began = Instant::now();
                let fault =
                    serve(&session, &consumer, &connection, id, &mut wanted, &mut said).await;
                let ended_well = fault.is_none();
                say!(DEBUG, { queue = consumer.queue.name.clone() }, job.queue = %queue, "the connection for waiting has ended: {fault:?}");
                // A job in the inbox may have ended it.
                consumer.look();
                if ended_well || began.elapsed() >= LOOK_EVERY {
                    reconnect.succeeded();
                } else {
                    // Some servers accept a connection that they do not serve, as in a cluster that is down.
                    reconnect.pause().await;
                }
            }
            Err(fault) => {
                // The other loops may be connected. If not, they log it, and the look finds nothing.
                let failing_since = failing_since.get_or_insert_with(Instant::now);
                if failing_since.elapsed() >= OUTAGE && consumer.freshness.is_fresh() {
                    say_refused(&mut said, format!(": no connection for that: {fault}"), &consumer);
                }
                consumer.look();
                reconnect.pause().await;
            }
        }
    }
}

/// Waits on one connection until it breaks or the worker stops.
async fn serve(
    session: &Arc<Session>,
    consumer: &Arc<Consumer>,
    connection: &Connection,
    id: u64,
    wanted: &mut tokio::sync::watch::Receiver<bool>,
    said: &mut Option<Instant>,
) -> Option<Fault> {
    let mut in_vain = 0;
    loop {
        tokio::select! {
            changed = wanted.wait_for(|wanted| *wanted) => { changed.ok()?; }
            () = connection.ended() => return None,
            () = consumer.stopping.cancelled() => return None,
        }
        tokio::select! {
            () = consumer.freshness.fresh() => {}
            () = connection.ended() => return None,
            () = consumer.stopping.cancelled() => return None,
        }
        // While this task waited for the heartbeat, the fetch loop may have decided to ask by itself.
        if !*wanted.borrow_and_update() {
            continue;
        }
        // Read before the reserve is counted: a reserve counted under an older session number does not ask under a newer one.
        let session_number = consumer.session_number.load(Ordering::Acquire);
        let closed_for = consumer.closed_for();
        let at_most = closed_for.map_or(WAIT, |left| left.min(WAIT));
        let (keys, is_paused) = (&consumer.keys, closed_for.is_some());
        let queue = &consumer.queue;
        let wait = queue.reserve_when_handed(connection, keys, session_number, is_paused, at_most);
        tokio::pin!(wait);
        let since = Instant::now();
        let under_way = UnderWay::begin(consumer);
        let in_time = tokio::select! {
            // An answer that has arrived is taken in any case.
            biased;
            answer = &mut wait => Some(answer),
            () = consumer.wait_lost.notified() => None,
            // The code that ended the connection knows more than a silent server.
            () = connection.ended() => None,
            () = consumer.stopping.cancelled() => None,
        };
        let given_up = in_time.is_none();
        let answer = match in_time {
            Some(answer) => Some(answer),
            None => ended(session, consumer, connection, id, wait).await,
        };
        let brought = answer?;
        if brought.is_ok() {
            // The fetch loop must see these jobs before it decides about the next wait.
            consumer.waiting.send_replace(false);
        }
        let nothing = brought.as_ref().is_ok_and(Reserved::is_nothing);
        in_vain = if nothing && since.elapsed() < at_most / 2 { in_vain + 1 } else { 0 };
        let fault = brought.map(|brought| match brought {
            Reserved::Jobs { mut jobs, left, set_aside, listed } => {
                report_set_aside(&session.core, consumer, set_aside);
                consumer.set_open(!jobs.is_empty(), listed);
                consumer.leases.reserved(session_number, &mut jobs);
                // A wait is sent while a slot is free. It is still free, or will be soon.
                let count = jobs.len();
                let slots: Vec<_> = consumer.slots.take(count).collect();
                let ahead = count - slots.len();
                accept(&session.core, consumer, jobs, slots, ahead);
                consumer.changed.notify_one();
                if left > 0 {
                    // After these: the jobs that the look brings are younger.
                    consumer.look();
                }
            }
            // The next wait is at the gate.
            Reserved::Closed { left } => {
                consumer.set_closed(left);
                consumer.changed.notify_one();
            }
            // The new session takes the jobs that entered the inbox since.
            Reserved::Stale => consumer.look(),
            Reserved::Void => session.void.cancel(),
        });
        drop(under_way);
        match fault {
            _ if given_up => return None,
            Ok(()) if in_vain < IN_VAIN => {}
            Err(fault) if fault.kind == FaultKind::Connection => return Some(fault),
            // A full server refuses to move its jobs: look once a second instead.
            refused => {
                let why = refused.err().map_or_else(String::new, |fault| format!(": {fault}"));
                say_refused(said, why, consumer);
                consumer.look();
                pause(LOOK_EVERY, &consumer.stopping).await;
            }
        }
    }
}

/// A wait in flight, until its jobs are accepted.
struct UnderWay<'a>(&'a Consumer);

impl<'a> UnderWay<'a> {
    fn begin(consumer: &'a Consumer) -> Self {
        consumer.waits.fetch_add(1, Ordering::AcqRel);
        Self(consumer)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let Self(consumer) = self;
        consumer.waits.fetch_add(1, Ordering::AcqRel);
        if consumer.stopping.is_cancelled() {
            // A retiring worker waits for this, so that the server gives it no job after it has retired.
            consumer.changed.notify_one();
        }
    }
}

/// Logs now and then that the worker cannot wait for jobs.
fn say_refused(said: &mut Option<Instant>, why: String, consumer: &Consumer) {
    if said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
        *said = Some(Instant::now());
        say!(WARN, { queue = consumer.queue.name.clone() },
            job.queue = %queue, "the server does not let this worker wait for jobs, which start up to a second late{why}");
    }
}

async fn pause(duration: Duration, stopping: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(duration) => {}
        () = stopping.cancelled() => {}
    }
}

/// Ends a wait at the server, so that it gives no job to a worker that stops or takes the wait for lost. Returns the answer of the wait,
/// since the server may have given a job just before. If the wait cannot be ended, the heartbeats still sweep the inbox.
async fn ended<T>(
    session: &Session,
    consumer: &Consumer,
    connection: &Connection,
    id: u64,
    wait: impl Future<Output = T>,
) -> Option<T> {
    let answers = async {
        let end = async {
            let other = session.core.client.connection(&consumer.queue).await?;
            // At another server, as after a failover, this number belongs to another client.
            if other.is_beside(connection) {
                end_wait(&other, &consumer.queue, id).await
            } else {
                Ok(())
            }
        };
        if let Err(fault) = end.await {
            say!(DEBUG, "a wait could not be ended: {fault}");
        }
        wait.await
    };
    tokio::time::timeout(END_WITHIN, answers).await.ok()
}
