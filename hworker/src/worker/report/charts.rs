//! Writes what this worker did into the charts of a queue.

use std::time::Duration;

use crate::charts::{Flush, Gauges};
use crate::store::{CALL_WITHIN, Connection, Fault, Queue, Serving};
use crate::worker::state::Consumer;

/// A worker that was heard of within this time serves the queue.
const HEARD_WITHIN: Duration = Duration::from_secs(10);

/// So long a worker that retires has for its last portions.
const LAST_WITHIN: Duration = Duration::from_millis(500);

/// Every ten seconds what jobs did since.
pub(crate) async fn write(consumer: &Consumer, on: &Connection) -> Result<(), Fault> {
    match consumer.charts.flush(false).await {
        Some(mut flush) => write_all(consumer, on, &mut flush, CALL_WITHIN).await,
        None => Ok(()),
    }
}

/// What is left as the worker retires. What cannot be written is not in the charts.
pub(crate) async fn write_last(consumer: &Consumer, on: &Connection) {
    if let Some(mut flush) = consumer.charts.flush(true).await {
        let _ = write_all(consumer, on, &mut flush, LAST_WITHIN).await;
    }
}

/// What there is on the queue, by the worker that keeps its timer, once a minute. Of a queue on which there is nothing no key is made.
pub(crate) async fn write_gauges(
    consumer: &Consumer,
    on: &Connection,
    now: u64,
) -> Result<(), Fault> {
    let gauges = gauges(&consumer.queue, on, now).await?;
    if (Gauges { workers: 0, slots: 0, ..gauges }) == Gauges::default() {
        return Ok(());
    }
    consumer.queue.chart(on, &consumer.keys.record, None, Some(gauges), CALL_WITHIN).await
}

async fn write_all(
    consumer: &Consumer,
    on: &Connection,
    flush: &mut Flush,
    within: Duration,
) -> Result<(), Fault> {
    while let Some(portion) = flush.next() {
        consumer.queue.chart(on, &consumer.keys.record, Some(portion), None, within).await?;
        flush.written();
    }
    Ok(())
}

async fn gauges(queue: &Queue, on: &Connection, now: u64) -> Result<Gauges, Fault> {
    let [waiting, scheduled, _, failed, _, _, _, _, running] = queue.counts(on).await?;
    let Serving { workers, slots, busy } = queue.served_by(on, HEARD_WITHIN).await?;
    let oldest = if waiting > 0 { queue.oldest(on).await? } else { None };
    let oldest_ms = oldest.map_or(0, |since| now.saturating_sub(since));
    Ok(Gauges { waiting, scheduled, running, failed, workers, oldest_ms, slots, busy })
}
