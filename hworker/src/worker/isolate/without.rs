//! Systems on which no job type can have `isolate`.

use std::sync::Arc;

use super::Isolated;
use crate::context::Context;
use crate::error::Error;
use crate::job::{Definition, Isolation};
use crate::worker::state::{Core, Job};

/// Whether this process runs the bodies of jobs with `isolate` for a worker that started it; on this system none does.
#[must_use]
pub fn is_child() -> bool {
    false
}

/// There is none.
#[derive(Debug)]
pub(crate) enum Pool {}

impl Pool {
    pub(crate) fn of<'a>(
        _: &(impl Iterator<Item = &'a Definition> + Clone),
        _: &str,
    ) -> Option<Arc<Self>> {
        None
    }

    pub(crate) fn why_not(&self) -> Option<String> {
        match *self {}
    }

    pub(crate) async fn warm_up(&self) -> Result<(), String> {
        match *self {}
    }

    pub(crate) fn clear(&self) {
        match *self {}
    }
}

pub(crate) async fn run(core: &Core, _: &Job, _: &Context, _: Isolation) -> Isolated {
    match core.children.as_deref() {
        Some(pool) => match *pool {},
        None => Isolated::NoProcess("this system has none".to_owned()),
    }
}

pub(crate) async fn serve(_: Arc<Core>) -> Result<(), Error> {
    Ok(())
}
