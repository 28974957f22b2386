//! What a worker does, as figures for a monitoring system.

mod facade;
mod now;
mod text;

pub(crate) use facade::{Facade, tell_last};

use crate::worker::report::health::Health;
use now::Now;

impl Health {
    /// What the worker does, as text in the format OpenMetrics 1.0, which Prometheus reads: for a web server of your own. Its content type
    /// is `application/openmetrics-text; version=1.0.0; charset=utf-8`. With [`WorkerBuilder::health`](crate::WorkerBuilder::health) the
    /// worker answers `GET /metrics` with it.
    ///
    /// Counters begin when the worker is built, and go on when it is over. It asks no server, and costs the jobs nothing. Its labels are
    /// names of queues that the worker serves and of job types that it knows; `docs/metrics.md` has the list.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), hworker::Error> {
    /// let worker = hworker::Worker::builder().build()?;
    /// let health = worker.health();
    /// tokio::spawn(async move {
    ///     // In the handler of `GET /metrics`:
    ///     println!("{}", health.metrics());
    /// });
    /// worker.run().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn metrics(&self) -> String {
        let session = self.running_session();
        let now = session.map_or_else(Now::default, |session| Now::of(&session));
        text::text(self.totals.read(), now)
    }
}
