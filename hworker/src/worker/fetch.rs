//! The loop of one queue on the runtime of the bodies: sends what has finished, takes what there is room for, one
//! round trip after the other, so that whatever finishes during a round trip goes with the next.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tracing::{debug, error, info, warn};

use super::execute;
use super::incarnation::{Incarnation, Lane};
use super::reconnect::Reconnect;
use super::slots::Slot;
use crate::store::{
    Connection, End, Fault, FaultKind, Reconciled, Reserved, SCRIPT_JOBS, Settled, Settlement,
};
use crate::time::day;

/// A server that refuses or is busy is asked again after this.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);

/// The loop of one queue.
pub(super) struct Fetch {
    incarnation: Arc<Incarnation>,
    lane: Arc<Lane>,
    /// The server may have jobs waiting.
    ready: bool,
    first: bool,
    /// Refusals since the start; about one a minute is logged.
    refusals: u64,
}

/// Why the loop left its connection.
enum Left {
    Reconnect(String),
    Void,
    Retired,
}

impl Fetch {
    pub(super) fn new(incarnation: Arc<Incarnation>, lane: Arc<Lane>) -> Self {
        Self { incarnation, lane, ready: true, first: true, refusals: 0 }
    }

    /// Runs until the worker has retired or is void.
    pub(super) async fn run(mut self) {
        let mut reconnect = Reconnect::new();
        loop {
            let left = match self.connect(&mut reconnect).await {
                Ok(Some((connection, session))) => self.serve(&connection, session).await,
                Ok(None) => Left::Void,
                Err(fault) => {
                    if reconnect.worth_a_line() {
                        let address = self.incarnation.core.client.address();
                        warn!(queue = %self.lane.queue.name, "the server {address} cannot be used, trying again: {fault}");
                    }
                    reconnect.pause().await;
                    continue;
                }
            };
            match left {
                Left::Reconnect(why) => {
                    warn!(queue = %self.lane.queue.name, "making a new connection: {why}");
                    self.ready = true;
                }
                Left::Void => return self.incarnation.void.cancel(),
                Left::Retired => return,
            }
        }
    }

    /// Makes a connection and reconciles; `None` when the worker is void.
    async fn connect(
        &mut self,
        reconnect: &mut Reconnect,
    ) -> Result<Option<(Connection, u64)>, Fault> {
        let (lane, incarnation) = (&self.lane, &self.incarnation);
        let connection = incarnation.core.client.address().connect(&lane.queue).await?;
        let believed = lane.leases.believed();
        let record = record(incarnation);
        let reconciled = lane
            .queue
            .reconcile(&connection, &lane.keys, &incarnation.id, self.first, &record)
            .await?;
        let Reconciled::Session { session, now, leases } = reconciled else { return Ok(None) };
        self.first = false;
        incarnation.core.clock.heard(now);
        if reconnect.succeeded() {
            info!(queue = %lane.queue.name, "the server is back");
        }

        let comparison = lane.leases.compare(&believed, leases);
        for settlement in comparison.revived {
            lane.outbox.push(settlement);
        }
        if !comparison.unseen.is_empty() {
            info!(queue = %lane.queue.name, jobs = comparison.unseen.len(), "giving back jobs whose hand-over was lost");
        }
        for lease in comparison.unseen {
            lane.leases.never_start(&lease);
            let end = End::Released { delay_ms: 0, envelope: None };
            lane.outbox.push(Arc::new(Settlement { lease, end }));
        }
        for name in comparison.lost {
            report_lost(lane, &name);
        }
        lane.registered.send_replace(true);
        Ok(Some((connection, session)))
    }

    async fn serve(&mut self, connection: &Connection, session: u64) -> Left {
        let incarnation = Arc::clone(&self.incarnation);
        let lane = Arc::clone(&self.lane);
        let mut came_free = None;
        loop {
            let may_reserve = self.ready && !incarnation.stopping.is_cancelled();
            let may_wait = !self.ready && !incarnation.stopping.is_cancelled();
            // The slot that was waited for counts, since where there are more queues than slots it is not seen free again:
            // they would hand it round for ever, and none would wait at the server.
            let slot: Option<Slot> = came_free.take();
            let wait_wanted = may_wait && (slot.is_some() || lane.slots.free() > 0);
            drop(slot);
            lane.waiting
                .send_if_modified(|wanted| std::mem::replace(wanted, wait_wanted) != wait_wanted);

            let mut slots = Vec::new();
            let mut look = false;
            tokio::select! {
                biased;
                () = connection.ended() => return Left::Reconnect("the connection has ended".into()),
                () = lane.suspicious.notified() => {
                    return Left::Reconnect("what the server holds for this worker differs from what it knows".into());
                }
                () = lane.outbox.filled() => {}
                () = lane.woken.notified() => look = true,
                slot = slot_when_fresh(&lane), if may_reserve => slots.extend(slot),
                // A slot has become free, so a wait may be sent.
                slot = lane.slots.acquire(), if may_wait && !wait_wanted => {
                    came_free = slot;
                    continue;
                }
                () = incarnation.retiring.cancelled() => return self.retire(connection).await,
                () = incarnation.stopping.cancelled(), if may_reserve || may_wait => continue,
            }
            self.ready |= look;
            if self.ready && !incarnation.stopping.is_cancelled() && lane.pulse.is_fresh() {
                add_free(&lane, &mut slots);
            }

            let batch = lane.outbox.take();
            let trip = self.round_trip(connection, session, &batch, slots, look);
            let result = tokio::select! {
                result = trip => result,
                () = lane.suspicious.notified() => Err(Interrupted),
            };
            match result {
                Ok(None) => {}
                Ok(Some(left)) => return left,
                Err(Interrupted) => {
                    lane.outbox.put_back(batch);
                    return Left::Reconnect("an answer of the server was lost".into());
                }
            }
        }
    }

