//! Waiting on the server, on a connection of its own: an idle worker asks nothing, and the server hands the next job
//! into this worker's inbox, which counts as its lease even if the answer is lost.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::incarnation::{Incarnation, Lane};
use super::reconnect::Reconnect;
use crate::store::{Connection, Fault, FaultKind, connection_id, end_wait};

/// One wait lasts at most so long.
const WAIT: Duration = Duration::from_secs(20);

/// A server that refuses waits is looked at so often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Sends a wait whenever one is wanted, until the worker stops.
pub(super) async fn run(incarnation: Arc<Incarnation>, lane: Arc<Lane>) {
    let mut reconnect = Reconnect::new();
    let mut wanted = lane.waiting.subscribe();
    while !incarnation.stopping.is_cancelled() {
        let connected = async {
            let connection = incarnation.core.client.address().connect(&lane.queue).await?;
            let id = connection_id(&connection).await?;
            Ok::<_, Fault>((connection, id))
        };
        match connected.await {
            Ok((connection, id)) => {
                reconnect.succeeded();
                let fault = serve(&incarnation, &lane, &connection, id, &mut wanted).await;
                debug!(queue = %lane.queue.name, "the connection for waiting has ended: {fault:?}");
            }
            // The loop that fetches says what is wrong with the server.
            Err(_) => reconnect.pause().await,
        }
    }
}

/// Waits on one connection until it breaks or the worker stops.
async fn serve(
    incarnation: &Incarnation,
    lane: &Lane,
    connection: &Connection,
    id: u64,
    wanted: &mut tokio::sync::watch::Receiver<bool>,
) -> Option<Fault> {
    loop {
        tokio::select! {
            changed = wanted.wait_for(|wanted| *wanted) => { changed.ok()?; }
            () = connection.ended() => return None,
            () = incarnation.stopping.cancelled() => return None,
        }
        tokio::select! {
            () = lane.pulse.fresh() => {}
            () = connection.ended() => return None,
            () = incarnation.stopping.cancelled() => return None,
        }
        let wait = lane.queue.await_job(connection, &lane.keys, WAIT);
        let result = tokio::select! {
            result = wait => result,
            () = lane.wait_lost.notified() => return None,
            () = incarnation.stopping.cancelled() => {
                end(incarnation, lane, id).await;
                return None;
            }
        };
        match result {
            Ok(true) => woken(lane),
            Ok(false) => {}
            Err(fault) if fault.kind == FaultKind::Connection => return Some(fault),
            // A full server refuses to move what it holds: look once a second instead.
            Err(_) => {
                woken(lane);
                pause(LOOK_EVERY, &incarnation.stopping).await;
            }
        }
    }
}

/// A look is wanted and no further wait, until the look has found nothing.
fn woken(lane: &Lane) {
    lane.waiting.send_replace(false);
    lane.woken.notify_one();
}

async fn pause(duration: Duration, stopping: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(duration) => {}
        () = stopping.cancelled() => {}
    }
}

/// Ends the wait at the server, so that it hands nothing to a worker that stops. If this fails the inbox is swept by
/// others all the same.
async fn end(incarnation: &Incarnation, lane: &Lane, id: u64) {
    let ended = async {
        let other = incarnation.core.client.connection(&lane.queue).await?;
        end_wait(&other, id).await
    };
    if let Ok(Err(fault)) = tokio::time::timeout(Duration::from_secs(1), ended).await {
        debug!("the wait could not be ended: {fault}");
    }
}
