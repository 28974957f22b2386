//! How a process knows that it runs bodies for a worker.

use std::sync::OnceLock;

/// What the name of such a process begins with, which is the first of its arguments. An environment variable would also be there in the
/// programs that a body starts.
const MARK: &str = "hworker-child-of-";

/// Whether this process runs the bodies of jobs with `isolate` for a worker that started it. `main` runs in it as in the worker, up to
/// [`run_all`](crate::run_all) or [`Worker::run`](crate::Worker::run), which do not return there. For what must not happen twice:
///
/// ```no_run
/// # async fn migrate() {}
/// # #[tokio::main]
/// # async fn main() -> Result<(), hworker::Error> {
/// if !hworker::is_child() {
///     migrate().await;
/// }
/// hworker::run_all().await
/// # }
/// ```
///
/// The standard input of such a process belongs to hworker.
#[must_use]
pub fn is_child() -> bool {
    of_worker().is_some()
}

/// The identity of the worker that started this process for its bodies, if one did.
pub(super) fn of_worker() -> Option<&'static str> {
    static OF_WORKER: OnceLock<Option<String>> = OnceLock::new();
    let found = OF_WORKER.get_or_init(|| {
        let name = std::env::args_os().next()?.into_string().ok()?;
        let (parent, rest) = name.strip_prefix(MARK)?.split_once('/')?;
        let (identity, _) = rest.split_once('/')?;
        // A program that is started by hand under such a name has another parent.
        (parent == std::os::unix::process::parent_id().to_string()).then(|| identity.to_owned())
    });
    found.as_deref()
}

/// The name of a process for the bodies of a worker with this identity, of a program of this name.
pub(super) fn name(identity: &str, program: &str) -> String {
    format!("{MARK}{}/{identity}/{program}", std::process::id())
}
