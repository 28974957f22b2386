//! What is done by hand, for the page and the REST API alike: by somebody who may, and never without an entry in the audit.

pub(super) mod batches;
pub(super) mod broadcasts;
pub(super) mod broken;
pub(super) mod cron;
pub(super) mod deploys;
mod edit;
mod enqueue;
mod jobs;
pub(super) mod limits;
pub(super) mod queues;
pub(super) mod workers;

pub(super) use broken::find_broken;
pub(super) use edit::check_edit;
pub(super) use enqueue::{Enqueued, NewJob, enqueue};
pub(super) use jobs::{Report, Which, change, change_one};
pub(super) use limits::{OfLimit, Values};
pub(super) use queues::Cleared;

use super::guard::Asked;
use super::problem::Problem;
use super::site::Site;
use crate::audit::AuditEntry;

impl Site {
    /// What is told to somebody who may not do this.
    pub(super) fn check_may(
        &self,
        asked: &Asked,
        action: &str,
        queue: &str,
    ) -> Result<(), Problem> {
        if self.may(asked, action, queue) {
            return Ok(());
        }
        let who = &asked.operator;
        let of = if queue.is_empty() { String::new() } else { format!(" on the queue {queue}") };
        Err(Problem::forbidden(format!("{} ({}) may not {action}{of}", who.name, who.role.name())))
    }

    /// Does something that stands in the audit before, and with what came of it after. `doing` gives a value and the result in words.
    pub(super) async fn act<T>(
        &self,
        asked: &Asked,
        action: &str,
        queue: &str,
        what: &str,
        doing: impl Future<Output = Result<(T, String), Problem>>,
    ) -> Result<T, Problem> {
        self.check_may(asked, action, queue)?;
        let entry = AuditEntry::new(&asked.operator.name, action, queue, what);
        self.client.audit(&entry).await?;
        // On the heap, as some of these are large.
        let done = Box::pin(doing).await;
        let result = match &done {
            Ok((_, result)) => result.clone(),
            Err(problem) => format!("failed: {}", problem.title),
        };
        tracing::info!(
            target: "hworker::audit",
            who = entry.who, action, job.queue = queue, what, result, "done by hand"
        );
        // What is done is done.
        let _ = self.client.audit(&entry.with_result(result)).await;
        done.map(|(value, _)| value)
    }
}
