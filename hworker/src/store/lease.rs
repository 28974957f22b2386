//! Taking jobs under a lease and ending leases.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use super::connection::Call;
use super::reply::{Reply, bytes, number};
use super::{CALL_WITHIN, Connection, DAY_TTL_S, Fault, FaultKind, Queue, SCRIPT_BYTES, script};
use crate::keys::{Keys, WorkerKeys};

/// A job that was enqueued within `max_payload` may grow by what workers write into it, such as its next attempt and its
/// crashes, of which 32 take 3.5 KB under names as those of pods; its errors give way instead.
const WRITTEN_BY_WORKERS: usize = 8 * 1024;

/// One worker's hold on one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lease {
    /// As `reserve` names it: a whole number, up to [`Lease::MAX_TOKEN`].
    Token(u64),
    /// Anything else that somebody wrote there; it counts as the oldest.
    Foreign(Arc<str>),
}

impl Lease {
    /// Beyond it servers may spell a number that a script hands them in another way.
    const MAX_TOKEN: u64 = (1 << 52) - 1;

    pub(crate) fn parse(name: &str) -> Self {
        let token = name.parse().ok().filter(|token| *token <= Self::MAX_TOKEN);
        // Only what would be written the same way again.
        let lease = token.map(Self::Token).filter(|lease| lease.to_string() == name);
        lease.unwrap_or_else(|| Self::Foreign(name.into()))
    }

    /// The fencing token.
    pub(crate) fn token(&self) -> u64 {
        match self {
            Self::Token(token) => *token,
            Self::Foreign(name) => {
                name.split('.').next().and_then(|token| token.parse().ok()).unwrap_or(0)
            }
        }
    }

    fn name_length(&self) -> usize {
        match self {
            Self::Token(_) => 16,
            Self::Foreign(name) => name.len(),
        }
    }
}

impl Hash for Lease {
    /// One number for nearly all there are; see [`LeaseHasher`].
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Token(token) => state.write_u64(*token),
            Self::Foreign(name) => state.write(name.as_bytes()),
        }
    }
}

/// Tokens are times in microseconds and counted up from there, so multiplying spreads them well enough, and there is
/// nobody who could choose them to collide. The factor is that of Fibonacci hashing (Knuth, TAOCP 6.4).
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct LeaseHasher(u64);

impl LeaseHasher {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
}

impl Hasher for LeaseHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The table takes the low bits for the place and the high ones for the tag.
        self.0 = (self.0 ^ number).wrapping_mul(Self::FACTOR).rotate_left(20);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A table of leases.
pub(crate) type LeaseMap<V> = HashMap<Lease, V, BuildHasherDefault<LeaseHasher>>;

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(token) => write!(f, "{token}"),
            Self::Foreign(name) => f.write_str(name),
        }
    }
}

/// What `reserve` answers.
#[derive(Debug)]
pub(crate) enum Reserved {
    /// The jobs, the oldest first, how many are still waiting, and how many the server set aside because they are larger than
    /// `max_payload`.
    Jobs { jobs: Vec<(Lease, Vec<u8>)>, left: u64, set_aside: u64 },
    /// The worker was declared dead.
    Void,
    /// The session is an old one.
    Stale,
}

impl Reserved {
    /// Whether it brought nothing, and set nothing aside.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::Jobs { jobs, set_aside: 0, .. } if jobs.is_empty())
    }
}

/// The end of a lease.
#[derive(Debug, Clone)]
pub(crate) struct Settlement {
    pub(crate) lease: Lease,
    pub(crate) end: End,
}

/// How a lease ends. `job` is always a registered name, for it becomes the name of a counter.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Acked {
        job: &'static str,
    },
    Retried {
        job: &'static str,
        delay_ms: u64,
        envelope: Vec<u8>,
    },
    Failed {
        job: &'static str,
        record: Vec<u8>,
    },
    Broken {
        reason: String,
        /// Of the payload, which stays at the server.
        bytes: usize,
    },
    /// Put aside for a worker that can run it; `None` keeps the bytes.
    Parked {
        envelope: Option<Vec<u8>>,
        /// Of the payload, which stays at the server.
        bytes: usize,
    },
    /// Given back uncounted; `None` keeps the bytes.
    Released {
        delay_ms: u64,
        envelope: Option<Vec<u8>>,
    },
}

