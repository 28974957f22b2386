//! An attempt whose body runs in a process of its own.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{interval, sleep_until};

use super::Isolated;
use super::child::{Child, resident, tell};
use super::frame::{Order, Run, Said};
use super::pool::{Busy, Pool};
use crate::context::Context;
use crate::job::Isolation;
use crate::outcome::Returned;
use crate::time::millis;
use crate::worker::attempt::decide::Finish;
use crate::worker::state::{Core, Job};

/// So often the memory of a process is looked at. A limit of its addresses would end sound programs, whose allocators reserve more than they use.
const MEMORY_EVERY: Duration = Duration::from_millis(250);

/// So many processes are given a job, if one after the other ends before it begins.
const TRIES: u32 = 3;

/// Why a test has no such processes.
const IN_A_TEST: &str = "it has `isolate`, and a test has no process for it, as each would run the tests: call its function in the test";

/// Runs an attempt in a process out of the pool. Dropping this ends the process.
pub(crate) async fn run(
    core: &Core,
    job: &Job,
    context: &Context,
    isolation: Isolation,
) -> Isolated {
    let Some(pool) = &core.children else {
        return Isolated::NoProcess("there is no pool".to_owned());
    };
    if pool.is_refused() {
        let failure = Returned::Failure(IN_A_TEST.to_owned());
        return Isolated::Finished(Some(Finish::Returned(failure)));
    }
    let order = Order::Run(Run {
        lease: job.lease.to_string(),
        id: job.id.as_str().to_owned(),
        queue: context.queue().to_owned(),
        shard: context.attempt_of().scope.shard.to_string(),
        worker: context.worker().to_owned(),
        left_ms: millis(context.remaining()),
        now: core.clock.unix_ms(),
        payload: job.payload.clone(),
    });
    let (mut child, busy) = tokio::select! {
        () = context.over() => return Isolated::Finished(None),
        () = sleep_until(context.deadline().into()) => {
            return Isolated::Finished(Some(Finish::TimedOut(job.timeout)));
        }
        begun = begin(pool, &order) => match begun {
            Ok(begun) => begun,
            Err(why) => return Isolated::NoProcess(why),
        },
    };
    let said = match watch(&mut child, context, isolation).await {
        End::Said(said) => said,
        end => {
            drop(busy);
            if !core.stop.is_cancelled() {
                pool.replace();
            }
            return Isolated::Finished(lost(end, child, job, isolation).await);
        }
    };
    pool.put_back(child, busy, isolation).await;
    match said {
        Said::Ready | Said::Begins | Said::Ended(None) => Isolated::Finished(None),
        Said::Ended(Some(becomes)) => {
            Isolated::Finished(Some(Finish::Decided(becomes.transition())))
        }
        Said::Unfit(why) => Isolated::Unfit(why),
    }
}

/// Gives the job to a process, which has begun its body then. One that ends before that, as somebody killed it while it waited, costs the job
/// nothing: another has it.
async fn begin(pool: &Arc<Pool>, order: &Order) -> Result<(Child, Busy), String> {
    let mut tries = 0;
    loop {
        let (mut child, busy) = pool.take().await?;
        tries += 1;
        match child.run(order).await {
            Ok(()) => return Ok((child, busy)),
            Err(_) if tries < TRIES => {}
            Err(_) => {
                let why = child.ended().await;
                return Err(format!("{TRIES} of them have died before they began its body: {why}"));
            }
        }
    }
}

/// How an attempt ended whose process is lost with it.
async fn lost(end: End, child: Child, job: &Job, isolation: Isolation) -> Option<Finish> {
    match end {
        End::Said(_) | End::Over => None,
        End::Late => Some(Finish::TimedOut(job.timeout)),
        End::Died => {
            let why = child.ended().await;
            Some(Finish::Killed(format!("the process of the body has died: {why}")))
        }
        End::TooLarge(has) => {
            let most = isolation.memory.unwrap_or_default();
            let why =
                format!("the process of the body had {has} bytes of memory, and may have {most}");
            Some(Finish::Killed(child.killed(&why).await))
        }
    }
}

/// Why a process is no longer waited for.
enum End {
    Said(Said),
    Died,
    /// The attempt is over.
    Over,
    Late,
    TooLarge(u64),
}

/// Waits for what the process says of the job, or for what ends it.
async fn watch(child: &mut Child, context: &Context, isolation: Isolation) -> End {
    let process = child.id();
    let (said, orders) = child.talk();
    let mut said = pin!(said);
    let mut deadline = pin!(sleep_until(context.deadline().into()));
    let mut over = pin!(context.over());
    let mut cancelled = pin!(context.cancelled());
    let mut looks = interval(MEMORY_EVERY);
    let stopping = &context.attempt_of().scope.stopping;
    let (mut is_told, mut knows_stop) = (false, false);
    loop {
        tokio::select! {
            said = &mut said => return said.map_or(End::Died, End::Said),
            () = &mut over => return End::Over,
            () = &mut deadline => return End::Late,
            () = &mut cancelled, if !is_told => {
                is_told = true;
                tell(orders, Order::Cancel).await;
            }
            () = stopping.cancelled(), if !knows_stop => {
                knows_stop = true;
                tell(orders, Order::Stop).await;
            }
            _ = looks.tick(), if isolation.memory.is_some() => {
                let Some(id) = process else { continue };
                let has = resident(id).await.unwrap_or(0);
                if isolation.memory.is_some_and(|most| has > most) {
                    return End::TooLarge(has);
                }
            }
        }
    }
}
