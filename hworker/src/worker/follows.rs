//! What is enqueued when a job has failed for good.

use std::any::Any;
use std::fmt;

use super::attempt::panic;
use crate::client::Client;
use crate::envelope::tags;
use crate::error::BoxError;
use crate::job::Failed;
use crate::log::{one_line, say};
use crate::worker::attempt::decide::Evidence;
use crate::worker::state::Job;

type Function = Box<dyn Fn(Failed, &dyn Any) -> Result<Vec<u8>, BoxError> + Send + Sync>;

/// The one for all types that have none of their own.
#[derive(Default)]
pub(crate) struct OnAnyFailed(Option<(&'static str, Function)>);

impl OnAnyFailed {
    /// Makes jobs of the type with this name.
    pub(crate) fn of(name: &'static str, function: Function) -> Self {
        Self(Some((name, function)))
    }

    /// The envelope of what is enqueued for this job.
    pub(crate) fn follows(
        &self,
        client: &Client,
        job: &Job,
        (queue, at, evidence): (&str, u64, &Evidence),
    ) -> Option<Vec<u8>> {
        let own = job.definition.on_failed;
        // What follows is followed by nothing: it might fail each time.
        let any = self.0.as_ref().filter(|(name, _)| *name != job.definition.name);
        if own.is_none() && any.is_none() {
            return None;
        }
        let failed = Failed {
            id: job.id.clone(),
            job: job.definition.name.to_owned(),
            queue: queue.to_owned(),
            attempt: job.number,
            kind: evidence.kind.to_owned(),
            message: evidence.message.clone(),
            at,
            tags: tags(&job.payload),
        };
        // It is code of the user.
        let made = panic::catch(|| match (own, any) {
            (Some(own), _) => own(failed, client),
            (None, Some((_, any))) => any(failed, client),
            (None, None) => Err("there is none".into()),
        });
        let why = match made {
            Ok(Ok(envelope)) => return Some(envelope),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("it panicked: {}", panic.message),
        };
        say!(ERROR, { id = job.id.clone(), name = job.definition.name, why = one_line(&why) },
            job.id = %id, job.name = name, "the job has failed, and what `on_failed` says cannot be enqueued: {why}");
        None
    }
}

impl fmt::Debug for OnAnyFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnAnyFailed").field(&self.0.is_some()).finish()
    }
}
