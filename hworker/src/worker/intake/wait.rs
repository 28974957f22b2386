//! Waiting on the server, on a connection of its own: an idle worker asks nothing, and the server hands the next job
//! into this worker's inbox, which counts as its lease even if the answer is lost.
//! A reserve is sent along with the wait, so that the server moves the job on under its lease at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::log::say;
use crate::reconnect::Reconnect;
use crate::store::{Connection, Fault, FaultKind, Reserved, connection_id, end_wait};
use crate::worker::intake::accept::{accept, report_set_aside};
use crate::worker::state::consumer::Consumer;
use crate::worker::state::session::Session;

/// One wait lasts at most so long.
const WAIT: Duration = Duration::from_secs(20);

/// Ending a wait may take so long.
const END_WITHIN: Duration = Duration::from_millis(300);

/// A server that refuses waits is looked at so often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where no connection could be made for so long, while heartbeats are accepted, it is no outage of the server.
const OUTAGE: Duration = Duration::from_secs(5);

/// That it refuses them is said again after this.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// So many waits in a row that are over before their time and bring nothing were refused. Of one or two another call may
/// have taken what was handed over.
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
            let connection = address.connect(&consumer.queue).await?;
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
                say!(DEBUG, { queue = consumer.queue.name.clone() }, %queue, "the connection for waiting has ended: {fault:?}");
                // What is in the inbox may be what ended it.
                consumer.look();
                if ended_well || began.elapsed() >= LOOK_EVERY {
                    reconnect.succeeded();
                } else {
                    // A server that lets in whom it does not serve, as one of a cluster that is down.
                    reconnect.pause().await;
                }
            }
            Err(fault) => {
                // The others may have theirs; where they do not either, they say so, and what is looked for now is not found.
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
        // While the freshness was waited for, the loop that fetches may have come to ask for itself.
        if !*wanted.borrow_and_update() {
            continue;
        }
        // Before its reserve is counted: one that is counted under an older session asks under no newer one.
        let session_number = consumer.session_number.load(Ordering::Acquire);
        let wait =
            consumer.queue.reserve_when_handed(connection, &consumer.keys, session_number, WAIT);
        tokio::pin!(wait);
        let since = Instant::now();
        let under_way = UnderWay::begin(consumer);
        let in_time = tokio::select! {
            // An answer that is here is taken, whatever else has happened.
            biased;
            answer = &mut wait => Some(answer),
            () = consumer.wait_lost.notified() => None,
            // Whoever ended it knows more than a server that is silent.
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
            // Whoever decides about the next wait has to see first what came with this one.
            consumer.waiting.send_replace(false);
        }
        let nothing = brought.as_ref().is_ok_and(Reserved::is_nothing);
        in_vain = if nothing && since.elapsed() < WAIT / 2 { in_vain + 1 } else { 0 };
        let fault = brought.map(|brought| match brought {
            Reserved::Jobs { mut jobs, left, set_aside } => {
                report_set_aside(&session.core, consumer, set_aside);
                consumer.leases.reserved(session_number, &mut jobs);
                // A wait is sent while a slot is free, which is free still, or will be soon.
                let count = jobs.len();
                let slots: Vec<_> = consumer.slots.take(count).collect();
                let ahead = count - slots.len();
                accept(&session.core, consumer, jobs, slots, ahead);
                consumer.changed.notify_one();
                if left > 0 {
                    // Behind: what it fetches is younger.
                    consumer.look();
                }
            }
            // What was handed into the inbox since is for the new session to take.
            Reserved::Stale => consumer.look(),
            Reserved::Void => session.void.cancel(),
        });
        drop(under_way);
        match fault {
            _ if given_up => return None,
            Ok(()) if in_vain < IN_VAIN => {}
            Err(fault) if fault.kind == FaultKind::Connection => return Some(fault),
            // A full server refuses to move what it holds: look once a second instead.
            refused => {
                let why = refused.err().map_or_else(String::new, |fault| format!(": {fault}"));
                say_refused(said, why, consumer);
                consumer.look();
                pause(LOOK_EVERY, &consumer.stopping).await;
            }
        }
    }
}

/// A wait that is under way, until what it brought is handed over.
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
            // Who retires waits for that, so that nothing is handed to a worker that has retired.
            consumer.changed.notify_one();
        }
    }
}

/// Says now and then that the worker cannot wait for jobs.
fn say_refused(said: &mut Option<Instant>, why: String, consumer: &Consumer) {
    if said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
        *said = Some(Instant::now());
        say!(WARN, { queue = consumer.queue.name.clone() }, %queue, "the server does not let this worker wait for jobs, which start up to a second late{why}");
    }
}

async fn pause(duration: Duration, stopping: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(duration) => {}
        () = stopping.cancelled() => {}
    }
}

/// Ends a wait at the server, so that it hands nothing to a worker that stops, or that has taken the wait for lost; gives
/// its answers, since the server may have handed something over just before. If it cannot be ended, the inbox is swept by
/// the heartbeats all the same.
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
            // Elsewhere, as after a failover, somebody else has that number.
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
