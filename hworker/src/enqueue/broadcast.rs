//! Enqueueing a job that each worker runs once, or each of so many.

use std::sync::Arc;

use super::ready::{Placed, Ready};
use crate::error::Error;
use crate::job::{Definition, OnFault};
use crate::store::{Connection, Each, MOST_BROADCASTS};

/// For so long workers begin it, in ms, where nobody says.
const LASTS_MS: u64 = 300_000;

/// And for no longer than ten years: the server refuses a time that it cannot count.
const LONGEST_MS: u64 = 3_650 * 86_400_000;

const NO_WORKER: &str = "`.on_each_of(0)` is no worker; write how many are to run the job";

const NOT_LATER: &str =
    "a job for each worker begins at once: leave out `.front()`, the priority and the delay";

const NOT_ALONE: &str = "a job for each worker runs beside itself: its type has no limits and is not unique, and it has no id of its own";

const NO_REPLACEMENT: &str = "a type with `on_crash = \"fail\"` is not for so many workers, as another would take the place of one that died; \
     `.on_each()` is for all";

const NO_RESULT: &str =
    "a job for each worker has no result that is kept: its type has no `keep_result`";

pub(super) const NOT_IN_BULK: &str =
    "a job for each worker is enqueued by itself: call its `.enqueue()`";

/// Which workers run a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workers {
    All,
    SoMany(u32),
}

impl Workers {
    /// What the server is told, and what is wrong with it. `is_placed`: the job has a time, or a place in its list; `is_alone`: a key or an id, so
    /// that it must not run beside itself.
    pub(super) fn each(
        self,
        is_placed: bool,
        is_alone: bool,
        expires_in: Option<u64>,
        problems: &mut Vec<String>,
    ) -> Each {
        // The key may be that of its type, of which this was said.
        let is_alone = is_alone && problems.iter().all(|why| why != NOT_ALONE);
        let wrong =
            [(self == Self::SoMany(0), NO_WORKER), (is_placed, NOT_LATER), (is_alone, NOT_ALONE)];
        problems.extend(wrong.into_iter().filter(|(is, _)| *is).map(|(_, why)| why.to_owned()));
        let most = if let Self::SoMany(most) = self { most } else { 0 };
        Each { most, lasts: expires_in.unwrap_or(LASTS_MS).min(LONGEST_MS) }
    }

    /// What is wrong with the type of the job.
    pub(super) fn check_type(self, definition: &Definition, problems: &mut Vec<String>) {
        if !definition.limits.is_empty() || definition.unique.is_some() {
            problems.push(NOT_ALONE.into());
        }
        if definition.keep_ms.is_some() {
            problems.push(NO_RESULT.into());
        }
        if matches!(self, Self::SoMany(_)) && definition.policy.on_crash == OnFault::Fail {
            problems.push(NO_REPLACEMENT.into());
        }
    }
}

impl Ready {
    /// Of a job for each worker, which waits in the first shard of a queue that is spread: a worker serves all of them.
    pub(super) async fn broadcast(self, each: Each) -> Result<Placed, Error> {
        let mut shards = self.client.shards(&self.queue, self.client.limits()).into_iter();
        let Some(queue) = &shards.next() else { return Err(Error::config("it has no queue")) };
        let (named, envelope) = ((self.id.as_str(), &*self.job), &*self.envelope);
        let send = |connection: Connection, within| async move {
            let sent = queue.broadcast(&connection, named, each, envelope, within);
            let both = tokio::join!(biased; sent, connection.confirm(1));
            both.1.and(both.0)
        };
        match self.client.until_sent(queue, self.confirms, send).await {
            Ok(true) => Ok(Placed::new(self.id, Arc::clone(&queue.label), self.client)),
            Ok(false) => {
                let most = MOST_BROADCASTS;
                let doing = format!(
                    "{}, for each worker (a queue keeps {most} of these until they expire; a shorter `expires_in`, or `hworker broadcasts cancel`, makes room)",
                    self.doing()
                );
                Err(Error::Full { doing, key: None, waiting: most, max_waiting: most })
            }
            Err(fault) => {
                let fault = fault.at(self.client.address());
                Err(fault.into_error_of(self.id.clone(), |_| self.doing()))
            }
        }
    }
}
