//! Reads of lists, sorted sets and hashes in portions: no reply has more than 1 MB and one element.

use redis::ToRedisArgs;

use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, SCRIPT_BYTES, SCRIPT_JOBS, Script};

/// A list is read no deeper than this from its nearer end: a server walks there node by node, and this takes it up to 4 ms.
/// A test of the library itself has no time to fill so much.
pub(crate) const DEEPEST: u64 = if cfg!(test) { 20_000 } else { 2_000_000 };

/// A script reads no more elements than this, and about half of the bytes that others move: it looks at elements nearly one by one, and
/// copies them once more for the reply.
const AT_ONCE: u64 = 500;

/// A part of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    /// How many are before its first.
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Counted from the right end.
    pub(crate) from_right: bool,
}

/// A part of a sorted set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    /// The lowest and the highest score.
    pub(crate) since: u64,
    pub(crate) until: u64,
    /// The score at which it begins.
    pub(crate) from: Option<u64>,
    pub(crate) newest_first: bool,
    pub(crate) skip: u64,
    pub(crate) count: u64,
    /// Its members are payloads, and no places of records: they may be large.
    pub(crate) of_payloads: bool,
}

/// Where in a hash: a cursor of `HSCAN`, and how many of its fields were read.
pub(crate) type HashPlace = (u64, u64);

/// A field of a hash, its value, and where it ends.
pub(crate) type Entry = (Vec<u8>, Vec<u8>, HashPlace);

/// The length of a list, and its payloads at some places: none behind its end, or deeper than can be read.
pub(crate) async fn read_list(
    on: &Connection,
    list: &str,
    places: Places,
) -> Result<(u64, Vec<Vec<u8>>), Fault> {
    read_jobs(on, (list, list, ""), places, u64::MAX).await
}

/// The same of a list of a queue, whose plain one is `jobs`: for ids the payloads, where it has such, which its name says. An empty one
/// stands for a payload of more bytes than `largest`.
async fn read_jobs(
    on: &Connection,
    (list, jobs, by_id): (&str, &str, &str),
    places: Places,
    largest: u64,
) -> Result<(u64, Vec<Vec<u8>>), Fault> {
    let mut call = Call::new(Script::ReadList, &[list, jobs]);
    call.number(places.first).arg(if places.from_right { "right" } else { "left" });
    bounded(&mut call, places.count).number(DEEPEST).arg(by_id).number(largest);
    let mut reply = on.run(&call, CALL_WITHIN).await?;
    Ok((reply.count()?, reply.rest(Reply::bytes)?))
}

impl Queue {
    /// The length of its list, and its payloads at some places.
    pub(crate) async fn read(
        &self,
        on: &Connection,
        places: Places,
    ) -> Result<(u64, Vec<Vec<u8>>), Fault> {
        self.read_up_to(on, places, u64::MAX).await
    }

    /// The same, without payloads of more bytes than this: in place of each is an empty one.
    pub(super) async fn read_up_to(
        &self,
        on: &Connection,
        places: Places,
        largest: u64,
    ) -> Result<(u64, Vec<Vec<u8>>), Fault> {
        let name = if self.list.by_id { self.list.to_string() } else { String::new() };
        let lists = (&*self.keys.list(&self.list), &*self.keys.jobs, &*name);
        read_jobs(on, lists, places, largest).await
    }
}

/// Members of a sorted set of a queue, whose plain list is `jobs`, with their scores.
pub(crate) async fn read_set(
    on: &Connection,
    (set, jobs): (&str, &str),
    range: Range,
) -> Result<Vec<(Vec<u8>, u64)>, Fault> {
    // What has no bound has none, as somebody else may have written any score.
    let since = if range.since == 0 { "-inf".into() } else { range.since.to_string() };
    let until = if range.until == u64::MAX { "+inf".into() } else { range.until.to_string() };
    let (begin, end) = if range.newest_first { (until, since) } else { (since, until) };
    let mut call = Call::new(Script::ReadSet, &[set, jobs]);
    call.arg(range.from.map_or(begin, |from| from.to_string())).arg(end);
    call.arg(if range.newest_first { "down" } else { "up" }).number(range.skip);
    bounded(&mut call, range.count).number(if range.of_payloads { 2 } else { 100 });
    on.run(&call, CALL_WITHIN).await?.rest(|reply| {
        let (member, score) = (reply.bytes()?, reply.text()?);
        let score: f64 = score.parse().map_err(|_| reply.fault("not a score"))?;
        // As a whole number of 63 bits, which is how an edit compares it.
        Ok((member, u64::try_from(score as i64).unwrap_or(0)))
    })
}

