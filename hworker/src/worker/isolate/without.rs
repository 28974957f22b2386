//! Systems on which no job type can have `isolate`.

use std::sync::Arc;

use crate::job::Definition;

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
        _: usize,
    ) -> Option<Arc<Self>> {
        None
    }

    pub(crate) fn scale(&self, _: usize) {
        match *self {}
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
