//! What became of a job that was submitted.

use crate::envelope::JobId;
use crate::job_state::JobState;

/// What became of a job that was submitted: [`Enqueue::submit`](crate::Enqueue::submit) gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// The id of the job that will run: this one's, or where another was kept, that one's.
    pub id: JobId,
    /// What became of it.
    pub submitted: Submitted,
}

/// What became of a job that was submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Submitted {
    /// It is enqueued.
    New,
    /// It is not enqueued: another with its key, or its id, is there. In which state that is; `None` where it has ended, and its period has
    /// not.
    Exists(Option<JobState>),
    /// It is enqueued, and has taken the place of this one, which will not run.
    Replaced(JobId),
    /// It is not enqueued: the other is due when it would have been.
    Moved,
    /// It is enqueued, and starts when this one has ended.
    Follows(JobId),
}
