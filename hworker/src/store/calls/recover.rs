//! Declares a worker dead and gives its jobs back; later the worker is forgotten.

use super::lease::Lease;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::{CALL_WITHIN, DAY_TTL_S, Script};

/// A worker is remembered for so long after its death.
const BURY_AFTER_S: u64 = 86_400;

/// What `recover` answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recovered {
    /// `declared` is true of the call that made it dead; `left` and `inbox` are how many leases it has still, and how many jobs are in
    /// its inbox. `who` is empty unless it is declared dead.
    Given {
        jobs: u64,
        left: u64,
        declared: bool,
        inbox: u64,
        who: Who,
    },
    Alive,
}

/// What a worker wrote down of itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) pid: String,
    pub(crate) version: String,
}

impl Queue {
    /// Declares a worker dead unless it was heard of since `seen`, and gives back what is said of its inbox, if that is there still, and
    /// these jobs, the youngest first; each as it is given here.
    pub(crate) async fn recover(
        &self,
        on: &Connection,
        worker: &str,
        seen: &str,
        day: &str,
        jobs: &[(Lease, Vec<u8>)],
    ) -> Result<Recovered, Fault> {
        let keys = self.keys.worker(worker);
        let stat_of_day = self.keys.stat_of(day);
        let mut call = Call::new(
            Script::Recover,
            &[
                &self.keys.workers,
                &keys.record,
                &keys.progress,
                &keys.inbox,
                &self.keys.jobs,
                &self.keys.stat,
                &stat_of_day,
            ],
        );
        call.arg(worker).arg(seen).number(DAY_TTL_S);
        for (lease, envelope) in jobs {
            call.lease(lease).arg(envelope);
        }
        let mut reply = on.run(&call, CALL_WITHIN).await?;
        match reply.text()?.as_str() {
            "ok" => Ok(Recovered::Given {
                jobs: reply.count()?,
                left: reply.count()?,
                declared: reply.count()? == 1,
                inbox: reply.count()?,
                who: Who {
                    name: reply.text()?,
                    host: reply.text()?,
                    pid: reply.text()?,
                    version: reply.text()?,
                },
            }),
            "alive" => Ok(Recovered::Alive),
            word => Err(reply.unknown(word)),
        }
    }

    /// Forgets a worker that has been dead for a day and holds nothing.
    pub(crate) async fn bury(&self, on: &Connection, worker: &str) -> Result<bool, Fault> {
        let keys = self.keys.worker(worker);
        let mut call = Call::new(
            Script::Bury,
            &[&self.keys.workers, &keys.record, &keys.progress, &keys.inbox],
        );
        call.arg(worker).number(BURY_AFTER_S);
        Ok(on.run(&call, CALL_WITHIN).await?.text()? == "ok")
    }
}
