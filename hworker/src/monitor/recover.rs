//! Giving back what a dead worker held.

use crate::envelope::{CRASHES, Crash, Envelope, Rewrite, tags};
use crate::log::say;
use crate::store::{Connection, Fault, FaultKind, Lease, Queue, Recovered, SCRIPT_BYTES, Who};
use crate::time::{ServerClock, day};

/// Jobs that are recovered with one call, at most; fewer where they are large.
const CHUNK: usize = 200;

/// What became of a recovery.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// The worker lives after all.
    Alive,
    /// It is dead, and everything was given back.
    Done,
    /// It is dead, and another worker that found out first gives back its jobs.
    WithAnother,
    /// It is dead, and giving back what it held failed.
    Failed,
}

/// What a worker held that is dead.
#[derive(Debug)]
pub(crate) struct Death {
    /// It was this one that declared it dead.
    pub(crate) declared: bool,
    /// How many jobs this one gave back.
    pub(crate) given: u64,
    /// In ms, by the server's clock.
    pub(crate) at: u64,
    pub(crate) who: Who,
    /// It had been told to stop.
    pub(crate) stopping: bool,
    pub(crate) held: Vec<Held>,
    /// How many jobs it held.
    pub(crate) jobs: u64,
}

/// A job that it held, where it can be decoded.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) id: Option<String>,
    pub(crate) job: String,
    pub(crate) attempt: u32,
    /// Where it has another number than its type.
    pub(crate) max_attempts: Option<u32>,
    pub(crate) tags: Vec<String>,
    /// Workers that died while they held it, this one too.
    pub(crate) crashes: usize,
}

/// Declares a worker dead unless it was heard of since, and gives everything that it held back to the front of the
/// queue, the oldest next.
///
/// All workers watch all others, so several may recover the same one. Each first asks on its `shared` connection. Only the first one that
/// declares it dead, or one that knows that it `is_dead` and finds something left, makes another connection to give back its jobs. What
/// that worker held is told with it; nothing of one that lives.
///
/// # Errors
/// Nothing is known of the worker's death then.
pub(crate) async fn recover(
    queue: &Queue,
    shared: &Connection,
    connect: impl Future<Output = Result<Connection, Fault>>,
    clock: &ServerClock,
    (worker, seen): (&str, &str),
    is_dead: bool,
) -> Result<(Recovery, Option<Death>), Fault> {
    let today = day(clock.unix_ms());
    let first = queue.recover(shared, worker, seen, &today, &[]).await?;
    let Recovered::Given { jobs: mut given, left, declared, inbox, who } = first else {
        return Ok((Recovery::Alive, None));
    };
    let (at, held) = (clock.unix_ms(), Vec::new());
    let mut death = Death { declared, given: 0, at, who, stopping: false, held, jobs: left };
    if declared {
        say!(WARN, { queue = queue.name.clone(), worker = worker.to_owned() }, job.queue = %queue, worker.id = worker, "a worker is dead");
    }
    let nothing_is_left = left == 0 && inbox == 0;
    let result = if nothing_is_left {
        Ok(Recovery::Done)
    } else if !declared && !is_dead {
        Ok(Recovery::WithAnother)
    } else {
        let rest = async {
            let records = queue.remembered(shared, &[worker]).await?;
            let stopping = records.iter().any(|record| record.stopping);
            death.stopping = stopping;
            let dead = Dead { worker, seen, stopping };
            give_back(queue, &connect.await?, clock, &dead, &mut death.held, &mut given).await
        };
        rest.await.map(|()| Recovery::Done)
    };
    if given > 0 {
        say!(WARN, { queue = queue.name.clone(), worker = worker.to_owned() },
            job.queue = %queue, worker.id = worker, jobs = given, "recovered the jobs of a dead worker");
    }
    let recovery = result.unwrap_or_else(|fault| {
        say!(WARN, { queue = queue.name.clone(), worker = worker.to_owned() },
            job.queue = %queue, worker.id = worker, "the recovery of a dead worker will be tried again: {fault}");
        Recovery::Failed
    });
    // What it held in its inbox is known once it is back.
    (death.jobs, death.given) = (death.jobs.max(given), given);
    Ok((recovery, Some(death)))
}

/// A worker that died: its heartbeat as it was last seen, and whether it had been told to stop.
struct Dead<'a> {
    worker: &'a str,
    seen: &'a str,
    stopping: bool,
}

impl Dead<'_> {
    /// What is noted in the jobs that it held.
    fn crash(&self, now: u64) -> Crash {
        let (worker, stopping) = (self.worker.to_owned(), self.stopping);
        Crash { at: now, worker, stopping }
    }
}

