//! Ends leases, many in one call.

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::Value;

use super::events::{KEPT, together};
use super::lease::Lease;
use super::settlement::{End, Settlement};
use crate::charts::UNKNOWN;
use crate::kept::Kept;
use crate::keys::WorkerKeys;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, DAY_TTL_S, Script};

/// What one operation of a settle covers.
pub(super) struct Part<'a> {
    pub(super) job: &'static str,
    pub(super) leases: u64,
    /// The lease with what its batch is to be told, where there is anything.
    pub(super) noted: Option<(&'a Lease, &'a Arc<str>)>,
}

/// How many leases of a batch were held when it was settled.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) held: u64,
    /// How many were not, by job types where these are known.
    pub(crate) stale: Vec<(&'static str, u64)>,
    /// Those that could not be settled, since a key that they need is of another type, and what the server said of the last.
    refused: Vec<Lease>,
    pub(crate) refusal: Option<Fault>,
    /// The counters that could not be counted up, and began anew.
    pub(crate) anew: Option<String>,
    /// Why the events could not be written.
    pub(crate) untold: Option<String>,
    /// Why it is not as safe as asked, where it is not.
    pub(crate) not_durable: Option<Fault>,
    /// What batches are to be told of those that were held, which stands beside the queue now.
    pub(crate) notes: Vec<(Lease, Arc<str>)>,
}

impl Settled {
    /// Of so many leases of a job type these were held.
    fn count(&mut self, job: &'static str, held: u64, of: u64) {
        self.held += held;
        if held < of {
            self.stale.push((job, of - held));
        }
    }

    /// Takes those that were refused out of the batch that was settled.
    pub(crate) fn take_refused(&self, batch: &mut Vec<Settlement>) -> Vec<Settlement> {
        if self.refused.is_empty() {
            return Vec::new();
        }
        batch.extract_if(.., |one| self.refused.contains(&one.lease)).collect()
    }
}

