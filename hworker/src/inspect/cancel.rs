//! The record of a job that is cancelled before it runs.

use super::job::JobInfo;
use crate::envelope::{Rewrite, VERSION};
use crate::job_state::JobState;
use crate::store::Duty;

/// Why it does not run.
pub(super) const CANCELLED: &str = "somebody cancelled it";

/// It does not run: its record, as a worker would write it.
pub(super) fn cancelled(job: &JobInfo, now: u64) -> Option<Duty> {
    let envelope = Rewrite::of(job.payload())?;
    let (name, id) = (job.job.clone()?, envelope.id());
    // A producer may have written any name, and it stands in the name of the record and of a counter.
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    let fits = (1..=100).contains(&name.len()) && name.chars().all(is_name);
    let name = if fits { name } else { "?".to_owned() };
    let record = serde_json::json!({
        "v": VERSION,
        "id": id,
        "job": name,
        "queue": job.queue,
        "outcome": JobState::Cancelled.name(),
        "kind": "cancelled",
        "message": CANCELLED,
        "ended_at": now,
        "attempts": job.attempt,
        "crashes": job.crashes,
        "envelope": serde_json::value::to_raw_value(&envelope).ok()?,
    });
    let record = serde_json::to_vec(&record).ok()?;
    Some(Duty::Cancel { job: name, id: id.as_str().to_owned(), record })
}
