//! What is in force on a queue by a person's order.

use std::time::Duration;

use crate::pause::Pause;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, Script};
use crate::time::millis;

impl Queue {
    /// Has workers take no job, for so long or until it is resumed. `order`: that of all queues, which is obeyed once and shortens no other
    /// pause.
    pub(crate) async fn pause(
        &self,
        on: &Connection,
        duration: Option<Duration>,
        order: Option<u64>,
    ) -> Result<(), Fault> {
        let mut call = Call::new(Script::Pause, &[&self.keys.jobs, &self.keys.token]);
        // Zero is until it is resumed.
        call.number(duration.map_or(0, |duration| millis(duration).clamp(1, 1 << 52)));
        call.arg(order.map_or_else(String::new, |order| order.to_string()));
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

impl Queue {
    /// Sets what holds for a limit, or with an empty value no longer; gives how many of the fields were set before.
    pub(crate) async fn set_limit(
        &self,
        on: &Connection,
        limit: &str,
        job_type: &str,
        fields: &[(&str, String)],
    ) -> Result<u64, Fault> {
        let keys = &self.keys;
        let mut call =
            Call::new(Script::Limit, &[&keys.jobs, &keys.token, &keys.workers, &keys.bell]);
        call.arg(limit).arg(job_type);
        for (field, value) in fields {
            call.arg(*field).arg(value);
        }
        on.run(&call, CALL_WITHIN).await?.count()
    }

    /// All that is in force on the limits of the queue: what was declared and what was set.
    pub(crate) async fn limits_in_force(
        &self,
        on: &Connection,
    ) -> Result<Vec<(String, String)>, Fault> {
        let mut fields = Vec::new();
        for key in [self.keys.control(), self.keys.overrides()] {
            fields.extend(on.ask("HGETALL", key).await?.rest(Reply::pair)?);
        }
        Ok(fields)
    }

    /// How many leases hold each of these limits; those with a key, and those of each worker, in all.
    pub(crate) async fn holds(&self, on: &Connection, limits: &[&str]) -> Result<Vec<u64>, Fault> {
        // A pipeline without commands is refused.
        if limits.is_empty() {
            return Ok(Vec::new());
        }
        let mut ask = redis::Pipeline::new();
        for limit in limits {
            let many = limit.ends_with(['=', '@']);
            let (begin, end) = if many { ("", 0xff) } else { (" ", b'!') };
            let from = format!("[{limit}{begin}");
            let mut to = format!("({limit}").into_bytes();
            to.push(end);
            ask.cmd("ZLEXCOUNT").arg(self.keys.held()).arg(from).arg(to);
        }
        let counts = on.ask_all(&ask).await?;
        counts.into_iter().map(|count| count?.count()).collect()
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