impl Queue {
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
        let mut by_need = BTreeMap::<_, Vec<_>>::new();
        for one in batch {
            by_need.entry(one.needs(&self.keys)).or_default().push(one.clone());
        }
        let mut all = Settled::default();
        for (need, ends) in by_need {
            match self.settle_together(on, worker, day, &ends).await {
                Ok(some) => {
                    all.held += some.held;
                    all.stale.extend(some.stale);
                    all.notes.extend(some.notes);
                    all.anew = some.anew.or(all.anew);
                    all.untold = some.untold.or(all.untold);
                    all.not_durable = some.not_durable.or(all.not_durable);
                }
                Err(fault) if fault.is_of_another_type() => {
                    all.refusal = Some(fault.about(need));
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
        let is_release = |one: &&Settlement| matches!(one.end, End::Released { .. });
        let releases: Vec<_> = batch.iter().filter(is_release).collect();
        let settle = async {
            if releases.len() == batch.len() {
                return Ok(Settled::default());
            }
            let needs_more = |one: &Settlement| {
                matches!(one.end, End::Recorded { .. } | End::Broken { kept: Some(_), .. })
            };
            let more = batch.iter().any(needs_more).then(|| self.keys.ends());
            let more = more.as_ref().map_or(&[][..], |keys| keys);
            let (call, parts) = self.settle_call(Script::Settle, more, worker, day, batch);
            let within = CALL_WITHIN + on.confirms_within();
            let (reply, confirmed) = on.run_confirmed(&call, within).await?;
            let settled = settled(reply, &parts)?;
            Ok(Settled { not_durable: confirmed.err(), ..settled })
        };
        let release = async {
            let count = releases.len() as u64;
            if count == 0 {
                return Ok(Settled::default());
            }
            let call = self.release_call(worker, releases.clone());
            let held = on.run(&call, CALL_WITHIN).await?.count()?;
            let mut settled = Settled::default();
            settled.count(UNKNOWN, held, count);
            Ok(settled)
        };
        let (settle, release) = tokio::join!(settle, release);
        let (mut settle, release): (Settled, Settled) = (settle?, release?);
        settle.held += release.held;
        settle.stale.extend(release.stale);
        Ok(settle)
    }

    /// The call of a script that settles, with more keys after those that this needs, and what each of its operations covers.
    pub(super) fn settle_call<'a>(
        &self,
        script: Script,
        more: &[&str],
        worker: &WorkerKeys,
        day: &str,
        batch: &'a [Settlement],
    ) -> (Call, Vec<Part<'a>>) {
        let keys = &self.keys;
        let stat_of_day = keys.stat_of(day);
        let of_settle: [&str; _] = [
            &worker.progress,
            &keys.jobs,
            &keys.scheduled,
            &keys.bell,
            &keys.broken,
            &keys.stat,
            &stat_of_day,
            &worker.record,
            &keys.parked,
            &keys.token,
        ];
        let mut call = Call::new(script, &[&of_settle, more].concat());
        call.number(self.limits.broken as u64).number(DAY_TTL_S);
        let mut parts = Vec::new();

        // The fast path: success. Acks of one job type are one operation.
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
            parts.push(Part { job, leases: leases.len() as u64, noted: None });
            let spans = spans(leases);
            call.arg("ack").arg(job).number(spans.len() as u64);
            for (first, count) in spans {
                call.lease(first).number(count);
            }
        }
        for settlement in batch {
            let lease = &settlement.lease;
            let Some(job) = settlement.end.counted_as() else { continue };
            let halts = matches!(settlement.end, End::Recorded { halts: true, .. });
            let (kept, note) = (settlement.end.kept(), settlement.note());
            // With how many duties.
            let follows = settlement.follows();
            let more = [halts, kept.is_some(), note.is_some(), follows.is_some()];
            let duties = 1 + more.into_iter().map(u64::from).sum::<u64>();
            call.arg("end").arg(job).lease(lease).number(duties);
            match &settlement.end {
                End::Acked { .. } | End::Released { .. } => &mut call,
                End::Retried { delay_ms, envelope, .. } => {
                    call.arg("retry").number(*delay_ms).arg(envelope)
                }
                End::Recorded { record, halts, .. } => {
                    let kept = self.limits.records(record.ended);
                    call.arg("record").arg(record.ended.name()).arg(&record.id).arg(&record.group);
                    call.number(kept.count).number(kept.bytes);
                    call.arg(&record.text).arg(&record.sample);
                    if *halts { call.arg("halt") } else { &mut call }
                }
                End::Broken { reason, .. } => call.arg("break").arg(reason),
                End::Husk => call.arg("husk").arg("it is no envelope"),
                End::Submitted(job) => {
                    call.arg("submit").arg(format!("{}#{}", job.list, job.id.as_str()));
                    call.lock(&job.lock).arg(job.envelope.as_deref().unwrap_or_default())
                }
                End::Routed { list, front, at_once, .. } => {
                    let how = if *front { "RPUSH" } else { "LPUSH" };
                    let at_once = at_once.map_or_else(String::new, |at_once| at_once.to_string());
                    let id = lease.id().map_or_else(String::new, |id| format!("#{id}"));
                    call.arg("route").arg(how).arg(format!("{list}{id}")).arg(at_once)
                }
                End::Slowed { job, delay_ms, envelope } => {
                    call.arg("slow").number(*delay_ms).arg(job).arg(envelope)
                }
                End::Parked { envelope, .. } => {
                    call.arg("park").arg(envelope.as_deref().unwrap_or_default())
                }
                End::Held { batch, envelope, .. } => {
                    let envelope = envelope.as_deref().unwrap_or_default();
                    call.arg("hold").arg(&**batch).arg(envelope)
                }
            };
            if let Some(Kept { id, ms, text }) = kept {
                call.arg("keep").arg(id).number(*ms).arg(text);
            }
            if let Some(note) = note {
                call.arg("note").arg(&**note);
            }
            if let Some(envelope) = follows {
                call.arg("enqueue").arg(envelope);
            }
            let job = if job.is_empty() { UNKNOWN } else { job };
            parts.push(Part { job, leases: 1, noted: note.map(|note| (lease, note)) });
        }
        let told =
            together(batch.iter().filter_map(|one| one.event.as_deref().map(String::as_str)));
        if !told.is_empty() {
            call.arg("events").arg(&*worker.id).number(KEPT).number(told.len() as u64);
            for text in told {
                call.arg(text);
            }
        }
        (call, parts)
    }

    fn release_call(&self, worker: &WorkerKeys, mut batch: Vec<&Settlement>) -> Call {
        let keys = &self.keys;
        let mut call = Call::new(
            Script::Release,
            &[&worker.progress, &keys.jobs, &keys.scheduled, &keys.bell, &worker.record],
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
}

/// Leases as the first of each row of tokens without a gap and how many there are in it, or as 0 of another one: jobs
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
            (_, Lease::Listed(..) | Lease::ById(..) | Lease::Copy(..) | Lease::Foreign(_)) => {
                spans.push((lease, 0));
            }
        }
    }
    spans
}

/// Reads how many leases each operation of a settle found held.
pub(super) fn settled(mut reply: Reply, parts: &[Part<'_>]) -> Result<Settled, Fault> {
    let untold = reply.take_last_word("events ");
    let anew = reply.take_last_word("anew ");
    if reply.left() != parts.len() {
        return Err(reply.fault("not one reply for each operation"));
    }
    let mut settled = Settled { anew, untold, ..Settled::default() };
    for Part { job, leases, noted } in parts {
        let held = match reply.value()? {
            Value::Int(held) => held.unsigned_abs().min(*leases),
            Value::BulkString(word) if word == b"ok" => 1,
            Value::BulkString(word) if word == b"stale" => 0,
            _ => return Err(reply.fault("unknown word")),
        };
        if let (Some((lease, note)), 1) = (noted, held) {
            settled.notes.push(((*lease).clone(), Arc::clone(note)));
        }
        settled.count(job, held, *leases);
    }
    Ok(settled)
}

#[cfg(test)]
mod tests {
    use super::*;

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
