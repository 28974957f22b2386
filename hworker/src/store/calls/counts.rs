//! How many jobs a queue has, in which states.

use super::edit::HUSK;
use super::read::Places;
use crate::envelope::Envelope;
use crate::keys::Ended;
use crate::limit::List;
use crate::priority::Priority;
use crate::store::net::{Connection, Fault, FaultKind, server_time};
use crate::store::queue::Queue;
use crate::store::reply::Reply;

/// Of the waiting jobs, so many have been taken out of their lists by hand: each left a byte in its place. A field of the counters.
const HUSKS: &str = "husks";

/// What has an idle worker look at other lists than the plain one; with how many looked in vain because of limits of their own.
const TICKETS: [&[u8]; 4] = [b"!", b"!1", b"!2", b"!3"];

/// Whether an entry of a list is a ticket, and no job.
pub(crate) fn is_ticket(entry: &[u8]) -> bool {
    entry.len() <= 2 && entry.first() == Some(&b'!')
}

/// So many lists whose jobs have limits are looked at for the oldest job.
const LOOKS_AT: usize = 20;

/// A job that is larger is not read to learn its age: heartbeats go over the same connection.
const LARGE: u64 = 64 * 1024;

/// So many entries behind the first are looked at for a job.
const BEHIND: u64 = 15;

/// What there is to do on a queue now.
#[derive(Debug)]
pub(crate) struct Load {
    /// Of the last lease, or 0: no job began before the next one is larger.
    pub(crate) token: u64,
    /// Jobs that wait, or are due.
    pub(crate) pending: u64,
    pub(crate) parked: u64,
    /// Those for each worker, whether this one has had them or not.
    pub(crate) broadcasts: u64,
    pub(crate) running: u64,
    /// Of batches, which may have callbacks to run.
    pub(crate) notes: u64,
}

impl Queue {
    /// How many are waiting, scheduled, parked, failed, cancelled, expired, done, broken and running.
    pub(crate) async fn counts(&self, on: &Connection) -> Result<[u64; 9], Fault> {
        let keys = &self.keys;
        let (counts, waiting, running) = self
            .beside_running(on, true, |ask| {
                for set in [&keys.scheduled, &keys.parked] {
                    ask.cmd("ZCARD").arg(set);
                }
                for ended in Ended::ALL {
                    ask.cmd("ZCARD").arg(keys.ended(ended));
                }
                ask.cmd("HLEN").arg(&keys.broken);
            })
            .await?;
        let [scheduled, parked, failed, cancelled, expired, done, broken] = counts;
        Ok([waiting, scheduled, parked, failed, cancelled, expired, done, broken, running])
    }

    /// Since when the oldest of the jobs waits that are next in their lists, in ms; `None` where none says.
    pub(crate) async fn oldest(&self, on: &Connection) -> Result<Option<u64>, Fault> {
        let mut lists = Priority::ALL.map(List::from).to_vec();
        lists.extend(self.other_lists(on).await?.into_iter().take(LOOKS_AT));
        let mut oldest = None;
        for list in lists {
            let since = match self.clone().at(list).next_waits_since(on).await {
                Err(fault) if fault.is_of_another_type() => None,
                // Its user has only the rights of an earlier version.
                Err(fault) if fault.kind == FaultKind::Denied => return Ok(None),
                since => since?,
            };
            oldest = oldest.into_iter().chain(since).min();
        }
        Ok(oldest)
    }

    /// Since when the next job of its list waits.
    async fn next_waits_since(&self, on: &Connection) -> Result<Option<u64>, Fault> {
        for (first, count) in [(0, 1), (1, BEHIND)] {
            let places = Places { first, count, from_right: true };
            let (_, payloads) = self.read_up_to(on, places, LARGE).await?;
            if let Some(next) = payloads.iter().find(|entry| **entry != HUSK && !is_ticket(entry)) {
                let envelope = Envelope::decode(next).ok();
                let since = envelope.map(|envelope| envelope.waits_since());
                return Ok(since.filter(|since| *since > 0));
            }
            if payloads.is_empty() {
                break;
            }
        }
        Ok(None)
    }

