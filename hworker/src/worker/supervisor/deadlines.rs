//! The supervisor keeps deadlines: it settles attempts that the runtime of the bodies has not settled in time, because a body blocks it.

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
use crate::worker::state::{Consumer, STUCK, Session, fitting, is_large};

/// How often deadlines are checked.
const TICK: Duration = Duration::from_millis(250);

/// How often they are checked while there is no job; earlier with a heartbeat, but a tick after the last check or later. Shorter than
/// [`BLOCKING_GRACE`], so that no body that begins meanwhile is overdue unseen.
const IDLE_TICK: Duration = Duration::from_millis(1_900);

/// Settlements that the supervisor made and the server does not have yet.
pub(crate) type Unsent = Vec<(Arc<Consumer>, Settlement)>;

/// Settles attempts that the runtime of the bodies has not settled in time, while this session lasts.
pub(crate) async fn keep(session: &Arc<Session>) {
    let mut unsent: Unsent = Vec::new();
    // A stuck runtime is reported, and its jobs that did not start go to other workers.
    let mut stuck = false;
    loop {
        if session.consumers().iter().all(|consumer| consumer.leases.count() == 0) {
            // With many queues heartbeats come all the time: one check per tick is enough for all of them.
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

/// Cancels async bodies before another worker can have their jobs. A body that blocks has its fencing token.
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
    // The runtime gets a tick more than a blocking body, so that it settles wherever it runs.
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

/// The policy without a backoff function of the user: one that blocks would keep this thread from its heartbeats.
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

/// Sends the settlements of the supervisor; those that fail are sent again at the next tick.
pub(crate) async fn send(session: &Session, unsent: &mut Unsent) {
    // Concurrently: a server that is away does not hold up the others.
    let mut sends = Vec::new();
    while let Some(consumer) = unsent.first().map(|(consumer, _)| Arc::clone(consumer)) {
        let of_lane = |(other, _): &mut (Arc<Consumer>, Settlement)| Arc::ptr_eq(other, &consumer);
        let all = unsent.extract_if(.., of_lane).map(|(_, settlement)| settlement).collect();
        sends.push(send_of(session, consumer, all));
    }
    unsent.extend(join_all(sends).await.into_iter().flatten());
}

/// Sends the settlements of one queue and returns those that failed.
async fn send_of(session: &Session, consumer: Arc<Consumer>, all: Vec<Settlement>) -> Unsent {
    let (mut rest, mut unsent) = (all.as_slice(), Vec::new());
    while !rest.is_empty() {
        let (batch, others) = rest.split_at(fitting(rest.iter()));
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
            // The server may refuse these by ending the connection. So they go over the one of intake, not over the one with the
            // heartbeats, unless the runtime is stuck.
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
