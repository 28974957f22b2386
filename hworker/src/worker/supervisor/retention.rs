//! Drops records of ended jobs that are older than they are kept, or were kept under larger bounds. What is beyond the bounds of now
//! leaves with the settlement that writes the next record.

use crate::log::say;
use crate::store::{Connection, Fault, Queue, Trimmed};
use crate::time::day;

/// What the worker that keeps the timer does about records: once a minute, and as long as there is more to drop with each heartbeat.
#[derive(Debug, Default)]
pub(crate) struct Retention {
    goes_on: bool,
    /// How many were ever dropped by other bounds than their age, when it was last looked.
    by_bounds: Option<u64>,
    by_age: u64,
}

impl Retention {
    /// After a heartbeat of the worker that keeps the timer. `is_due`: a minute is over.
    pub(crate) async fn trim(
        &mut self,
        queue: &Queue,
        on: &Connection,
        now: u64,
        is_due: bool,
    ) -> Result<(), Fault> {
        if !is_due && !self.goes_on {
            return Ok(());
        }
        let Trimmed { goes_on, by_age, ever } = queue.trim(on, &day(now)).await?;
        self.goes_on = goes_on;
        self.by_age += by_age;
        if is_due {
            let before = self.by_bounds.replace(ever).unwrap_or(ever);
            let records =
                ever.saturating_sub(before).saturating_sub(std::mem::take(&mut self.by_age));
            if records > 0 {
                say!(WARN, { queue = queue.name.clone() }, job.queue = %queue, records,
                    "the oldest records of failed jobs made room for new ones; if you need more of them, raise HWORKER_FAILED_LIMIT or \
                     HWORKER_FAILED_BYTES");
            }
        }
        Ok(())
    }
}
