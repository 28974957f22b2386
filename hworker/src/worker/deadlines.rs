//! Deadlines, as the supervisor keeps them: what the runtime of the bodies has not settled in time, because a body blocks
//! it, is settled here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::consumer::Lane;
use super::decide::Finish;
use super::execute::{BLOCKING_GRACE, conclude, decided};
use super::liveness::STUCK;
use super::outbox::{self, is_large};
use super::session::Incarnation;
use crate::backoff::Backoff;
use crate::job::Policy;
use crate::join::join_all;
use crate::log::say;
use crate::store::{End, Settlement};
use crate::time::day;

/// Deadlines are looked at so often.
const TICK: Duration = Duration::from_millis(250);

/// And so often where no job is, or with a heartbeat, a tick after the last look or later. Shorter than [`BLOCKING_GRACE`], so that none that begins meanwhile is overdue
/// unseen.
const IDLE_TICK: Duration = Duration::from_millis(1_900);

/// What the supervisor settled and the server does not have yet.
pub(super) type Unsent = Vec<(Arc<Lane>, Settlement)>;

/// Settles what the runtime of the bodies has not settled in time, for as long as this life lasts.
pub(super) async fn keep(incarnation: &Arc<Incarnation>) {
    let mut unsent: Unsent = Vec::new();
    // A runtime that is stuck is reported, and what it was handed but did not start goes to others.
    let mut stuck = false;
    loop {
        if incarnation.lanes().iter().all(|lane| lane.leases.count() == 0) {
            // With many queues heartbeats come all the time: one look is for all of them within a tick.
            let looked = Instant::now();
            while looked.elapsed() < TICK {
                incarnation.beat_or(IDLE_TICK.saturating_sub(looked.elapsed())).await;
            }
        } else {
            sleep(TICK).await;
        }
        for lane in incarnation.lanes().iter() {
            overdue(incarnation, lane, &mut unsent);
            lane.leases.forget_old();
        }
        let silent = incarnation.runtime.silent();
        if silent < STUCK {
            if std::mem::take(&mut stuck) {
                say!(INFO, "the runtime of the bodies runs again");
            }
        } else {
            if !std::mem::replace(&mut stuck, true) {
                say!(
                    ERROR,
                    "the runtime of the bodies has not run for {silent:?}: a body blocks it; make such a job a fn that is not async"
                );
            }
            for lane in incarnation.lanes().iter() {
                give_to_others(incarnation, lane, &mut unsent).await;
            }
        }
        send(incarnation, &mut unsent).await;
    }
}

/// Async bodies end before another worker can have their jobs; one that blocks has its fencing token.
pub(super) async fn cancel_on_disconnect(incarnation: &Incarnation) {
    let limit = incarnation.core.config.dead_after.saturating_sub(Duration::from_secs(1));
    loop {
        sleep(TICK).await;
        for lane in incarnation.lanes().iter() {
            if lane.pulse.age().is_some_and(|age| age >= limit) {
                for running in lane.leases.running().iter().filter(|running| !running.blocking) {
                    running.context.cancel();
                }
            }
        }
    }
}

fn overdue(incarnation: &Incarnation, lane: &Arc<Lane>, unsent: &mut Unsent) {
    // The runtime is given a tick more than a blocking body, so that it is the one who settles wherever it runs.
    let core = &incarnation.core;
    let limit = BLOCKING_GRACE + 2 * TICK;
    for running in lane.leases.running() {
        let job = &running.job;
        let overdue = running.context.deadline().elapsed() >= limit;
        if !overdue || !lane.leases.end(&job.lease) {
            continue;
        }
        running.context.cancel();
        let policy = without_user_code(&job.definition.policy);
        let transition = decided(core, job, Finish::TimedOut(job.timeout), &policy);
        let end = conclude(core, lane, job, transition);
        unsent.push((Arc::clone(lane), Settlement { lease: job.lease.clone(), end }));
    }
}

/// The policy without a backoff of the user's: a function that blocks would keep this thread from its heartbeats.
fn without_user_code(policy: &Policy) -> Policy {
    let backoff = match policy.backoff {
        Backoff::Custom(_) => Backoff::DEFAULT,
        backoff => backoff,
    };
    Policy { backoff, ..*policy }
}

async fn give_to_others(incarnation: &Incarnation, lane: &Arc<Lane>, unsent: &mut Unsent) {
    for lease in lane.leases.not_started_for(STUCK) {
        if lane.leases.end(&lease) {
            let end = End::Released { delay_ms: 0, envelope: None };
            unsent.push((Arc::clone(lane), Settlement { lease, end }));
        }
    }
    let given_back = async {
        let connection = incarnation.core.client.connection(&lane.queue).await?;
        lane.queue.return_inbox(&connection, &lane.keys).await
    };
    if let Err(fault) = given_back.await {
        say!(DEBUG, "the inbox of a stuck runtime could not be given back: {fault}");
    }
}

/// Sends what the supervisor settled; what fails is sent again at the next tick.
pub(super) async fn send(incarnation: &Incarnation, unsent: &mut Unsent) {
    // Side by side: one server that is away holds up no other's.
    let mut sends = Vec::new();
    while let Some(lane) = unsent.first().map(|(lane, _)| Arc::clone(lane)) {
        let of_lane = |(other, _): &mut (Arc<Lane>, Settlement)| Arc::ptr_eq(other, &lane);
        let all = unsent.extract_if(.., of_lane).map(|(_, settlement)| settlement).collect();
        sends.push(send_of(incarnation, lane, all));
    }
    unsent.extend(join_all(sends).await.into_iter().flatten());
}

/// Sends what belongs to one queue; gives what did not get there.
async fn send_of(incarnation: &Incarnation, lane: Arc<Lane>, all: Vec<Settlement>) -> Unsent {
    let (mut rest, mut unsent) = (all.as_slice(), Vec::new());
    while !rest.is_empty() {
        let (batch, others) = rest.split_at(outbox::fitting(rest.iter()));
        rest = others;
        let sent = async {
            let connection = incarnation.core.client.connection(&lane.queue).await?;
            let today = day(incarnation.core.clock.unix_ms());
            lane.queue.settle(&connection, &lane.keys, &today, batch).await
        };
        match sent.await {
            Ok(settled) => {
                let mut batch = batch.to_vec();
                let refused = settled.take_refused(&mut batch);
                unsent.extend(refused.into_iter().map(|one| (Arc::clone(&lane), one)));
                lane.leases.settled(batch);
            }
            // What the server may refuse by ending the connection is not for one that carries heartbeats, where there is another.
            Err(fault)
                if fault.ends_connection()
                    && batch.iter().any(is_large)
                    && incarnation.runtime.silent() < STUCK =>
            {
                for one in batch {
                    lane.settle(Some(one.clone()));
                }
            }
            Err(_) => unsent.extend(batch.iter().map(|one| (Arc::clone(&lane), one.clone()))),
        }
    }
    unsent
}
