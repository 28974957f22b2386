//! What the body of a job reports while it runs.

use super::{Doing, Inspect, JobInfo};
use crate::envelope::JobId;
use crate::error::Error;
use crate::reports::{LogLine, Progress, Reports};
use crate::store::FaultKind;

impl Inspect {
    /// How far a job is, as its body said it last with [`Context::progress`](crate::Context::progress); `None` where it has not. It is kept for an hour
    /// after the job is done, for 30 days after it has failed; 7 days where the last attempt reported nothing. Of a job for each worker, that of one
    /// is kept under `<id>@<worker>`.
    ///
    /// ```no_run
    /// # async fn demo(client: hworker::Client, id: hworker::JobId) -> Result<(), hworker::Error> {
    /// if let Some(progress) = client.inspect("media").progress(&id).await? {
    ///     println!("{} of {}, {:?} left", progress.done, progress.of, progress.time_left());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn progress(&self, id: &JobId) -> Result<Option<Progress>, Error> {
        let ask = |shard, on| async move {
            Ok(self.client.reports(shard, &on, id.as_str()).await?.progress)
        };
        self.first(Doing::Look, ask).await
    }

    /// The lines that the body of a job wrote with [`Context::log`](crate::Context::log), the oldest first: the newest 1,000 of all its attempts. They are
    /// kept as long as its [progress](Self::progress).
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn log(&self, id: &JobId) -> Result<Vec<LogLine>, Error> {
        let ask = |shard, on| async move {
            let lines = self.client.log_of(shard, &on, id.as_str()).await?;
            Ok(Some(lines).filter(|lines| !lines.is_empty()))
        };
        Ok(self.first(Doing::Look, ask).await?.unwrap_or_default())
    }

    /// The job with what it has reported.
    pub(super) async fn with_reports(
        &self,
        id: &JobId,
        mut job: JobInfo,
    ) -> Result<JobInfo, Error> {
        let Some(shard) = self.shards.get(job.guard.shard) else { return Ok(job) };
        let ask = |shard, on| async move { self.client.reports(shard, &on, id.as_str()).await };
        let Reports { progress, lines } = match self.ask(shard, ask).await {
            // The user may look at jobs, and not at what they report.
            Err(fault) if fault.kind == FaultKind::Denied => Reports::default(),
            found => found.map_err(|fault| self.error(Doing::Look, fault))?,
        };
        (job.progress, job.log_lines) = (progress, lines);
        Ok(job)
    }
}
