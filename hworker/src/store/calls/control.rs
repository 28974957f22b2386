//! What is in force on a queue by a person's order.

use std::time::Duration;

use crate::pause::Pause;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::{CALL_WITHIN, Script};
use crate::time::millis;

impl Queue {
    /// Has workers take no job, for so long or until it is resumed.
    pub(crate) async fn pause(
        &self,
        on: &Connection,
        duration: Option<Duration>,
    ) -> Result<(), Fault> {
        let mut call = Call::new(Script::Pause, &[&self.keys.jobs, &self.keys.token]);
        // Zero is until it is resumed.
        call.number(duration.map_or(0, |duration| millis(duration).clamp(1, 1 << 52)));
        on.run(&call, CALL_WITHIN).await.map(drop)
    }

    /// Has workers take jobs again; false where it was not paused.
    pub(crate) async fn resume(&self, on: &Connection) -> Result<bool, Fault> {
        let call = Call::new(Script::Resume, &[&self.keys.jobs, &self.keys.workers]);
        Ok(on.run(&call, CALL_WITHIN).await?.count()? > 0)
    }

    /// The pause that is in force at this time by the server's clock.
    pub(crate) async fn paused(&self, on: &Connection, now: u64) -> Result<Option<Pause>, Fault> {
        let mut until = on.ask("HGET", (self.keys.control(), "paused")).await?;
        if until.left() == 0 {
            return Ok(None);
        }
        let pause = Pause::until(until.count().unwrap_or(0));
        Ok(Some(pause).filter(|pause| pause.until.is_none_or(|until| until > now)))
    }
}

/// Takes, keeps or gives back a lock; false where it is another's.
pub(crate) async fn lock(
    on: &Connection,
    key: &str,
    token: &str,
    ms: u64,
    what: &str,
) -> Result<bool, Fault> {
    let mut call = Call::new(Script::Lock, &[key]);
    call.arg(token).number(ms).arg(what);
    Ok(on.run(&call, CALL_WITHIN).await?.count()? == 1)
}

impl Queue {
    /// Writes an order into the record of a worker, or takes it back; false where no such worker lives here.
    pub(crate) async fn order(
        &self,
        on: &Connection,
        worker: &str,
        field: &str,
        value: &str,
    ) -> Result<bool, Fault> {
        let record = self.keys.worker(worker).record;
        let mut call = Call::new(Script::Order, &[&record]);
        call.arg(field).arg(value);
        Ok(on.run(&call, CALL_WITHIN).await?.count()? == 1)
    }
}
