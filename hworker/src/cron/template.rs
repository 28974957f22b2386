//! What is enqueued at each run.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::backoff::CallBackoff;
use crate::client::Client;
use crate::encryption::{Owner, What};
use crate::envelope::{check_meta, check_tags, describe};
use crate::error::{Cause, Error};
use crate::job::Definition;
use crate::limit::{AtOnce, List, WhenFull, terms, written_key};
use crate::priority::Priority;
use crate::unique::{KeyLock, Unique, of_arguments};

use super::entry::{Entry, PREFIX};

/// What is enqueued at each run, as the program wrote it.
#[derive(Default)]
pub(crate) struct Template {
    /// None where the job is known by its name alone.
    pub(crate) definition: Option<&'static Definition>,
    pub(crate) job: Cow<'static, str>,
    pub(crate) args: Option<Box<RawValue>>,
    /// Of which version they are, if not of the first.
    pub(crate) args_v: Option<u32>,
    pub(crate) tags: Vec<String>,
    pub(crate) meta: Option<Box<RawValue>>,
    pub(crate) max_attempts: Option<u32>,
    /// In ms.
    pub(crate) timeout: Option<u64>,
    pub(crate) backoff: Option<String>,
    /// In ms.
    pub(crate) expires_in: Option<u64>,
    pub(crate) priority: Option<Priority>,
    pub(crate) unique: Option<Unique>,
    /// Where the call says so.
    pub(crate) queue: Option<String>,
    /// What was wrong with the call.
    pub(crate) problems: Vec<String>,
}

impl Template {
    /// Of a job type, with its arguments as JSON.
    pub(crate) fn of(
        definition: &'static Definition,
        args: serde_json::Result<Box<RawValue>>,
    ) -> Self {
        let mut problems = Vec::new();
        let args = args.map_err(|error| problems.push(describe(&error))).ok();
        let (job, args_v) = (Cow::Borrowed(definition.name), definition.args_v());
        Self { definition: Some(definition), job, args, args_v, problems, ..Self::default() }
    }

    /// Fills the entry of this name with it; what is wrong goes to `problems`.
    pub(super) fn fill(
        mut self,
        client: &Client,
        (queue, name): (&str, &str),
        entry: &mut Entry,
        problems: &mut Vec<String>,
    ) -> Result<(), Error> {
        problems.append(&mut self.problems);
        if let Some(own) = self.queue.take().filter(|own| own != queue) {
            problems.push(format!(
                "the job is for the queue `{own}`, and the entry for `{queue}`; write `client.control(\"{own}\")`"
            ));
        }
        if self.max_attempts == Some(0) {
            problems.push("max_attempts is 0; a job has at least one attempt".into());
        }
        if self.expires_in == Some(0) {
            problems.push("the job expires after no time; write how long it may wait".into());
        }
        if self.timeout == Some(0) {
            problems.push("timeout is 0; write how long an attempt may run".into());
        }
        if let Some(Err(why)) = self.backoff.as_deref().map(CallBackoff::check) {
            problems.push(format!("backoff: {why}"));
        }
        problems.extend(check_tags(&self.tags).err());
        problems.extend(self.meta.as_deref().and_then(|meta| check_meta(meta.get()).err()));
        let Some(args) = self.args.take().filter(|args| args.get().starts_with('{')) else {
            problems.push("the arguments are an object by name, as in `{\"user_id\":42}`".into());
            return Ok(());
        };
        let type_priority = self.definition.map(|definition| definition.priority);
        let priority = self.priority.or(type_priority).unwrap_or_default();
        let mut list = List::from(priority);
        if let Some(definition) = self.definition {
            let of_args = (definition.limit_values)(args.get());
            let values = of_args.map_err(|error| Error::Encode {
                job: definition.name,
                source: Cause::new(format!("no worker could read them: {}", describe(&error))),
            })?;
            let is_of_arguments = |limit: &crate::limit::Limit| {
                limit.when_full != WhenFull::Wait || limit.at_once == AtOnce::OfArguments
            };
            if definition.limits.iter().any(is_of_arguments) {
                problems.push(
                    "a job of a type with `when_full`, or with a limit from its arguments, does not run by a schedule; enqueue it from one \
                     that does"
                        .into(),
                );
            }
            let key = values.key.map(|key| client.written_key(definition, &key)).transpose()?;
            list = List::of(priority, definition.limits, key.as_deref());
            if list.key().is_some() {
                entry.terms = terms(definition.limits, None);
            }
            entry.lock = self.lock(client, definition, args.get())?;
        } else if let Some(unique) = &self.unique {
            problems.extend(unique.check().err());
            entry.lock = Some(unique.lock(&self.job, &written_key(unique.key())));
        }
        let list = list.by_id();
        entry.list = list.to_string();
        entry.priority = self.priority.filter(|priority| Some(*priority) != type_priority);
        let of_type = self.definition.and_then(|definition| definition.policy.expires_ms);
        entry.expires_in = self.expires_in.or(of_type);
        entry.job = self.job.into_owned();
        entry.args_v = self.args_v;
        entry.tags = self.tags;
        entry.meta = self.meta;
        entry.max_attempts = self.max_attempts;
        entry.timeout = self.timeout;
        entry.backoff = self.backoff;
        entry.args = args.clone();
        entry.hash = of_arguments(entry).unwrap_or_default();
        entry.args = match self.definition.map(|definition| client.keys_for(definition)) {
            None => args,
            Some(keys) => match keys? {
                None => args,
                Some(keys) => {
                    entry.hash = keys.digest(&entry.hash).unwrap_or_default();
                    // As that of a run: the time is not part of what is authenticated.
                    let id = format!("{PREFIX}{name}:0");
                    let owner = Owner { what: What::Args, job: &entry.job, id: &id };
                    let sealed = keys.seal(&args, owner).and_then(|(sealed, _)| {
                        serde_json::value::to_raw_value(&sealed).map_err(Into::into)
                    });
                    let job = self.definition.map_or("", |definition| definition.name);
                    sealed.map_err(|source| Error::Encode { job, source: Cause::new(source) })?
                }
            },
        };
        Ok(())
    }

    /// The key that its runs hold, where they are unique.
    fn lock(
        &self,
        client: &Client,
        definition: &Definition,
        args: &str,
    ) -> Result<Option<KeyLock>, Error> {
        if let Some(unique) = &self.unique {
            let key = client.written_key(definition, unique.key())?;
            return Ok(Some(unique.lock(definition.name, &key)));
        }
        let Some(uniqueness) = &definition.unique else { return Ok(None) };
        // That the arguments can be read is known by now.
        let Some(key) = (definition.unique_key)(args).ok().flatten() else { return Ok(None) };
        Ok(Some(uniqueness.lock(&client.written_key(definition, &key)?)))
    }
}
