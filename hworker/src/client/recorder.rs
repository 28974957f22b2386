//! What a test enqueues, which is kept in the process in place of a server. It is found by the runtime of the test, so that tests that run beside each
//! other have each their own, also in the tasks that they start.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, Id};

use super::Client;
use crate::envelope::JobId;
use crate::error::Error;
use crate::priority::Priority;
use crate::store::Due;

static ALL: LazyLock<Mutex<HashMap<Id, Arc<Recorder>>>> = LazyLock::new(Mutex::default);

tokio::task_local! {
    static CARRIED: Option<Arc<Recorder>>;
}

/// A job that was enqueued.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub(crate) id: JobId,
    pub(crate) job: String,
    pub(crate) queue: String,
    pub(crate) due: Option<Due>,
    pub(crate) priority: Priority,
    pub(crate) envelope: Vec<u8>,
    /// Where it goes, if not to the server of the test.
    pub(crate) client: Client,
}

type Sending = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// Sends what was recorded, by this client.
pub(crate) type Unsent = Box<dyn FnOnce(Client) -> Sending + Send>;

/// Runs what was recorded.
pub(crate) type Inline =
    Arc<dyn Fn(Recorded) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// What one test enqueues.
#[derive(Default)]
pub(crate) struct Recorder(Mutex<State>);

#[derive(Default)]
pub(crate) struct State {
    pub(crate) recorded: Vec<Recorded>,
    /// Those of them that no server has.
    pub(crate) unsent: Vec<Unsent>,
    /// Where they go, once there is one.
    pub(crate) server: Option<Client>,
    pub(crate) inline: Option<Inline>,
}

impl Recorder {
    /// Records what is enqueued in this runtime, until the guard is dropped.
    pub(crate) fn install(self: &Arc<Self>, runtime: Id) -> impl Drop + use<> {
        struct Installed(Id);
        impl Drop for Installed {
            fn drop(&mut self) {
                all().remove(&self.0);
            }
        }
        all().insert(runtime, Arc::clone(self));
        Installed(runtime)
    }

    /// That of the runtime that this is called in, or from which it came here.
    pub(crate) fn here() -> Option<Arc<Self>> {
        let carried = CARRIED.try_with(Option::clone).ok().flatten();
        carried.or_else(|| all().get(&Handle::try_current().ok()?.id()).cloned())
    }

    /// A future that runs in another runtime, with the recorder of this one.
    pub(crate) fn carried<F: Future>(future: F) -> impl Future<Output = F::Output> + use<F> {
        CARRIED.scope(Self::here(), future)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a job; true where it has been sent already, or is to be sent by who enqueues it.
    pub(crate) async fn keep(&self, job: Recorded, unsent: Unsent) -> bool {
        let inline = {
            let mut state = self.state();
            state.recorded.push(job.clone());
            if state.server.is_some() {
                return true;
            }
            let Some(inline) = state.inline.clone() else {
                state.unsent.push(unsent);
                return false;
            };
            inline
        };
        inline(job).await;
        false
    }
}

impl Client {
    /// That of the server of the test that this runs in, if it has one.
    pub(super) fn of_test() -> Option<Self> {
        Recorder::here()?.state().server.clone()
    }

    /// This client, or that of the server of the test that this runs in.
    pub(crate) fn or_of_test(self) -> Self {
        Self::of_test().unwrap_or(self)
    }
}

fn all() -> MutexGuard<'static, HashMap<Id, Arc<Recorder>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({})", self.state().recorded.len())
    }
}
