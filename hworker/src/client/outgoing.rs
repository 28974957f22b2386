//! Code of the user that sees every job before it is enqueued.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::envelope::describe;
use crate::error::{BoxError, Cause, Error};
use crate::guarded::guarded;
use crate::log::say;

/// A job that is about to be enqueued; [`ClientBuilder::outgoing`](super::ClientBuilder::outgoing) is told of it.
#[derive(Debug)]
pub struct Outgoing<'a> {
    job: &'a str,
    queue: &'a str,
    tags: Vec<String>,
    meta: Map<String, Value>,
    problems: Vec<String>,
}

impl Outgoing<'_> {
    /// The name of its type.
    #[must_use]
    pub fn job(&self) -> &str {
        self.job
    }

    /// The queue that it goes to.
    #[must_use]
    pub fn queue(&self) -> &str {
        self.queue
    }

    /// Adds a tag, as [`Enqueue::tag`](crate::Enqueue::tag).
    pub fn tag(&mut self, tag: impl Into<String>) {
        self.tags.push(tag.into());
    }

    /// Notes something beside the arguments, as [`Enqueue::meta`](crate::Enqueue::meta); what the call itself notes by this name stands.
    pub fn meta(&mut self, name: impl Into<String>, value: impl Serialize) {
        let name = name.into();
        match serde_json::to_value(value) {
            Ok(value) => _ = self.meta.insert(name, value),
            Err(error) => self.problems.push(format!("meta `{name}`: {}", describe(&error))),
        }
    }
}

/// What such code adds to a job.
#[derive(Debug, Default)]
pub(crate) struct Added {
    pub(crate) tags: Vec<String>,
    pub(crate) meta: Map<String, Value>,
    pub(crate) problems: Vec<String>,
}

type Function = Box<dyn Fn(&mut Outgoing<'_>) -> Result<(), BoxError> + Send + Sync>;

/// All such code of a client.
#[derive(Default)]
pub(super) struct AllOutgoing(Vec<Function>);

impl AllOutgoing {
    pub(super) fn add(&mut self, function: Function) {
        self.0.push(function);
    }

    /// What is added to a job of this type for this queue; `None` where nothing is to be asked.
    pub(super) fn ask(&self, job: &str, queue: &str) -> Result<Option<Added>, Error> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let empty =
            || Outgoing { job, queue, tags: Vec::new(), meta: Map::new(), problems: Vec::new() };
        let mut added = Added::default();
        for function in &self.0 {
            let (mut one, mut said) = (empty(), Ok(()));
            if !guarded(|| said = function(&mut one)) {
                say!(
                    WARN,
                    { job = job.to_owned() },
                    job.name = job,
                    "a function of `outgoing` has panicked; the job is enqueued without what it adds"
                );
                continue;
            }
            said.map_err(|why| Error::Vetoed { job: job.to_owned(), source: Cause::new(why) })?;
            added.tags.append(&mut one.tags);
            added.meta.append(&mut one.meta);
            added.problems.append(&mut one.problems);
        }
        Ok(Some(added))
    }
}

impl fmt::Debug for AllOutgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AllOutgoing({})", self.0.len())
    }
}
