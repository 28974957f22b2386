//! The queues and job types that exist. A worker adds its own to the registry and to the manifest. The worker that keeps the timer of the first queue logs other queues with
//! waiting jobs that no worker serves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::log::say;
use crate::manifest::JobType;
use crate::store::Fault;
use crate::worker::state::{Core, Session};

/// A worker sends heartbeats far more often.
const HEARD_WITHIN: Duration = Duration::from_secs(60);

/// So often a worker says again that it knows its job types.
const MANIFEST_EVERY: Duration = Duration::from_secs(3600);

/// How many unserved queues are named at most.
const NAMED: usize = 10;

/// Looks at the queues until the worker stops.
pub(crate) async fn run(session: Arc<Session>) {
    let looks = async {
        let mut written: Option<Instant> = None;
        loop {
            session.census.notified().await;
            if written.is_none_or(|at| at.elapsed() > MANIFEST_EVERY) {
                match write_manifest(&session).await {
                    Ok(()) => written = Some(Instant::now()),
                    Err(fault) => {
                        say!(
                            DEBUG,
                            "the job types were not written down, in a minute they are: {fault}"
                        );
                    }
                }
            }
            if let Err(fault) = look(&session).await {
                say!(DEBUG, "the queues were not looked at, in a minute they are: {fault}");
            }
        }
    };
    tokio::select! {
        () = looks => {}
        () = session.stopping.cancelled() => {}
    }
}

/// Writes down the job types for tools that do not link them.
async fn write_manifest(session: &Session) -> Result<(), Fault> {
    let core = &session.core;
    let own = core.jobs.iter().filter(|(name, definition)| **name == definition.name);
    let now = core.clock.unix_ms();
    let types: Vec<_> = own.map(|(_, definition)| JobType::of(definition, now)).collect();
    core.client.write_manifest(&types).await
}

async fn look(session: &Session) -> Result<(), Fault> {
    let core = &session.core;
    let own: BTreeSet<Arc<str>> =
        core.queues.borrow().iter().map(|queue| Arc::clone(&queue.name)).collect();
    core.client.register_queues(&own.iter().map(|name| &**name).collect::<Vec<_>>(), None).await?;
    if !session.keeps_timer.load(Ordering::Acquire) {
        return Ok(());
    }
    let mut unserved = Vec::new();
    for name in core.client.registered_queues().await?.into_keys() {
        if !own.contains(&*name) && is_unserved(core, &name).await? {
            unserved.push(name);
        }
    }
    if !unserved.is_empty() {
        let queues = unserved[..unserved.len().min(NAMED)].join(",");
        let count = unserved.len();
        say!(
            WARN,
            queues,
            count,
            "jobs wait on queues that no worker serves: start one that does, by HWORKER_QUEUES, or destroy the queues"
        );
    }
    Ok(())
}

/// Whether jobs wait or are due there, and no worker was heard of.
async fn is_unserved(core: &Core, name: &str) -> Result<bool, Fault> {
    let mut waits = false;
    for shard in core.client.shards(name, core.client.limits()) {
        let on = core.client.connection_to_inspect(&shard).await?;
        if shard.serving(&on, HEARD_WITHIN).await? > 0 {
            return Ok(false);
        }
        waits |= shard.load(&on, u64::MAX).await?.pending > 0;
    }
    Ok(waits)
}