/// What ends need of the server beside their leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    Jobs,
    Scheduled,
    Failed,
    Broken,
    Parked,
}

impl Need {
    const ALL: [Self; 6] =
        [Self::Nothing, Self::Jobs, Self::Scheduled, Self::Failed, Self::Broken, Self::Parked];

    /// The names of the keys.
    fn keys(self, keys: &Keys) -> String {
        match self {
            Self::Nothing => "the leases".into(),
            Self::Jobs => keys.jobs.clone(),
            Self::Scheduled => format!("{} or {}", keys.scheduled, keys.bell),
            Self::Failed => keys.failed.clone(),
            Self::Broken => format!("{}, {} or {}", keys.broken, keys.parked, keys.token),
            Self::Parked => format!("{} or {}", keys.parked, keys.token),
        }
    }
}

impl End {
    fn need(&self) -> Need {
        match self {
            Self::Acked { .. } => Need::Nothing,
            Self::Retried { delay_ms: 0, .. } | Self::Released { delay_ms: 0, .. } => Need::Jobs,
            Self::Retried { .. } | Self::Released { .. } => Need::Scheduled,
            Self::Failed { .. } => Need::Failed,
            Self::Broken { .. } => Need::Broken,
            Self::Parked { .. } => Need::Parked,
        }
    }
}

impl Settlement {
    /// About how many bytes it sends, or has the server copy.
    pub(crate) fn size(&self) -> usize {
        let payload = match &self.end {
            End::Acked { .. } => 0,
            End::Retried { envelope, .. } => envelope.len(),
            End::Failed { record, .. } => record.len(),
            // The server copies it, and some others beside it; no more of them are reserved at once, so that settling keeps up.
            End::Broken { reason, bytes } => reason.len() + bytes,
            End::Parked { envelope, bytes } => envelope.as_ref().map_or(0, Vec::len) + bytes,
            End::Released { envelope, .. } => envelope.as_ref().map_or(0, Vec::len),
        };
        payload + self.lease.name_length()
    }

    /// How many bytes it takes to remember it.
    pub(crate) fn kept(&self) -> usize {
        match &self.end {
            // The payload is not here.
            End::Broken { bytes, .. } | End::Parked { bytes, .. } => self.size() - bytes,
            _ => self.size(),
        }
    }

    /// Whether it brings bytes along, for which a server may refuse it.
    pub(crate) fn has_bytes(&self) -> bool {
        self.bytes().is_some() || matches!(self.end, End::Broken { .. } | End::Parked { .. })
    }

    /// What it brings along of its job.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match &self.end {
            End::Retried { envelope, .. } => Some(envelope),
            End::Failed { record, .. } => Some(record),
            End::Released { envelope, .. } | End::Parked { envelope, .. } => envelope.as_deref(),
            End::Acked { .. } | End::Broken { .. } => None,
        }
    }

    /// Whether the job just ends.
    pub(crate) fn is_ack(&self) -> bool {
        matches!(self.end, End::Acked { .. })
    }

    fn is_release(&self) -> bool {
        matches!(self.end, End::Released { .. })
    }
}

/// How many leases of a batch were held when it was settled.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) held: u64,
    pub(crate) stale: u64,
    /// Those that could not be settled, since a key that they need is of another type, and what the server said of the last.
    refused: Vec<Lease>,
    pub(crate) refusal: Option<Fault>,
    /// The counters that could not be counted up, and began anew.
    pub(crate) anew: Option<String>,
    /// Why it is not as safe as asked, where it is not.
    pub(crate) not_durable: Option<Fault>,
}

impl Settled {
    /// Takes those that were refused out of the batch that was settled.
    pub(crate) fn take_refused(&self, batch: &mut Vec<Settlement>) -> Vec<Settlement> {
        if self.refused.is_empty() {
            return Vec::new();
        }
        batch.extract_if(.., |one| self.refused.contains(&one.lease)).collect()
    }
}

