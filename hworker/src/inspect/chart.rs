//! What a queue did over a time.

use std::collections::BTreeMap;

use super::Inspect;
use crate::charts::{Chart, ChartPoint, Window};
use crate::error::Error;
use crate::time::millis;

impl Inspect {
    /// What jobs of the queue did over a time: how many succeeded, were tried again and failed, how long they ran and had waited, by their types.
    ///
    /// ```no_run
    /// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
    /// let hour = client.inspect("mail").chart(hworker::Window::Hour).await?;
    /// for point in &hour.points {
    ///     let all = point.total();
    ///     println!("{} {} ended, 95 of 100 ran up to {:?}", point.at, all.ended(), all.run.quantile(0.95));
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn chart(&self, window: Window) -> Result<Chart, Error> {
        let of_shards =
            self.each(|shard, on| async move { shard.chart_points(&on, window).await }).await?;
        // Between the looks at two shards a point may have begun.
        let mut points: BTreeMap<u64, ChartPoint> = BTreeMap::new();
        for (at, fields) in of_shards.into_iter().flatten() {
            let point =
                points.entry(at).or_insert_with(|| ChartPoint { at, ..ChartPoint::default() });
            for (name, value) in &fields {
                point.add(name, value);
            }
        }
        Ok(Chart { step_ms: millis(window.step()), points: points.into_values().collect() })
    }
}
