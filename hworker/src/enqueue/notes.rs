//! What is noted beside the arguments.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::client::{Added, Client};
use crate::context::Context;
use crate::envelope::{JobId, check_meta, describe};
use crate::error::Error;

/// What is noted beside the arguments.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) tags: Vec<String>,
    pub(super) meta: Map<String, Value>,
    pub(super) problems: Vec<String>,
    pub(super) parent: Option<JobId>,
}

/// The job whose body enqueues others.
#[derive(Clone)]
pub(super) struct Parent {
    id: JobId,
    meta: Map<String, Value>,
}

impl From<&Context> for Parent {
    fn from(context: &Context) -> Self {
        Self { id: context.id().clone(), meta: context.all_meta() }
    }
}

impl Notes {
    /// What is noted by name, as JSON, if anything is; else what is wrong with it.
    pub(super) fn meta(&self) -> Result<Option<Box<RawValue>>, String> {
        if self.meta.is_empty() {
            return Ok(None);
        }
        let meta = serde_json::value::to_raw_value(&self.meta).map_err(|error| describe(&error))?;
        check_meta(meta.get()).map(|()| Some(meta))
    }

    /// With what code of the user has to add to a job of this type, for this queue.
    pub(super) fn add_outgoing(
        to: &mut Option<Box<Self>>,
        client: &Client,
        job: &str,
        queue: &str,
    ) -> Result<(), Error> {
        if let Some(added) = client.ask_outgoing(job, queue)? {
            to.get_or_insert_default().add(added);
        }
        Ok(())
    }

    /// With what the client adds. What the call itself says stands.
    pub(super) fn add(&mut self, added: Added) {
        let Added { tags, meta, problems } = added;
        let new = tags.into_iter().filter(|tag| !self.tags.contains(tag)).collect::<Vec<_>>();
        self.tags.extend(new);
        self.add_meta(meta);
        self.problems.extend(problems);
    }

    /// With what is noted of its parent. What the call itself says stands.
    pub(super) fn inherit(&mut self, parent: Parent) {
        self.parent = Some(parent.id);
        self.add_meta(parent.meta);
    }

    fn add_meta(&mut self, meta: Map<String, Value>) {
        for (name, value) in meta {
            self.meta.entry(name).or_insert(value);
        }
    }
}