/// Gives back the leases and the inbox, with jobs that a half-open connection captures meanwhile. Counts them.
async fn give_back(
    queue: &Queue,
    on: &Connection,
    clock: &ServerClock,
    dead: &Dead<'_>,
    noted: &mut Vec<Held>,
    given: &mut u64,
) -> Result<(), Fault> {
    let keys = &queue.keys.worker(dead.worker);
    let mut leases = queue.leases(on, keys).await?;
    leases.sort_by_key(|lease| std::cmp::Reverse(lease.token()));
    for some in leases.chunks(CHUNK) {
        let sizes = match queue.held_bytes(on, keys, some).await {
            // The user has only the rights of an earlier version: one job at a time.
            Err(fault) if fault.kind == FaultKind::Denied => vec![usize::MAX; some.len()],
            sizes => sizes?,
        };
        let (mut rest, mut sizes) = (some, sizes.as_slice());
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(fitting(sizes, SCRIPT_BYTES).min(rest.len()));
            (rest, sizes) = (after, &sizes[chunk.len().min(sizes.len())..]);
            let held = queue.held(on, keys, chunk).await?;
            let (now, most) = (clock.unix_ms(), queue.largest());
            let crashed: Vec<_> = held
                .into_iter()
                .map(|(lease, payload)| crashed(lease, payload, dead.crash(now), most, noted))
                .collect();
            match queue.recover(on, dead.worker, dead.seen, &day(now), &crashed).await? {
                Recovered::Given { jobs, .. } => *given += jobs,
                Recovered::Alive => return Ok(()),
            }
        }
    }
    loop {
        let today = day(clock.unix_ms());
        match queue.recover(on, dead.worker, dead.seen, &today, &[]).await? {
            Recovered::Given { jobs, inbox, .. } => {
                *given += jobs;
                if inbox == 0 {
                    return Ok(());
                }
            }
            Recovered::Alive => return Ok(()),
        }
    }
}

/// How many of these sizes, from the first, come to no more than so many bytes together; one at the least.
fn fitting(sizes: &[usize], bytes: usize) -> usize {
    let mut left = bytes;
    let fits = |size: &&usize| left.checked_sub(**size).map(|rest| left = rest).is_some();
    sizes.iter().take_while(fits).count().max(1)
}

/// The envelope with one crash more, within so many bytes if fewer errors do that; what cannot be decoded goes back as it is, for a worker to call it broken.
fn crashed(
    lease: Lease,
    payload: Vec<u8>,
    crash: Crash,
    most: usize,
    noted: &mut Vec<Held>,
) -> (Lease, Vec<u8>) {
    let worker = crash.worker.clone();
    let rewritten = Envelope::decode(&payload).ok().and_then(|envelope| {
        let mut crashes = envelope.crashes;
        noted.push(Held {
            id: envelope.id.as_deref().map(str::to_owned),
            job: envelope.job.into_owned(),
            attempt: envelope.attempt,
            max_attempts: envelope.max_attempts,
            tags: std::str::from_utf8(&payload).map_or_else(|_| Vec::new(), tags),
            crashes: crashes.len() + 1,
        });
        crashes.push(crash);
        let surplus = crashes.len().saturating_sub(CRASHES);
        crashes.drain(..surplus);
        let mut rewrite = Rewrite::of(&payload)?;
        if lease.is_copy() {
            // The next worker that has it begins anew.
            rewrite.remove("attempt");
            rewrite.remove("errors");
        }
        rewrite.set("crashes", &crashes);
        // A larger one is within the limit of other workers, which is not known here.
        Some(rewrite.bytes_within(if payload.len() > most { usize::MAX } else { most }))
    });
    if rewritten.is_none() {
        say!(INFO, { lease = lease.clone(), worker = worker.clone() },
            %lease, worker.id = worker, "a lease holds something that cannot be decoded; it goes back as it is");
    }
    (lease, rewritten.unwrap_or(payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crash(worker: &str, now: u64) -> Crash {
        Dead { worker, seen: "", stopping: false }.crash(now)
    }

    #[test]
    fn a_chunk_holds_what_fits_and_one_at_the_least() {
        let sizes = [1, 1, 5, 1, 9, 1];
        assert_eq!(fitting(&sizes, 6), 2);
        assert_eq!(fitting(&sizes, 7), 3);
        assert_eq!(fitting(&sizes[4..], 6), 1, "however large it is");
        assert_eq!(fitting(&sizes, 100), 6);
    }

    #[test]
    fn errors_give_way_to_crashes() {
        let errors = r#"{"attempt":1,"at":1,"kind":"error","message":"no","worker":"w"}"#;
        let payload = format!(r#"{{"id":"7","job":"a","args":{{}},"errors":[{errors},{errors}]}}"#);
        let most = payload.len();
        let (_, payload) =
            crashed(Lease::Token(1), payload.into_bytes(), crash("w", 1), most, &mut Vec::new());
        let text = String::from_utf8(payload).expect("text");
        assert!(
            text.len() <= most && text.contains(r#""crashes":[{"at":1,"worker":"w"}]"#),
            "{text}"
        );
        assert_eq!(text.matches("attempt").count(), 1, "{text}");
    }
}
