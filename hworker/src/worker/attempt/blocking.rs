//! Runs bodies that block, each on a thread of its own.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::sleep_until;
use tracing::Span;

use crate::context::{Context, blocks_in_body_of};
use crate::log::say;
use crate::outcome::Returned;
use crate::worker::attempt::decide::Finish;
use crate::worker::attempt::panic::{self, Caught, Panic};
use crate::worker::state::{Core, Job};

/// How long a blocking body may run past its deadline before it is given up.
pub(crate) const BLOCKING_GRACE: Duration = Duration::from_secs(2);

pub(crate) type BlockingBody = Box<dyn FnOnce() -> Returned + Send>;

/// Runs a blocking body on a thread of its own: dropping the runtime would wait for a thread of tokio's pool. Returns `None` if it is
/// cancelled.
pub(crate) async fn run(
    mut body: Caught<BlockingBody>,
    span: Span,
    (job, context): (&Job, &Context),
    core: &Core,
) -> Option<Finish> {
    let name = job.definition.name;
    let (done, mut result) = oneshot::channel();
    let runtime = Handle::current();
    let counted = Arc::clone(&core.blocking_threads);
    let states = Arc::clone(&core.states);
    let spawned = std::thread::Builder::new().name(format!("hworker-{name}")).spawn(move || {
        let _runtime = runtime.enter();
        let result = body.take().map_or_else(
            || Err(vanished()),
            |body| panic::catch(|| span.in_scope(|| blocks_in_body_of(states, body))),
        );
        drop(counted);
        let _ = done.send(Caught::new(result));
    });
    if let Err(error) = spawned {
        let error = format!("no thread to run it on: {error}").into();
        return Some(Finish::Returned(Returned::Error(error)));
    }
    tokio::select! {
        biased;
        () = context.over() => return None,
        result = &mut result => {
            let result = result.ok().and_then(|mut result| result.take());
            return Some(result.unwrap_or_else(|| Err(vanished())).into());
        }
        () = sleep_until(context.deadline().into()) => {}
    }
    // A blocking body cannot be dropped. Its context tells it to end; after the grace its thread is left to itself.
    context.end();
    if tokio::time::timeout(BLOCKING_GRACE, result).await.is_err() {
        say!(
            WARN,
            { id = job.id.clone(), queue = context.queue().to_owned() },
            job.id = %id,
            job.name = name,
            job.queue = queue,
            "a blocking body did not return within {BLOCKING_GRACE:?} of its timeout; its thread is left to itself"
        );
    }
    Some(Finish::TimedOut(job.timeout))
}

/// The thread ended without a result. A panic does not cause this.
fn vanished() -> Panic {
    Panic { message: "the thread of the body ended".into(), place: None, backtrace: None }
}
