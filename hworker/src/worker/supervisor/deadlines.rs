//! Deadlines, as the supervisor keeps them: what the runtime of the bodies has not settled in time, because a body blocks
//! it, is settled here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::backoff::Backoff;
use crate::job::Policy;
use crate::join::join_all;
use crate::log::say;
use crate::store::{End, Settlement};
use crate::time::day;
use crate::worker::attempt::blocking::BLOCKING_GRACE;
use crate::worker::attempt::decide::Finish;
use crate::worker::attempt::finish::{conclude, decided};
use crate::worker::state::consumer::Consumer;
use crate::worker::state::liveness::STUCK;
use crate::worker::state::outbox::{self, is_large};
use crate::worker::state::session::Session;

/// Deadlines are looked at so often.
const TICK: Duration = Duration::from_millis(250);

/// And so often where no job is, or with a heartbeat, a tick after the last look or later. Shorter than [`BLOCKING_GRACE`], so that none that begins meanwhile is overdue
/// unseen.
const IDLE_TICK: Duration = Duration::from_millis(1_900);

/// What the supervisor settled and the server does not have yet.
pub(crate) type Unsent = Vec<(Arc<Consumer>, Settlement)>;

/// Settles what the runtime of the bodies has not settled in time, for as long as this session lasts.
pub(crate) async fn keep(session: &Arc<Session>) {
    let mut unsent: Unsent = Vec::new();
    // A runtime that is stuck is reported, and what it was handed but did not start goes to others.
    let mut stuck = false;
    loop {
        if session.consumers().iter().all(|consumer| consumer.leases.count() == 0) {
            // With many queues heartbeats come all the time: one look is for all of them within a tick.
            let looked = Instant::now();
            while looked.elapsed() < TICK {
                session.beat_or(IDLE_TICK.saturating_sub(looked.elapsed())).await;
            }
        } else {
            sleep(TICK).await;
        }
        for consumer in session.consumers().iter() {
            overdue(session, consumer, &mut unsent);
            consumer.leases.forget_old();
        }
        let silent = session.runtime.silent();
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
            for consumer in session.consumers().iter() {
                give_to_others(session, consumer, &mut unsent).await;
            }
        }
        send(session, &mut unsent).await;
    }
}

/// Async bodies end before another worker can have their jobs; one that blocks has its fencing token.
pub(crate) async fn cancel_on_disconnect(session: &Session) {
    let limit = session.core.config.dead_after.saturating_sub(Duration::from_secs(1));
    loop {
        sleep(TICK).await;
        for consumer in session.consumers().iter() {
            if consumer.freshness.age().is_some_and(|age| age >= limit) {
                for running in consumer.leases.running().iter().filter(|running| !running.blocking)
                {
                    running.context.cancel();
                }
            }
        }
    }
}

fn overdue(session: &Session, consumer: &Arc<Consumer>, unsent: &mut Unsent) {
    // The runtime is given a tick more than a blocking body, so that it is the one who settles wherever it runs.
    let core = &session.core;
    let limit = BLOCKING_GRACE + 2 * TICK;
    for running in consumer.leases.running() {
        let job = &running.job;
        let overdue = running.context.deadline().elapsed() >= limit;
        if !overdue || !consumer.leases.end(&job.lease) {
            continue;
        }
        running.context.cancel();
        let policy = without_user_code(&job.definition.policy);
        let transition = decided(core, job, Finish::TimedOut(job.timeout), &policy);
        let end = conclude(core, consumer, job, transition);
        unsent.push((Arc::clone(consumer), Settlement { lease: job.lease.clone(), end }));
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

async fn give_to_others(session: &Session, consumer: &Arc<Consumer>, unsent: &mut Unsent) {
    for lease in consumer.leases.not_started_for(STUCK) {
        if consumer.leases.end(&lease) {
            let end = End::Released { delay_ms: 0, envelope: None };
            unsent.push((Arc::clone(consumer), Settlement { lease, end }));
        }
    }
    let given_back = async {
        let connection = session.core.client.connection(&consumer.queue).await?;
        consumer.queue.return_inbox(&connection, &consumer.keys).await
    };
    if let Err(fault) = given_back.await {
        say!(DEBUG, "the inbox of a stuck runtime could not be given back: {fault}");
    }
}

/// Sends what the supervisor settled; what fails is sent again at the next tick.
pub(crate) async fn send(session: &Session, unsent: &mut Unsent) {
    // Side by side: one server that is away holds up no other's.
    let mut sends = Vec::new();
    while let Some(consumer) = unsent.first().map(|(consumer, _)| Arc::clone(consumer)) {
        let of_lane = |(other, _): &mut (Arc<Consumer>, Settlement)| Arc::ptr_eq(other, &consumer);
        let all = unsent.extract_if(.., of_lane).map(|(_, settlement)| settlement).collect();
        sends.push(send_of(session, consumer, all));
    }
    unsent.extend(join_all(sends).await.into_iter().flatten());
}

/// Sends what belongs to one queue; gives what did not get there.
async fn send_of(session: &Session, consumer: Arc<Consumer>, all: Vec<Settlement>) -> Unsent {
    let (mut rest, mut unsent) = (all.as_slice(), Vec::new());
    while !rest.is_empty() {
        let (batch, others) = rest.split_at(outbox::fitting(rest.iter()));
        rest = others;
        let sent = async {
            let connection = session.core.client.connection(&consumer.queue).await?;
            let today = day(session.core.clock.unix_ms());
            consumer.queue.settle(&connection, &consumer.keys, &today, batch).await
        };
        match sent.await {
            Ok(settled) => {
                let mut batch = batch.to_vec();
                let refused = settled.take_refused(&mut batch);
                unsent.extend(refused.into_iter().map(|one| (Arc::clone(&consumer), one)));
                consumer.leases.settled(batch);
            }
            // What the server may refuse by ending the connection is not for one that carries heartbeats, where there is another.
            Err(fault)
                if fault.ends_connection()
                    && batch.iter().any(is_large)
                    && session.runtime.silent() < STUCK =>
            {
                for one in batch {
                    consumer.settle(Some(one.clone()));
                }
            }
            Err(_) => unsent.extend(batch.iter().map(|one| (Arc::clone(&consumer), one.clone()))),
        }
    }
    unsent
}
