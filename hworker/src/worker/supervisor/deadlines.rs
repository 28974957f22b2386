//! The supervisor keeps deadlines: it settles attempts that the runtime of the bodies has not settled in time, because a body blocks it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use crate::backoff::Backoff;
use crate::job::Policy;
use crate::join::join_all;
use crate::log::say;
use crate::store::{Concluded, End, Lease};
use crate::time::day;
use crate::worker::attempt::admit::CANCELLED;
use crate::worker::attempt::blocking::BLOCKING_GRACE;
use crate::worker::attempt::decide::{Evidence, Finish, Transition};
use crate::worker::attempt::finish::{conclude, decided};
#[cfg(feature = "metrics")]
use crate::worker::report::metrics::Facade;
use crate::worker::state::{Consumer, STUCK, Session, is_large};

/// How often deadlines are checked.
const TICK: Duration = Duration::from_millis(250);

/// How often they are checked while there is no job; earlier with a heartbeat, but a tick after the last check or later. Shorter than
/// [`BLOCKING_GRACE`], so that no body that begins meanwhile is overdue unseen.
const IDLE_TICK: Duration = Duration::from_millis(1_900);

/// Settles attempts that the runtime of the bodies has not settled in time, while this session lasts.
pub(crate) async fn keep(session: &Arc<Session>) {
    // A stuck runtime is reported, and its jobs that did not start go to other workers.
    let mut stuck = false;
    #[cfg(feature = "metrics")]
    let mut facade = Facade::default();
    loop {
        let began = Instant::now();
        if session.consumers().iter().all(|consumer| consumer.leases.count() == 0) {
            // With many queues heartbeats come all the time: one check per tick is enough for all of them.
            let looked = Instant::now();
            while looked.elapsed() < TICK {
                let rest = IDLE_TICK.saturating_sub(looked.elapsed());
                let _ = timeout(rest, session.beat.notified()).await;
            }
        } else {
            sleep(TICK).await;
        }
        #[cfg(feature = "metrics")]
        facade.tell_in_time(session);
        let consumers = session.consumers();
        for consumer in consumers.iter() {
            overdue(session, consumer);
            consumer.leases.forget_old();
        }
        // The whole process may have stood still.
        let stood_still = began.elapsed() > IDLE_TICK + 4 * TICK;
        let silent = session.runtime.silent();
        if silent < STUCK || stood_still {
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
            for consumer in consumers.iter() {
                give_to_others(session, consumer).await;
            }
        }
        // Concurrently: a server that is away does not hold up the others.
        join_all(consumers.iter().map(|consumer| send(session, consumer))).await;
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

fn overdue(session: &Session, consumer: &Consumer) {
    // The runtime gets a tick more than a blocking body, so that it settles wherever it runs.
    let core = &session.core;
    let limit = BLOCKING_GRACE + 2 * TICK;
    for running in consumer.leases.running() {
        let job = &running.job;
        if running.context.deadline().elapsed() >= limit {
            give_up(consumer, &job.lease, || {
                running.context.cancel();
                let policy = without_user_code(&job.definition.policy);
                let mut transition = decided(core, job, Finish::TimedOut(job.timeout), &policy);
                if running.context.is_ordered_to_end() {
                    transition = Transition::Cancel(Evidence::new("cancelled", CANCELLED));
                }
                let ran = job.timeout + running.context.deadline().elapsed();
                conclude(core, consumer, job, Some(ran), transition)
            });
        }
    }
}

/// Ends a lease, and leaves its settlement to [`send`].
fn give_up<C: Into<Concluded>>(consumer: &Consumer, lease: &Lease, end: impl FnOnce() -> C) {
    if let Some(settlement) = consumer.end(lease, end) {
        consumer.given_up.push(settlement, false);
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

async fn give_to_others(session: &Session, consumer: &Consumer) {
    for lease in consumer.leases.not_started_for(STUCK) {
        give_up(consumer, &lease, || End::Released { delay_ms: 0, envelope: None });
    }
    let given_back = async {
        let connection = session.core.client.connection(&consumer.queue).await?;
        consumer.queue.return_inbox(&connection, &consumer.keys).await
    };
    if let Err(fault) = given_back.await {
        say!(DEBUG, "the inbox of a stuck runtime could not be given back: {fault}");
    }
}

/// Sends the settlements of the supervisor in one queue; those that fail are sent again at the next tick.
async fn send(session: &Session, consumer: &Consumer) {
    loop {
        let mut batch = consumer.given_up.take();
        if batch.is_empty() {
            return;
        }
        let sent = async {
            let connection = session.core.client.connection(&consumer.queue).await?;
            let today = day(session.core.clock.unix_ms());
            consumer.queue.settle(&connection, &consumer.keys, &today, &batch).await
        };
        match sent.await {
            Ok(settled) => {
                let refused = settled.take_refused(&mut batch);
                consumer.count_stale(&settled);
                consumer.leases.settled(batch);
                if !refused.is_empty() {
                    return consumer.given_up.put_back(refused);
                }
            }
            // The server may refuse these by ending the connection. So they go over the one of intake, not over the one with the
            // heartbeats, unless the runtime is stuck.
            Err(fault)
                if fault.ends_connection()
                    && batch.iter().any(is_large)
                    && session.runtime.silent() < STUCK =>
            {
                for one in batch {
                    consumer.settle(Some(one));
                }
            }
            Err(_) => return consumer.given_up.put_back(batch),
        }
    }
}