/// Fields of a hash from a place on, and where it goes on: nowhere behind the last.
pub(crate) async fn read_hash(
    on: &Connection,
    hash: &str,
    (cursor, skip): HashPlace,
    count: u64,
) -> Result<(Vec<Entry>, Option<HashPlace>), Fault> {
    let mut call = Call::new(Script::ReadHash, &[hash]);
    call.number(cursor).number(skip);
    bounded(&mut call, count);
    let mut reply = on.run(&call, CALL_WITHIN).await?;
    // It may have 64 bits.
    let read = |reply: &mut Reply| Ok(reply.text()?.parse().unwrap_or(0));
    let next = (read(&mut reply)?, reply.count()?);
    let mut last = (cursor, skip);
    let entries = reply.list()?.rest(|reply| {
        let cursor = read(reply)?;
        last = (cursor, if cursor == last.0 { last.1 + 1 } else { 1 });
        Ok((reply.bytes()?, reply.bytes()?, last))
    });
    Ok((entries?, Some(next).filter(|next| *next != (0, 0))))
}

/// Adds how many and how much a script reads at most.
fn bounded(call: &mut Call, count: u64) -> &mut Call {
    call.number(count.min(AT_ONCE)).number(SCRIPT_BYTES as u64 / 2)
}

/// All fields of a hash with their values.
pub(super) async fn whole_hash(
    on: &Connection,
    hash: &str,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Fault> {
    // A hash may give a field twice while it is being rehashed.
    let mut all = std::collections::BTreeMap::new();
    let mut place = Some((0, 0));
    while let Some(from) = place {
        let (entries, next) = read_hash(on, hash, from, AT_ONCE).await?;
        all.extend(entries.into_iter().map(|(field, value, _)| (field, value)));
        place = next;
    }
    Ok(all.into_iter().collect())
}

/// The sizes of these fields of a hash, 0 where there is none, and the values of those that are not larger than `largest`.
pub(super) async fn fields<T: ToRedisArgs + Sync>(
    on: &Connection,
    hash: &str,
    names: &[T],
    largest: u64,
) -> Result<Vec<(u64, Option<Vec<u8>>)>, Fault> {
    let mut fields = Vec::with_capacity(names.len());
    for names in names.chunks(SCRIPT_JOBS) {
        let mut ask = redis::Pipeline::with_capacity(names.len());
        for name in names {
            ask.cmd("HSTRLEN").arg(hash).arg(name);
        }
        let first = fields.len();
        for size in on.ask_all(&ask).await? {
            fields.push((size?.count()?, None));
        }
        let (mut bytes, mut wanted) = (0, Vec::new());
        for at in 0..names.len() {
            let size = fields[first + at].0;
            if size <= largest {
                wanted.push(at);
                bytes += size;
            }
            let is_last = at + 1 == names.len();
            if !wanted.is_empty() && (is_last || bytes >= SCRIPT_BYTES as u64) {
                let some: Vec<_> = wanted.iter().map(|at| &names[*at]).collect();
                let mut values = on.ask("HMGET", (hash, some)).await?;
                for at in wanted.drain(..) {
                    fields[first + at].1 = values.maybe_payload()?;
                }
                bytes = 0;
            }
        }
    }
    Ok(fields)
}

/// One field of a hash.
pub(super) async fn field(
    on: &Connection,
    hash: &str,
    name: &str,
) -> Result<Option<Vec<u8>>, Fault> {
    let mut value = on.ask("HGET", (hash, name)).await?;
    if value.left() == 0 { Ok(None) } else { value.bytes().map(Some) }
}
