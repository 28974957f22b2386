//! What is kept of a job that keeps its result, however it ends.

use serde_json::value::{RawValue, to_raw_value};

use crate::encryption::{Owner, What};
use crate::envelope::{describe, keeps};
use crate::job_state::JobState;
use crate::kept::{Kept, KeptRecord, LARGEST};
use crate::outcome::ReturnValue;
use crate::worker::attempt::decide::Transition;
use crate::worker::state::{Consumer, Core, Job};

/// What is kept where the job ends with this transition, and its result is kept.
pub(super) fn of(
    core: &Core,
    consumer: &Consumer,
    job: &Job,
    now: u64,
    transition: &Transition,
) -> Option<Box<Kept>> {
    let ms = job.keep?;
    let (state, evidence) = match transition {
        Transition::Ack(_) => (JobState::Done, None),
        Transition::Fail(evidence) => (JobState::Failed, Some(evidence)),
        Transition::Cancel(evidence) => (JobState::Cancelled, Some(evidence)),
        Transition::Expire(evidence) => (JobState::Expired, Some(evidence)),
        Transition::Retry(..) | Transition::Snooze(_) | Transition::SlowDown(_) => return None,
    };
    let mut record = KeptRecord::new(state, now);
    record.job = Some(job.definition.name.to_owned());
    record.attempt = Some(job.number);
    record.worker = Some(consumer.worker.to_string());
    if let Some(evidence) = evidence {
        record = record.because(evidence.kind, &evidence.message);
        // An error that cannot be kept has its text.
        record.error = evidence.error.as_ref().and_then(|error| stored(core, job, error).ok());
    }
    match transition {
        Transition::Ack(Some(ReturnValue(Ok(json)))) if json.len() > LARGEST => {
            // It need not be encrypted to be left out.
            record.too_large = Some(json.len() as u64);
        }
        Transition::Ack(Some(value)) => record = record.with(stored(core, job, value)),
        // Its type does not keep results any more, or does not yet.
        Transition::Ack(None) => record = record.with(Ok(RawValue::NULL.to_owned())),
        _ => {}
    }
    record.into_kept(job.id.as_str(), ms)
}

/// A value as it is stored: encrypted where the arguments of the type are.
fn stored(core: &Core, job: &Job, value: &ReturnValue) -> Result<Box<RawValue>, String> {
    let json = RawValue::from_string(value.0.clone()?).map_err(|error| describe(&error))?;
    let keys = core.client.keys_for(job.definition).map_err(|error| error.to_string())?;
    let Some(keys) = keys else { return Ok(json) };
    let owner = Owner { what: What::Result, job: job.definition.name, id: job.id.as_str() };
    let (sealed, _) = keys.seal(&json, owner).map_err(|error| error.to_string())?;
    to_raw_value(&sealed).map_err(|error| describe(&error))
}

/// What is kept of a job that is broken: its payload says whether its result is kept.
pub(crate) fn of_broken(now: u64, payload: &[u8], reason: &str) -> Option<Box<Kept>> {
    let (id, ms) = keeps(payload)?;
    KeptRecord::new(JobState::Broken, now).because("broken", reason).into_kept(id.as_str(), ms)
}