    /// What there is to do now; of parked jobs those whose tokens are higher than this.
    pub(crate) async fn load(&self, on: &Connection, looked: u64) -> Result<Load, Fault> {
        let now = server_time(on).await?;
        let keys = &self.keys;
        let ([token, due, parked, broadcasts, notes], waiting, running) = self
            .beside_running(on, false, |ask| {
                ask.cmd("GET").arg(&keys.token);
                ask.cmd("ZCOUNT").arg(&keys.scheduled).arg("-inf").arg(now);
                ask.cmd("ZCOUNT").arg(&keys.parked).arg(format!("({looked}")).arg("+inf");
                ask.cmd("HLEN").arg(keys.broadcasts());
                ask.cmd("HLEN").arg(keys.notes());
            })
            .await?;
        Ok(Load { token, pending: waiting + due, parked, broadcasts, running, notes })
    }

    /// What these commands count, how many jobs wait, and how many run. All is asked in one write, which a server works off without a look
    /// at others, unless there are some hundred workers: so no job is missed, or counted twice, that moves meanwhile. `of_any_type`: a key
    /// that somebody made another type of has nothing, and holds up no look at others.
    async fn beside_running<const N: usize>(
        &self,
        on: &Connection,
        of_any_type: bool,
        commands: impl Fn(&mut redis::Pipeline),
    ) -> Result<([u64; N], u64, u64), Fault> {
        let keys = &self.keys;
        let mut lists = Priority::ALL.map(List::from).to_vec();
        lists.extend(self.other_lists(on).await?);
        loop {
            let workers = match self.worker_ids(on).await {
                Err(fault) if of_any_type && fault.is_of_another_type() => Vec::new(),
                workers => workers?,
            };
            let mut ask = redis::Pipeline::new();
            ask.cmd("ZCARD").arg(&keys.workers);
            commands(&mut ask);
            ask.cmd("HGET").arg(&keys.stat).arg(HUSKS);
            // A ticket was put there while there was no job, so it is at the end from which they are taken, or was until jobs were put in front.
            for ticket in TICKETS {
                let place = ask.cmd("LPOS").arg(&keys.jobs).arg(ticket);
                place.arg("RANK").arg(-1).arg("MAXLEN").arg(1_000);
            }
            for list in &lists {
                ask.cmd("LLEN").arg(keys.list(list));
            }
            for keys in workers.iter().map(|worker| keys.worker(worker)) {
                ask.cmd("HLEN").arg(&keys.progress).cmd("LLEN").arg(&keys.inbox);
            }
            let count = |reply: Result<Reply, Fault>| match reply {
                Ok(none) if none.left() == 0 => Ok(None),
                Err(fault) if of_any_type && fault.is_of_another_type() => Ok(None),
                reply => reply?.text().map(|text| Some(figure(&text))),
            };
            let replies = on.ask_all(&ask).await?;
            let counts: Vec<_> = replies.into_iter().map(count).collect::<Result<_, Fault>>()?;
            let too_few = || Fault::reply("lengths", "too few");
            let (known, rest) = counts.split_first().ok_or_else(too_few)?;
            let (counts, rest) = rest.split_first_chunk::<N>().ok_or_else(too_few)?;
            let ([husks], rest) = rest.split_first_chunk().ok_or_else(too_few)?;
            let (tickets, rest) = rest.split_at_checked(TICKETS.len()).ok_or_else(too_few)?;
            let (waiting, held) = rest.split_at_checked(lists.len()).ok_or_else(too_few)?;
            // Else others have come since they were looked up.
            if known.unwrap_or(0) == workers.len() as u64 {
                let sum = |counts: &[Option<u64>]| counts.iter().flatten().sum::<u64>();
                let no_jobs = husks.unwrap_or(0) + tickets.iter().flatten().count() as u64;
                let waiting = sum(waiting).saturating_sub(no_jobs);
                return Ok((counts.map(|count| count.unwrap_or(0)), waiting, sum(held)));
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

/// A figure, which ends in a mark where it is a token of a queue with several lists. One that somebody made a text is none, and holds up no
/// look.
fn figure(text: &str) -> u64 {
    text.strip_suffix('+').unwrap_or(text).parse::<i64>().map_or(0, |figure| figure.max(0) as u64)
}
