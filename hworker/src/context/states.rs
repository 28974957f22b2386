//! The states of a worker, and the body that may take them.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tokio::task::futures::TaskLocalFuture;

/// The states of a worker, by type.
#[derive(Default, Clone)]
pub(crate) struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, state: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(state));
    }

    pub(crate) fn has(&self, id: TypeId) -> bool {
        self.0.contains_key(&id)
    }

    pub(super) fn get<T: Clone + 'static>(&self) -> Option<T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref().cloned()
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "States({})", self.0.len())
    }
}

tokio::task_local! {
    /// The states of the worker whose body runs on this thread.
    static OF_BODY: Arc<States>;
}

/// The task of a body, or a task that a body started, in a worker with these states.
pub(crate) fn in_body_of<F: Future>(
    states: Arc<States>,
    task: F,
) -> TaskLocalFuture<Arc<States>, F> {
    OF_BODY.scope(states, task)
}

/// As [`in_body_of`], for a body that blocks its thread.
pub(crate) fn blocks_in_body_of<T>(states: Arc<States>, body: impl FnOnce() -> T) -> T {
    OF_BODY.sync_scope(states, body)
}

/// A state of the worker whose body this is called in.
pub(crate) fn state_in_body<T: Clone + 'static>() -> Option<T> {
    OF_BODY.try_with(|states| states.get()).ok().flatten()
}
