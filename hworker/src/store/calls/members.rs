//! How a batch grows: its members get numbers, are pushed once, and are in.

use std::time::Duration;

use super::batch::due;
use super::schedule::Due;
use super::{DueCallback, NoRoom};
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, Script};

/// What a batch is asked numbers for.
#[derive(Debug)]
pub(crate) struct NumbersFor<'a> {
    /// The number of the member that adds them, `c` where one of its callbacks does, or nothing from outside.
    pub(crate) by: &'a str,
    /// What is added, and which part of it.
    pub(crate) name: &'a str,
    pub(crate) count: u64,
    /// Where they go.
    pub(crate) says: &'a str,
    /// The labels of their queues.
    pub(crate) labels: &'a [&'a str],
}

/// What a batch answers to that.
#[derive(Debug)]
pub(crate) enum Given {
    Numbers {
        first: u64,
        count: u64,
        /// They were in before.
        is_in: bool,
        /// Where they go; of those that were in before, which were given up.
        says: String,
        /// The order in force: `paused`, or nothing.
        stop: String,
        /// How many batches are above it.
        depth: u64,
    },
    /// None are added any more, and why not, in a word.
    Refused(String),
    Gone,
}

/// What became of members that were pushed.
#[derive(Debug)]
pub(crate) enum Pushed {
    In,
    /// They were given up before.
    Void,
    Full(NoRoom),
}

/// Gives numbers to what is to be added, or tells which it has by its name.
pub(crate) async fn add_batch(
    on: &Connection,
    keys: &[String; 5],
    add: &NumbersFor<'_>,
) -> Result<Given, Fault> {
    let mut call = Call::new(Script::AddBatch, &keys.each_ref().map(String::as_str));
    call.arg(add.by).arg(add.name).number(add.count).arg(add.says);
    for label in add.labels {
        call.arg(label);
    }
    let mut reply = on.run(&call, CALL_WITHIN).await?;
    match reply.text()?.as_str() {
        "gone" => Ok(Given::Gone),
        "refused" => Ok(Given::Refused(reply.text()?)),
        "ok" => Ok(Given::Numbers {
            first: reply.count()?,
            count: reply.count()?,
            is_in: reply.text()? == "added",
            says: reply.text()?,
            stop: reply.text()?,
            depth: reply.count()?,
        }),
        word => Err(reply.unknown(word)),
    }
}

/// Notes that what had numbers is in, but for these, which never will be. Gives what follows.
pub(crate) async fn added_batch(
    on: &Connection,
    keys: &[String; 5],
    name: &str,
    given_up: &[(u64, u64)],
) -> Result<Vec<DueCallback>, Fault> {
    let mut call = Call::new(Script::AddedBatch, &keys.each_ref().map(String::as_str));
    call.arg(name);
    for (first, last) in given_up {
        call.number(*first).number(*last);
    }
    due(on.run(&call, CALL_WITHIN).await?)
}

/// Some of the batches that are members of this one, with their numbers.
pub(crate) async fn children_of(
    on: &Connection,
    [_, _, _, _, adds]: &[String; 5],
    cursor: u64,
) -> Result<(u64, Vec<(u64, String)>), Fault> {
    let mut reply = on.ask("HSCAN", (adds, cursor, "MATCH", "batch:*", "COUNT", 500)).await?;
    let next = reply.text()?.parse().unwrap_or(0);
    let mut fields = reply.list()?;
    let pairs = fields.rest(Reply::pair)?;
    // The first number, how many, and its id.
    let child = |(_, says): (String, String)| {
        let mut words = says.split(' ');
        Some((words.next()?.parse().ok()?, words.nth(1)?.to_owned()))
    };
    Ok((next, pairs.into_iter().filter_map(child).collect()))
}

/// A job as `push_once` takes it.
#[derive(Debug, Clone)]
pub(crate) struct Member<'a> {
    pub(crate) list: &'a str,
    pub(crate) terms: &'a str,
    pub(crate) due: Option<Due>,
    pub(crate) front: bool,
    pub(crate) envelope: &'a [u8],
}

impl Member<'_> {
    /// Whether both go to the same place at the same time.
    fn is_alike(&self, other: &Self) -> bool {
        let place = |job: &Self| (job.list, job.terms, job.due, job.front);
        place(self) == place(other)
    }
}

impl Queue {
    /// Enqueues members of a batch, unless that was done before under this token.
    pub(crate) async fn push_members(
        &self,
        on: &Connection,
        batch: &str,
        token: &str,
        jobs: &[Member<'_>],
        within: Duration,
    ) -> Result<Pushed, Fault> {
        let mut call = self.push_once(batch, token);
        for alike in jobs.chunk_by(Member::is_alike) {
            let Some(Member { list, terms, due, front, .. }) = alike.first() else { continue };
            let when = match due {
                None => String::new(),
                Some(Due::In(ms)) => format!("in {ms}"),
                Some(Due::At(ms)) => format!("at {ms}"),
            };
            let how = if *front { "RPUSH" } else { "LPUSH" };
            call.arg(list).arg(terms).arg(when).arg(how).number(alike.len() as u64);
            for job in alike {
                call.arg(job.envelope);
            }
        }
        let mut reply = on.run(&call, within).await?;
        Ok(match reply.text()?.as_str() {
            "ok" | "again" => Pushed::In,
            "void" => Pushed::Void,
            "full" => Pushed::Full(NoRoom {
                which: reply.count()? as usize,
                waiting: reply.count()?,
                most: reply.count()?,
            }),
            word => return Err(reply.unknown(word)),
        })
    }

    /// Gives members up that were to be pushed under this token: false where they are in.
    pub(crate) async fn give_up(
        &self,
        on: &Connection,
        batch: &str,
        token: &str,
    ) -> Result<bool, Fault> {
        let call = self.push_once(batch, token);
        Ok(on.run(&call, CALL_WITHIN).await?.text()? == "void")
    }
}
