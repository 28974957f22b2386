//! How many jobs a queue has, in which states.

use crate::keys::Ended;
use crate::store::net::{Connection, Fault, server_time};
use crate::store::queue::Queue;
use crate::store::reply::Reply;

/// Of the list of waiting jobs, so many have been taken out by hand: each left a byte in its place. A field of the counters.
const HUSKS: &str = "husks";

/// What there is to do on a queue now.
#[derive(Debug)]
pub(crate) struct Load {
    /// Of the last lease, or 0: no job began before the next one is larger.
    pub(crate) token: u64,
    /// Jobs that wait, or are due.
    pub(crate) pending: u64,
    pub(crate) parked: u64,
    pub(crate) running: u64,
}

impl Queue {
    /// How many are waiting, scheduled, parked, failed, cancelled, expired, done, broken and running.
    pub(crate) async fn counts(&self, on: &Connection) -> Result<[u64; 9], Fault> {
        let keys = &self.keys;
        let (counts, running): ([_; 9], _) = self
            .beside_running(on, true, |ask| {
                ask.cmd("LLEN").arg(&keys.jobs);
                for set in [&keys.scheduled, &keys.parked] {
                    ask.cmd("ZCARD").arg(set);
                }
                for ended in Ended::ALL {
                    ask.cmd("ZCARD").arg(keys.ended(ended));
                }
                ask.cmd("HLEN").arg(&keys.broken).cmd("HGET").arg(&keys.stat).arg(HUSKS);
            })
            .await?;
        let [listed, scheduled, parked, failed, cancelled, expired, done, broken, husks] = counts;
        let waiting = listed.saturating_sub(husks);
        Ok([waiting, scheduled, parked, failed, cancelled, expired, done, broken, running])
    }

    /// What there is to do now; of parked jobs those whose tokens are higher than this.
    pub(crate) async fn load(&self, on: &Connection, looked: u64) -> Result<Load, Fault> {
        let now = server_time(on).await?;
        let keys = &self.keys;
        let ([token, listed, husks, due, parked], running) = self
            .beside_running(on, false, |ask| {
                ask.cmd("GET").arg(&keys.token).cmd("LLEN").arg(&keys.jobs);
                ask.cmd("HGET").arg(&keys.stat).arg(HUSKS);
                ask.cmd("ZCOUNT").arg(&keys.scheduled).arg("-inf").arg(now);
                ask.cmd("ZCOUNT").arg(&keys.parked).arg(format!("({looked}")).arg("+inf");
            })
            .await?;
        Ok(Load { token, pending: listed.saturating_sub(husks) + due, parked, running })
    }

    /// What these commands count, and how many jobs run. All is asked in one write, which a server works off without a look at others,
    /// unless there are some hundred workers: so no job is missed, or counted twice, that moves meanwhile. `of_any_type`: a key that somebody
    /// made another type of has nothing, and holds up no look at others.
    async fn beside_running<const N: usize>(
        &self,
        on: &Connection,
        of_any_type: bool,
        commands: impl Fn(&mut redis::Pipeline),
    ) -> Result<([u64; N], u64), Fault> {
        let keys = &self.keys;
        loop {
            let workers = match self.worker_ids(on).await {
                Err(fault) if of_any_type && fault.is_of_another_type() => Vec::new(),
                workers => workers?,
            };
            let mut ask = redis::Pipeline::new();
            ask.cmd("ZCARD").arg(&keys.workers);
            commands(&mut ask);
            for keys in workers.iter().map(|worker| keys.worker(worker)) {
                ask.cmd("HLEN").arg(&keys.progress).cmd("LLEN").arg(&keys.inbox);
            }
            let count = |reply: Result<Reply, Fault>| match reply {
                Ok(none) if none.left() == 0 => Ok(0),
                Err(fault) if of_any_type && fault.is_of_another_type() => Ok(0),
                // A figure that somebody made a text holds up no look.
                reply => Ok(reply?.count().unwrap_or(0)),
            };
            let replies = on.ask_all(&ask).await?;
            let counts: Vec<_> = replies.into_iter().map(count).collect::<Result<_, Fault>>()?;
            let counted = counts.split_first().and_then(|(known, counts)| {
                counts.split_first_chunk().map(|(counts, held)| (*known, *counts, held))
            });
            let (known, counts, held) =
                counted.ok_or_else(|| Fault::reply("lengths", "too few"))?;
            // Else others have come since they were looked up.
            if known == workers.len() as u64 {
                return Ok((counts, held.iter().sum()));
            }
        }
    }

    /// The counters of the queue: in all, or of one day (`YYYYMMDD`).
    pub(crate) async fn counters(
        &self,
        on: &Connection,
        day: Option<&str>,
    ) -> Result<Vec<(String, u64)>, Fault> {
        let key = day.map_or_else(|| self.keys.stat.clone(), |day| self.keys.stat_of(day));
        let mut counters = on.ask("HGETALL", key).await?;
        let mut counters =
            counters.rest(|counter| Ok((counter.text()?, counter.text()?.parse().unwrap_or(0))))?;
        counters.retain(|(name, _)| name != HUSKS);
        Ok(counters)
    }
}