impl Queue {
    /// Hands over the inbox and up to `want` waiting jobs.
    pub(crate) async fn reserve(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
        session: u64,
        want: usize,
        within: Duration,
    ) -> Result<Reserved, Fault> {
        let call = self.reserve_call(worker, session, want);
        reserved(Reply::list("reserve", on.run(&call, within).await?)?)
    }

    /// Settles a batch of acks and reserves, in one call.
    pub(crate) async fn ack_and_reserve(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
        day: &str,
        batch: &[Settlement],
        session: u64,
        want: usize,
    ) -> Result<(Settled, Reserved), Fault> {
        let (mut call, sizes) =
            self.settle_call(&script::SETTLE_AND_RESERVE, &[&worker.inbox], worker, day, batch);
        self.ask(&mut call, session, want);
        let mut reply = Reply::list("reserve", on.run(&call, CALL_WITHIN).await?)?;
        let anew = reply.take_last_word("anew ");
        let settled = settled(reply.split_last("settle", sizes.len())?, &sizes)?;
        Ok((Settled { anew, ..settled }, reserved(reply)?))
    }

    fn reserve_call(&self, worker: &WorkerKeys, session: u64, want: usize) -> Call {
        let keys = &self.keys;
        let mut call = Call::new(
            &script::RESERVE,
            &[
                &worker.record,
                &worker.inbox,
                &worker.progress,
                &keys.token,
                &keys.broken,
                &keys.stat,
                &keys.jobs,
                &keys.parked,
            ],
        );
        self.ask(&mut call, session, want);
        call
    }

    /// What `reserve` is asked.
    fn ask(&self, call: &mut Call, session: u64, want: usize) {
        call.number(session)
            .number(want as u64)
            .number(SCRIPT_BYTES as u64)
            .number(self.largest() as u64)
            .number(self.limits.broken as u64);
    }

