//! Runs all that a test enqueued.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use super::kit::Kit;
use crate::client::Client;
use crate::error::Error;
use crate::hooks::{Event, EventKind};
use crate::inspect::{Action, JobInfo, Order};
use crate::job_state::JobState;
use crate::registry::Registry;
use crate::worker::once;

/// A test that takes longer has gone wrong.
const WITHIN: Duration = Duration::from_secs(60);

/// Nor does it have more attempts.
const MOST_ATTEMPTS: u64 = 10_000;

/// Jobs that are due within so many ms of each other run in the order in which they were enqueued.
const TOGETHER_MS: u64 = 1_000;

/// What became of all that was enqueued.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Jobs that are done.
    pub done: u64,
    /// Jobs that have failed for good.
    pub failed: u64,
    /// Attempts that failed, after which the job ran again.
    pub retried: u64,
    /// Attempts that put themselves off.
    pub snoozed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Jobs that expired.
    pub expired: u64,
    /// Payloads that nobody could read or run.
    pub broken: u64,
    /// Why attempts did not end well: the name of the job, and the message.
    pub errors: Vec<(String, String)>,
}

impl Drained {
    /// What the server has counted so far.
    async fn counted(client: &Client) -> Result<Self, Error> {
        let mut counted = Self::default();
        // Also of those on which nothing is left.
        let names = client.queue_names().await;
        let doing = || "count what was drained".to_owned();
        let names = names.map_err(|fault| fault.at(client.address()).into_error(doing()))?;
        for queue in names {
            let counters = client.inspect(&queue).statistics(None).await?;
            let of = |name| counters.get(name).copied().unwrap_or(0);
            counted.done += of("processed");
            counted.failed += of("failed");
            counted.retried += of("retried");
            counted.cancelled += of("cancelled");
            counted.expired += of("expired");
            counted.broken += of("broken");
        }
        Ok(counted)
    }

    /// What came to what was counted before, with what the server does not count.
    fn since(self, before: &Self, told: &Told) -> Self {
        Self {
            done: self.done.saturating_sub(before.done),
            failed: self.failed.saturating_sub(before.failed),
            retried: self.retried.saturating_sub(before.retried),
            snoozed: told.snoozed,
            cancelled: self.cancelled.saturating_sub(before.cancelled),
            expired: self.expired.saturating_sub(before.expired),
            broken: self.broken.saturating_sub(before.broken),
            errors: told.errors.clone(),
        }
    }
}

/// What the worker tells.
#[derive(Default)]
struct Told {
    attempts: u64,
    snoozed: u64,
    errors: Vec<(String, String)>,
}

impl Told {
    fn hear(&mut self, event: &Event) {
        self.attempts += u64::from(event.kind == EventKind::Started);
        self.snoozed += u64::from(event.kind == EventKind::Snoozed);
        let job = event.job.clone().unwrap_or_default();
        self.errors.extend(event.message.clone().map(|message| (job, message)));
    }
}

impl Kit {
    /// Runs all that was enqueued, and what that enqueues, until nothing is left, one job after the other: on a server of the [test's
    /// own](Self::with_server), by a worker with the states and layers of this kit. Nothing is waited for: where only jobs are left that are to run later, the
    /// earliest of them run at once, in their order, be it a delay, a retry or a snooze. Batches, limits and unique jobs are as ever; cron entries do not run.
    ///
    /// # Errors
    /// As [`with_server`](Self::with_server); [`Error::Config`] where a job needs what the kit has not, or after 10,000 attempts or 60 s.
    pub async fn drain(&self) -> Result<Drained, Error> {
        let client = self.with_server().await?;
        let before = Drained::counted(&client).await?;
        let told = Arc::new(Mutex::new(Told::default()));
        let heard = Arc::clone(&told);
        let worker = self.worker().client(&client).queues(["*"]).concurrency(1).without_cron();
        let (mut registry, mut lacking) = (Registry::new(), BTreeMap::new());
        let mut last = None;
        for name in Registry::collect().names() {
            if last.replace(name) == Some(name) {
                lacking.insert(name, "several jobs of this program are called so".to_owned());
            }
        }
        for definition in Registry::collect().definitions() {
            if lacking.contains_key(definition.name) {
                continue;
            }
            match definition.lacks(worker.states(), client.keys().is_some()) {
                Some(why) => _ = lacking.insert(definition.name, why),
                None => registry.add(definition),
            }
        }
        let hear = move |event: &Event| {
            heard.lock().unwrap_or_else(PoisonError::into_inner).hear(event);
        };
        let worker = worker.registry(registry).observe(hear).build()?;
        let told = || told.lock().unwrap_or_else(PoisonError::into_inner);
        let more = async || {
            if told().attempts > MOST_ATTEMPTS {
                return Err(Error::config(format!(
                    "still not drained after {MOST_ATTEMPTS} attempts"
                )));
            }
            bring_forward(&client).await
        };
        let lacks = self.lacks(&lacking);
        let ran = async {
            tokio::select! {
                ran = timeout(WITHIN, once::run_while(worker, more)) => ran,
                why = lacks => Ok(Err(why)),
            }
        };
        let in_time = Box::pin(ran).await;
        let counted = Drained::counted(&client).await?.since(&before, &told());
        match in_time {
            Ok(ran) => ran.map(|()| counted),
            Err(_) => {
                Err(Error::config(format!("still not drained after {WITHIN:?}: {counted:?}")))
            }
        }
    }

    /// Waits until a job is enqueued that this kit cannot run.
    async fn lacks(&self, lacking: &BTreeMap<&'static str, String>) -> Error {
        loop {
            {
                let state = self.recorder.state();
                let mut jobs = state.recorded.iter();
                if let Some((job, why)) = jobs.find_map(|job| lacking.get_key_value(&*job.job)) {
                    return Error::config(format!("job `{job}` cannot run in this test: {why}"));
                }
            }
            // What is enqueued wakes nobody.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Has the earliest of the jobs run that are to run later; false where there are none.
async fn bring_forward(client: &Client) -> Result<bool, Error> {
    let mut jobs: Vec<JobInfo> = Vec::new();
    for queue in client.queues().await? {
        let inspect = client.inspect(&queue.name);
        jobs.extend(
            inspect.jobs(JobState::Scheduled).order(Order::Next).limit(1_000).page().await?.items,
        );
    }
    let Some(first) = jobs.iter().filter_map(|job| job.at).min() else { return Ok(false) };
    jobs.retain(|job| job.at.is_some_and(|at| at <= first + TOGETHER_MS));
    // Each comes to the front, so the earliest comes last.
    jobs.sort_by_key(|job| std::cmp::Reverse(job.at));
    for job in jobs {
        client.inspect(&job.queue).change(std::slice::from_ref(&job), &Action::Promote).await?;
    }
    Ok(true)
}
