//! By what a job is known beside its arguments: an id of the caller's, and the key that it holds.

use crate::client::Client;
use crate::envelope::JobId;
use crate::error::Error;
use crate::job::Job;
use crate::limit::{AtOnce, WhenFull};
use crate::store::Due;
use crate::unique::{KeyLock, Unique, own_id};

/// What a call says of it, whatever the type says.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) id: Option<String>,
    pub(super) unique: Option<Unique>,
}

/// What holds for one job.
#[derive(Default)]
pub(super) struct Known {
    pub(super) id: Option<JobId>,
    /// None where it is known by nothing.
    pub(super) lock: Option<KeyLock>,
    /// It waits for others to come.
    pub(super) put_off: Option<Due>,
}

impl Known {
    /// Of a job, and what is wrong with it.
    pub(super) fn of<J: Job>(
        client: &Client,
        job: &J,
        asked: Option<&Asked>,
        problems: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let mut known = Self::default();
        let definition = J::DEFINITION;
        if let Some(id) = asked.and_then(|asked| asked.id.as_deref()) {
            known.id = own_id(id).map_err(|why| problems.push(why)).ok();
            known.lock = Some(KeyLock::default());
        }
        match (asked.and_then(|asked| asked.unique.as_ref()), &definition.unique) {
            (Some(unique), _) => {
                problems.extend(unique.check().err());
                let key = client.written_key(definition, unique.key())?;
                known.lock = Some(unique.lock(J::NAME, &key));
            }
            (None, Some(uniqueness)) => {
                // Without a key it is not unique.
                if let Some(key) = job.unique_key() {
                    known.lock = Some(uniqueness.lock(&client.written_key(definition, &key)?));
                    known.put_off = uniqueness.debounce.map(|(wait, _)| Due::In(wait));
                }
            }
            (None, None) => {}
        }
        let is_of_arguments = definition
            .limits
            .iter()
            .any(|limit| limit.when_full != WhenFull::Wait || limit.at_once == AtOnce::OfArguments);
        if known.lock.is_some() && is_of_arguments {
            problems.push(
                "a job of a type with `when_full`, or with a limit from its arguments, is not unique and has no id of its own".into(),
            );
        }
        Ok(known)
    }
}