    /// Settles a batch and reserves for the free slots, both in one round trip.
    async fn round_trip(
        &mut self,
        connection: &Connection,
        session: u64,
        batch: &[Arc<Settlement>],
        slots: Vec<Slot>,
        look: bool,
    ) -> Result<Option<Left>, Interrupted> {
        let (incarnation, lane) = (Arc::clone(&self.incarnation), Arc::clone(&self.lane));
        let asks = look || !slots.is_empty();
        let settle = async {
            if batch.is_empty() {
                return Ok(Settled::default());
            }
            let today = day(incarnation.core.clock.unix_ms());
            lane.queue.settle(connection, &lane.keys, &today, batch).await
        };
        let reserve = async {
            if !asks {
                return Ok(None);
            }
            lane.queue.reserve(connection, &lane.keys, session, slots.len()).await.map(Some)
        };
        let (settled, handed_over) = tokio::join!(settle, reserve);

        let settled = settled.map(|settled| self.has_settled(batch, settled));
        let left = match handed_over {
            Ok(None) => Ok(None),
            Ok(Some(Reserved::Jobs { jobs, left })) => {
                self.ready = left > 0;
                self.hand_out(jobs, slots);
                Ok(None)
            }
            Ok(Some(Reserved::Void)) => Ok(Some(Left::Void)),
            Ok(Some(Reserved::Stale)) => Ok(Some(Left::Reconnect(
                "another connection took over this worker's session".into(),
            ))),
            Err(fault) => Err(fault),
        };
        let fault = match (settled, left) {
            (Ok(()), Ok(left)) => return Ok(left),
            (Err(fault), _) => {
                lane.outbox.put_back(batch.to_vec());
                fault
            }
            (Ok(()), Err(fault)) => fault,
        };
        Ok(self.after_fault(&fault).await)
    }

    fn has_settled(&self, batch: &[Arc<Settlement>], settled: Settled) {
        self.lane.leases.settled(batch);
        if settled.stale > 0 {
            // Their jobs were given to others; what happened here counts for nothing.
            debug!(queue = %self.lane.queue.name, stale = settled.stale, "settlements of lost leases were refused");
        }
    }

    /// Starts what was reserved; what came beyond the free slots goes back at once.
    fn hand_out(&self, jobs: Vec<(crate::store::Lease, Vec<u8>)>, slots: Vec<Slot>) {
        // A stopping worker begins nothing that was under way to it.
        let mut slots = slots.into_iter().take_while(|_| !self.incarnation.stopping.is_cancelled());
        for (lease, payload) in jobs {
            if let Some(slot) = slots.next() {
                execute::admit(&self.incarnation, &self.lane, &lease, payload, slot);
            } else {
                self.lane.leases.never_start(&lease);
                let end = End::Released { delay_ms: 0, envelope: None };
                self.lane.outbox.push(Arc::new(Settlement { lease, end }));
            }
        }
    }

    async fn after_fault(&mut self, fault: &Fault) -> Option<Left> {
        match fault.kind {
            FaultKind::Connection => return Some(Left::Reconnect(fault.to_string())),
            FaultKind::Reply => {
                error!(queue = %self.lane.queue.name, "{fault}");
                sleep(REFUSED_PAUSE).await;
                return Some(Left::Reconnect(fault.to_string()));
            }
            FaultKind::Busy | FaultKind::Full | FaultKind::NoScript | FaultKind::Denied => {
                if self.refusals.is_multiple_of(120) {
                    warn!(queue = %self.lane.queue.name, "the server refuses, trying again: {fault}");
                }
                self.refusals += 1;
                sleep(REFUSED_PAUSE).await;
            }
        }
        None
    }

    async fn retire(&self, connection: &Connection) -> Left {
        let lane = &self.lane;
        match lane.queue.retire(connection, &lane.keys, &self.incarnation.id).await {
            Ok(0) => Left::Retired,
            Ok(left) => {
                warn!(queue = %lane.queue.name, left, "leases are left for other workers to recover");
                Left::Retired
            }
            Err(fault) => Left::Reconnect(fault.to_string()),
        }
    }
}

/// A call that nobody waits for any more.
struct Interrupted;

/// A free slot, once a heartbeat was lately accepted.
async fn slot_when_fresh(lane: &Lane) -> Option<Slot> {
    lane.pulse.fresh().await;
    lane.slots.acquire().await
}

/// Takes every other free slot, as far as one script hands over.
fn add_free(lane: &Lane, taken: &mut Vec<Slot>) {
    while taken.len() < SCRIPT_JOBS {
        match lane.slots.try_acquire() {
            Some(slot) => taken.push(slot),
            None => return,
        }
    }
}

/// A lease was given to another: says so, and cancels the body.
pub(super) fn report_lost(lane: &Lane, name: &Arc<str>) {
    if let Some(job) = lane.leases.lose(name) {
        warn!(job = job.definition.name, id = %job.id, queue = %lane.queue.name, "the lease was lost, the job is cancelled: another worker has it");
    }
}

/// What a worker says of itself.
fn record(incarnation: &Incarnation) -> Vec<(&'static str, String)> {
    let config = &incarnation.core.config;
    vec![
        ("name", config.name.clone()),
        ("host", crate::config::host_name()),
        ("pid", std::process::id().to_string()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("concurrency", config.concurrency.to_string()),
        ("dead_after", crate::time::millis(config.dead_after).to_string()),
        (
            "queues",
            incarnation.lanes.iter().map(|lane| &*lane.queue.name).collect::<Vec<_>>().join(","),
        ),
    ]
}