    /// Settles and releases a batch. Afterwards none of its leases is held, but for those that were refused: a key that somebody
    /// made another type of holds up the ends that need it, and no others.
    pub(crate) async fn settle(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
        day: &str,
        batch: &[Settlement],
    ) -> Result<Settled, Fault> {
        let together = self.settle_together(on, worker, day, batch).await;
        if !together.as_ref().is_err_and(Fault::is_of_another_type) {
            return together;
        }
        let mut all = Settled::default();
        for need in Need::ALL {
            let ends = batch.iter().filter(|one| one.end.need() == need);
            let ends: Vec<_> = ends.cloned().collect();
            if ends.is_empty() {
                continue;
            }
            match self.settle_together(on, worker, day, &ends).await {
                Ok(some) => {
                    all.held += some.held;
                    all.stale += some.stale;
                    all.anew = some.anew.or(all.anew);
                    all.not_durable = some.not_durable.or(all.not_durable);
                }
                Err(fault) if fault.is_of_another_type() => {
                    all.refusal = Some(fault.about(need.keys(&self.keys)));
                    all.refused.extend(ends.into_iter().map(|one| one.lease));
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(all)
    }

    async fn settle_together(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
        day: &str,
        batch: &[Settlement],
    ) -> Result<Settled, Fault> {
        let releases: Vec<_> = batch.iter().filter(|one| one.is_release()).collect();
        let settle = async {
            if releases.len() == batch.len() {
                return Ok(Settled::default());
            }
            let (call, sizes) = self.settle_call(&script::SETTLE, &[], worker, day, batch);
            let within = CALL_WITHIN + on.confirms_within();
            let (reply, confirmed) = on.run_confirmed(&call, within).await?;
            let settled = settled(Reply::list("settle", reply)?, &sizes)?;
            Ok(Settled { not_durable: confirmed.err(), ..settled })
        };
        let release = async {
            let count = releases.len() as u64;
            if count == 0 {
                return Ok(Settled::default());
            }
            let call = self.release_call(worker, releases.clone());
            let held = number("release", &on.run(&call, CALL_WITHIN).await?)?.unsigned_abs();
            let stale = count.saturating_sub(held);
            Ok(Settled { held, stale, ..Settled::default() })
        };
        let (settle, release) = tokio::join!(settle, release);
        let (settle, release): (Settled, Settled) = (settle?, release?);
        let (held, stale) = (settle.held + release.held, settle.stale + release.stale);
        Ok(Settled { held, stale, ..settle })
    }

    /// The call of a script that settles, with more keys after those that this needs, and for each of its operations how many leases
    /// it covers.
    fn settle_call(
        &self,
        script: &'static script::Script,
        more: &[&str],
        worker: &WorkerKeys,
        day: &str,
        batch: &[Settlement],
    ) -> (Call, Vec<u64>) {
        let keys = &self.keys;
        let stat_of_day = keys.stat_of(day);
        let of_settle: [&str; _] = [
            &worker.progress,
            &keys.jobs,
            &keys.scheduled,
            &keys.bell,
            &keys.failed,
            &keys.broken,
            &keys.stat,
            &stat_of_day,
            &worker.record,
            &keys.parked,
            &keys.token,
        ];
        let mut call = Call::new(script, &[&of_settle, more].concat());
        call.number(self.limits.failed as u64).number(self.limits.broken as u64).number(DAY_TTL_S);
        let mut sizes = Vec::new();

        // Acks of one job type are one operation; they are nearly all there is.
        let mut acks: Vec<(&'static str, Vec<&Lease>)> = Vec::new();
        for settlement in batch {
            if let End::Acked { job } = settlement.end {
                match acks.iter_mut().find(|(name, _)| *name == job) {
                    Some((_, leases)) => leases.push(&settlement.lease),
                    None => acks.push((job, vec![&settlement.lease])),
                }
            }
        }
        for (job, leases) in acks {
            sizes.push(leases.len() as u64);
            let spans = spans(leases);
            call.arg("ack").arg(job).number(spans.len() as u64);
            for (first, count) in spans {
                call.lease(first).number(count);
            }
        }
        for settlement in batch {
            let lease = &settlement.lease;
            match &settlement.end {
                End::Acked { .. } | End::Released { .. } => continue,
                End::Retried { job, delay_ms, envelope } => {
                    call.arg("retry").arg(*job).lease(lease).number(*delay_ms).arg(envelope)
                }
                End::Failed { job, record } => call.arg("fail").arg(*job).lease(lease).arg(record),
                End::Broken { reason, .. } => call.arg("break").lease(lease).arg(reason),
                End::Parked { envelope, .. } => {
                    call.arg("park").lease(lease).arg(envelope.as_deref().unwrap_or_default())
                }
            };
            sizes.push(1);
        }
        (call, sizes)
    }

    fn release_call(&self, worker: &WorkerKeys, mut batch: Vec<&Settlement>) -> Call {
        let keys = &self.keys;
        let mut call = Call::new(
            &script::RELEASE,
            &[&worker.progress, &keys.jobs, &keys.scheduled, &keys.bell],
        );
        batch.sort_by_key(|settlement| std::cmp::Reverse(settlement.lease.token()));
        for settlement in batch {
            if let End::Released { delay_ms, envelope } = &settlement.end {
                let envelope = envelope.as_deref().unwrap_or_default();
                call.lease(&settlement.lease).number(*delay_ms).arg(envelope);
            }
        }
        call
    }

    /// The most bytes that an envelope may come to.
    pub(crate) fn largest(&self) -> usize {
        self.limits.max_payload.saturating_add(WRITTEN_BY_WORKERS)
    }

    fn wait_command(&self, worker: &WorkerKeys, at_most: Duration) -> Cmd {
        let mut wait = redis::cmd("BLMOVE");
        wait.arg(&self.keys.jobs).arg(&worker.inbox).arg("RIGHT").arg("LEFT");
        wait.arg(at_most.as_secs());
        wait
    }

    /// Waits until the server hands a job into the worker's inbox, at most so long, and hands the inbox over then: sent
    /// together, so that the server does the second as soon as it has done the first.
    ///
    /// Only the second is answered. The answer of a wait would bring the job along once more, however large it is, also one
    /// that `reserve` sets aside because it is larger than a worker takes. So a wait that the server refuses shows in that
    /// this comes back at once and brings nothing.
    pub(crate) async fn reserve_when_handed(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
        session: u64,
        at_most: Duration,
    ) -> Result<Reserved, Fault> {
        let wait = self.wait_command(worker, at_most);
        let reserve = self.reserve_call(worker, session, 0);
        match on.run_after(&wait, &reserve, at_most + CALL_WITHIN).await {
            Err(fault) if fault.kind == FaultKind::NoScript => {
                self.reserve(on, worker, session, 0, CALL_WITHIN).await
            }
            Err(fault) => {
                // If it was refused to leave an answer out, there are more to come than anyone waits for.
                on.end();
                Err(fault)
            }
            Ok(reply) => reserved(Reply::list("reserve", reply)?),
        }
    }

    /// Puts what the server handed into the inbox back to the front. Gives how many.
    pub(crate) async fn return_inbox(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
    ) -> Result<usize, Fault> {
        let mut command = redis::cmd("LMOVE");
        command.arg(&worker.inbox).arg(&self.keys.jobs).arg("LEFT").arg("RIGHT");
        let mut returned = 0;
        while on.call(&command, CALL_WITHIN).await? != Value::Nil {
            returned += 1;
        }
        Ok(returned)
    }

    /// The leases that a worker holds, in no order.
    pub(crate) async fn leases(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
    ) -> Result<Vec<Lease>, Fault> {
        /// Up to so many are read in one command; it takes the server about a millisecond.
        const AT_ONCE: i64 = 5_000;
        let length = on.call(redis::cmd("HLEN").arg(&worker.progress), CALL_WITHIN).await?;
        let mut leases = Vec::new();
        if number("HLEN", &length)? <= AT_ONCE {
            let mut reply = Reply::list(
                "HKEYS",
                on.call(redis::cmd("HKEYS").arg(&worker.progress), CALL_WITHIN).await?,
            )?;
            while reply.left() > 0 {
                leases.push(Lease::parse(&reply.text()?));
            }
            return Ok(leases);
        }
        // Only short jobs come in such numbers, so reading their payloads along is cheap enough.
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(&worker.progress).arg(&cursor).arg("COUNT").arg(1000);
            let Value::Array(parts) = on.call(&scan, CALL_WITHIN).await? else {
                return Err(Fault::reply("HSCAN", "not a list"));
            };
            let mut parts = parts.into_iter();
            cursor =
                String::from_utf8_lossy(&bytes("HSCAN", parts.next().unwrap_or_default())?).into();
            let mut entries = Reply::list("HSCAN", parts.next().unwrap_or_default())?;
            while entries.left() > 0 {
                leases.push(Lease::parse(&entries.text()?));
                entries.maybe_bytes()?;
            }
            if cursor == "0" {
                return Ok(leases);
            }
        }
    }
}

/// Leases as the first of each row of tokens without a gap and how many there are in it, or as 0 of a foreign one: jobs
/// that were reserved together often end together, and to read and to spell each of their leases is a good part of what an ack
/// costs the server.
fn spans(mut leases: Vec<&Lease>) -> Vec<(&Lease, u64)> {
    leases.sort_unstable_by_key(|lease| lease.token());
    let mut spans: Vec<(&Lease, u64)> = Vec::new();
    for lease in leases {
        match (spans.last_mut(), lease) {
            (Some((Lease::Token(first), count)), Lease::Token(token))
                if first + *count == *token =>
            {
                *count += 1;
            }
            (_, Lease::Token(_)) => spans.push((lease, 1)),
            (_, Lease::Foreign(_)) => spans.push((lease, 0)),
        }
    }
    spans
}

/// Reads what `reserve` answers.
fn reserved(mut reply: Reply) -> Result<Reserved, Fault> {
    match reply.text()?.as_str() {
        "ok" => {}
        "void" => return Ok(Reserved::Void),
        "stale" => return Ok(Reserved::Stale),
        word => return Err(Fault::reply("reserve", format!("unknown word `{word}`"))),
    }
    let (left, set_aside, first) = (reply.count()?, reply.count()?, reply.count()?);
    let mut jobs = Vec::with_capacity(reply.left());
    for token in first.. {
        if reply.left() == 0 {
            break;
        }
        jobs.push((Lease::Token(token), reply.payload()?));
    }
    Ok(Reserved::Jobs { jobs, left, set_aside })
}

/// Reads how many leases each operation of a settle found held.
fn settled(mut reply: Reply, sizes: &[u64]) -> Result<Settled, Fault> {
    let anew = reply.take_last_word("anew ");
    if reply.left() != sizes.len() {
        return Err(Fault::reply("settle", "not one reply for each operation"));
    }
    let mut settled = Settled { anew, ..Settled::default() };
    for size in sizes {
        let held = match reply.value()? {
            Value::Int(held) => held.unsigned_abs().min(*size),
            other => match bytes("settle", other)?.as_slice() {
                b"ok" => 1,
                b"stale" => 0,
                _ => return Err(Fault::reply("settle", "unknown word")),
            },
        };
        settled.held += held;
        settled.stale += size - held;
    }
    Ok(settled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_settle_answers_is_behind_what_reserve_does() {
        let word = |text: &str| Value::BulkString(text.into());
        let both = |values: Vec<Value>, sizes: &[u64]| {
            let mut reply = Reply::list("reserve", Value::Array(values))?;
            let settled = settled(reply.split_last("settle", sizes.len())?, sizes)?;
            Ok::<_, Fault>((settled, reserved(reply)?))
        };
        let jobs = vec![word("ok"), Value::Int(5), Value::Int(0), Value::Int(100)];
        let jobs = [jobs, vec![word("a"), word("b"), Value::Int(2), Value::Int(1)]].concat();
        let (settled, reserved) = both(jobs.clone(), &[2, 3]).expect("a reply");
        assert_eq!((settled.held, settled.stale), (3, 2));
        let Reserved::Jobs { jobs: got, left: 5, set_aside: 0 } = reserved else {
            panic!("not what was answered");
        };
        let expected = [(100, b"a"), (101, b"b")];
        assert_eq!(got, expected.map(|(token, job)| (Lease::Token(token), job.to_vec())));
        assert!(both(jobs, &[2]).is_err(), "a number is no job");
        let (settled, reserved) =
            both(vec![word("void"), Value::Int(2), Value::Int(1)], &[2, 1]).expect("a reply");
        assert!(settled.held == 3 && matches!(reserved, Reserved::Void));
        assert!(both(vec![Value::Int(1)], &[1, 1]).is_err(), "too short");
    }

    #[test]
    fn a_name_is_a_token_only_if_the_server_spells_it_so() {
        assert_eq!(Lease::parse("1763805600123456"), Lease::Token(1_763_805_600_123_456));
        assert_eq!(Lease::parse("4503599627370495"), Lease::Token(Lease::MAX_TOKEN));
        for name in ["4503599627370496", "18446744073709551616", "007", "+7", "7.0", "-1", ""] {
            assert_eq!(Lease::parse(name), Lease::Foreign(name.into()));
            assert_eq!(Lease::parse(name).to_string(), name);
        }
    }

    #[test]
    fn what_was_reserved_together_is_settled_together() {
        let token = Lease::Token;
        let foreign = Lease::Foreign("x".into());
        let leases = [token(9), token(5), foreign.clone(), token(7), token(6), token(12), token(7)];
        let spans = spans(leases.iter().collect());
        let row = |first: &Lease| spans.iter().filter(|(lease, _)| *lease == first).count();
        assert_eq!(spans.iter().map(|(_, count)| count).sum::<u64>(), 6, "{spans:?}");
        assert!(spans.contains(&(&token(5), 3)) && spans.contains(&(&token(9), 1)), "{spans:?}");
        assert!(spans.contains(&(&token(12), 1)) && spans.contains(&(&foreign, 0)), "{spans:?}");
        assert_eq!(row(&token(7)), 1, "one that is there twice has a row of its own");
    }
}
