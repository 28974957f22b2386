//! Takes waiting jobs, each under a fresh lease.

use std::time::Duration;

use super::lease::Lease;
use super::settle::{Settled, settled};
use super::settlement::Settlement;
use crate::keys::WorkerKeys;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, SCRIPT_BYTES, Script};

/// What `reserve` answers.
#[derive(Debug)]
pub(crate) enum Reserved {
    /// The jobs, the oldest first, how many still wait that may be taken, and how many the server set aside because they are larger than
    /// `max_payload`.
    Jobs {
        jobs: Vec<(Lease, Vec<u8>)>,
        left: u64,
        set_aside: u64,
        /// Of a queue that has more than its plain list.
        listed: Option<Listed>,
    },
    /// The worker was declared dead.
    Void,
    /// The session is an old one.
    Stale,
    /// The queue is paused: for so long, or until it is resumed.
    Closed { left: Option<Duration> },
}

/// What `reserve` tells of a queue that has more than its plain list.
#[derive(Debug)]
pub(crate) struct Listed {
    /// Entries that the inbox had: a ticket is one.
    handed: u64,
    /// How many jobs still wait that may be taken for free slots alone, since they have limits.
    pub(crate) for_slots: u64,
    /// The job types whose jobs belong to lists with a limit of that name, each with a blank behind it.
    pub(crate) types: String,
}

/// How many jobs a call takes at most.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Want {
    /// For free slots.
    pub(crate) slots: usize,
    /// Ahead of them; none that have limits.
    pub(crate) ahead: usize,
}

impl Reserved {
    /// Whether the server handed nothing over.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::Jobs { jobs, set_aside: 0, listed, .. }
            if jobs.is_empty() && listed.as_ref().is_none_or(|listed| listed.handed == 0))
    }
}

impl Queue {
    /// Hands over the inbox and as many waiting jobs as are wanted.
    pub(crate) async fn reserve(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
        session: u64,
        want: Want,
        within: Duration,
    ) -> Result<Reserved, Fault> {
        let call = self.reserve_call(worker, session, want);
        reserved(on.run(&call, within).await?)
    }

    /// Settles a batch of acks and reserves, in one call.
    pub(crate) async fn ack_and_reserve(
        &self,
        on: &Connection,
        worker: &WorkerKeys,
        day: &str,
        batch: &[Settlement],
        session: u64,
        want: Want,
    ) -> Result<(Settled, Reserved), Fault> {
        let (mut call, parts) =
            self.settle_call(Script::SettleAndReserve, &[&worker.inbox], worker, day, batch);
        self.ask(&mut call, session, want);
        let mut reply = on.run(&call, CALL_WITHIN).await?;
        let untold = reply.take_last_word("events ");
        let anew = reply.take_last_word("anew ");
        let mut settled = settled(reply.split_last("settle", parts.len())?, &parts)?;
        (settled.anew, settled.untold) = (anew, untold);
        Ok((settled, reserved(reply)?))
    }

    pub(super) fn reserve_call(&self, worker: &WorkerKeys, session: u64, want: Want) -> Call {
        let keys = &self.keys;
        let mut call = Call::new(
            Script::Reserve,
            &[
                &worker.record,
                &worker.inbox,
                &worker.progress,
                &keys.token,
                &keys.broken,
                &keys.stat,
                &keys.jobs,
                &keys.parked,
                &keys.bell,
            ],
        );
        self.ask(&mut call, session, want);
        call
    }

    /// What `reserve` is asked.
    fn ask(&self, call: &mut Call, session: u64, want: Want) {
        call.number(session)
            .number((want.slots + want.ahead) as u64)
            .number(SCRIPT_BYTES as u64)
            .number(self.largest() as u64)
            .number(self.limits.broken as u64)
            .number(want.slots as u64);
    }
}

/// Reads what `reserve` answers.
pub(super) fn reserved(mut reply: Reply) -> Result<Reserved, Fault> {
    match reply.text()?.as_str() {
        "ok" => {}
        "listed" => {
            let (left, set_aside) = (reply.count()?, reply.count()?);
            let listed = Some(Listed {
                handed: reply.count()?,
                for_slots: reply.count()?,
                types: reply.text()?,
            });
            let jobs = reply.rest(|reply| Ok((Lease::read(reply)?, reply.payload()?)))?;
            return Ok(Reserved::Jobs { jobs, left, set_aside, listed });
        }
        "void" => return Ok(Reserved::Void),
        "stale" => return Ok(Reserved::Stale),
        "closed" => {
            let left = u64::try_from(reply.number()?).ok().map(Duration::from_millis);
            return Ok(Reserved::Closed { left });
        }
        word => return Err(reply.unknown(word)),
    }
    let (left, set_aside, first) = (reply.count()?, reply.count()?, reply.count()?);
    let mut jobs = Vec::with_capacity(reply.left());
    for token in first.. {
        if reply.left() == 0 {
            break;
        }
        jobs.push((Lease::Token(token), reply.payload()?));
    }
    Ok(Reserved::Jobs { jobs, left, set_aside, listed: None })
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::super::settle::Part;
    use super::*;

    #[test]
    fn what_settle_answers_is_behind_what_reserve_does() {
        let word = |text: &str| Value::BulkString(text.into());
        let both = |values: Vec<Value>, sizes: &[u64]| {
            let mut reply = Reply::new("reserve", Value::Array(values));
            let part = |size: &u64| Part { job: "a", leases: *size, noted: None };
            let parts: Vec<_> = sizes.iter().map(part).collect();
            let settled = settled(reply.split_last("settle", parts.len())?, &parts)?;
            Ok::<_, Fault>((settled, reserved(reply)?))
        };
        let jobs = vec![word("ok"), Value::Int(5), Value::Int(0), Value::Int(100)];
        let jobs = [jobs, vec![word("a"), word("b"), Value::Int(2), Value::Int(1)]].concat();
        let (settled, reserved) = both(jobs.clone(), &[2, 3]).expect("a reply");
        assert_eq!((settled.held, settled.stale), (3, vec![("a", 2)]));
        let Reserved::Jobs { jobs: got, left: 5, set_aside: 0, .. } = reserved else {
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
}
