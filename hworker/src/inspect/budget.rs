//! Reads jobs in portions of some hundred or 1 MB: the only place that reads ranges of what a queue has.

mod list;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::VecDeque;

use super::job::{Guard, JobInfo, Stands};
use super::order::Order;
use super::position::Position;
use crate::fnv;
use crate::job_state::JobState;
use crate::limit::List;
use crate::priority::Priority;
use crate::store::{
    BrokenEntry, Connection, Fault, Lease, Place, Queue, Range, of_scheduled, read_set,
};

/// So many are asked for first where nobody says how many are wanted.
const FIRST: u64 = 64;

/// And at most so many.
const MOST: u64 = 1000;

/// A record of more bytes is not read for a list.
const LARGE_RECORD: u64 = 64 * 1024;

/// Between these times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) since: u64,
    pub(super) until: u64,
}

impl Times {
    pub(super) const ALL: Self = Self { since: 0, until: u64::MAX };
}

/// The jobs of one shard in one state, read in portions from a position on.
pub(super) struct Reader<'a> {
    queue: Cow<'a, Queue>,
    /// It reads one list after the other: these are still to come.
    walks: bool,
    lists: VecDeque<List>,
    shard: usize,
    pub(super) on: Connection,
    state: JobState,
    order: Order,
    times: Times,
    /// So many are asked for next.
    pub(super) portion: u64,
    /// Of the last row that was read.
    position: Position,
    /// Where in the list it began or goes on, and how many husks were read from there, until there is a row.
    base: Option<u64>,
    husks: u64,
    /// What was read and not taken yet.
    rows: VecDeque<(JobInfo, Position)>,
    /// Held jobs in their order: they are read at once, as there are no more than slots.
    held: Option<VecDeque<(JobInfo, Position)>>,
    /// Not all of it could be reached.
    pub(super) is_cut: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        queue: &'a Queue,
        shard: usize,
        on: Connection,
        (state, order): (JobState, Order),
        times: Times,
        position: Position,
    ) -> Self {
        Self {
            queue: Cow::Borrowed(queue),
            walks: false,
            lists: VecDeque::new(),
            shard,
            on,
            state,
            order,
            times,
            portion: FIRST,
            position,
            base: None,
            husks: 0,
            rows: VecDeque::new(),
            held: None,
            is_cut: false,
        }
    }

    /// Goes through these lists of waiting jobs, one after the other, from a position on.
    pub(super) fn walking(self, lists: Vec<List>) -> Self {
        let mut lists = VecDeque::from(lists);
        let mut position = Position::End;
        let mut queue = self.queue.into_owned();
        if let Position::In { list, position: inner } = self.position {
            lists.retain(|other| other.to_string() >= list);
            if lists.front().is_some_and(|first| first.to_string() == list) {
                queue.list = lists.pop_front().unwrap_or_default();
                position = *inner;
            }
        } else if self.position == Position::End {
            lists.clear();
        }
        Self { queue: Cow::Owned(queue), walks: true, lists, position, ..self }
    }

    /// How many jobs there are in that state.
    pub(super) async fn total(&self) -> Result<u64, Fault> {
        let (queue, keys) = (&self.queue, &self.queue.keys);
        let length = |command, key| queue.length(&self.on, command, key);
        match (self.state, self.state.ended()) {
            (_, Some(ended)) => length("ZCARD", keys.ended(ended)).await,
            (JobState::Scheduled, _) => length("ZCARD", &keys.scheduled).await,
            (JobState::Parked, _) => length("ZCARD", &keys.parked).await,
            (JobState::Broken, _) => length("HLEN", &keys.broken).await,
            (JobState::Running, _) => Ok(queue.counts(&self.on).await?[8]),
            // Its own, and those of the lists beside it.
            _ if queue.list.is_plain() && !self.walks => Ok(queue.counts(&self.on).await?[0]),
            _ => Ok(0),
        }
    }

    /// Whether a portion is at hand, or there is none.
    pub(super) fn is_filled(&self) -> bool {
        !self.rows.is_empty() || self.position == Position::End && self.lists.is_empty()
    }

    /// Among the places of waiting jobs: those that have limits come behind the others.
    pub(super) fn rank(&self) -> (bool, Priority) {
        (self.walks, self.queue.list.priority)
    }

    pub(super) fn first(&self) -> Option<&JobInfo> {
        self.rows.front().map(|(job, _)| job)
    }

    pub(super) fn take_first(&mut self) -> Option<(JobInfo, Position)> {
        let (job, position) = self.rows.pop_front()?;
        let list = self.queue.list.to_string();
        let within = |position| Position::In { list, position: Box::new(position) };
        Some((job, if self.walks { within(position) } else { position }))
    }

    /// Reads the next portion.
    pub(super) async fn fill(&mut self) -> Result<(), Fault> {
        if self.position == Position::End
            && let Some(next) = self.lists.pop_front()
        {
            self.queue.to_mut().list = next;
            (self.position, self.base, self.husks) = (Position::Start, None, 0);
        }
        match self.state {
            JobState::Waiting => self.fill_from_list().await,
            JobState::Scheduled | JobState::Parked => self.fill_from_set().await,
            JobState::Running => self.fill_from_workers().await,
            JobState::Broken => self.fill_from_broken().await,
            JobState::Failed | JobState::Cancelled | JobState::Expired | JobState::Done => {
                self.fill_from_ended().await
            }
        }
    }

    /// How many are asked for now: more each time, as who goes on after the first portion leaves most of them out.
    fn portion(&mut self) -> u64 {
        let more = (4 * self.portion).min(MOST);
        std::mem::replace(&mut self.portion, more)
    }

    async fn fill_from_set(&mut self) -> Result<(), Fault> {
        let parked = self.state == JobState::Parked;
        let keys = &self.queue.keys;
        let set = &if parked { keys.parked.clone() } else { keys.scheduled.clone() };
        // A token is a time in us.
        let per_ms = if parked { 1000 } else { 1 };
        let rows = self.sorted(set, per_ms, |member| own_id(member).to_owned()).await?;
        for (payload, score, position) in rows {
            let (list, at_once, payload) = {
                let (list, at_once, envelope) = of_scheduled(&payload);
                (list, at_once, envelope.to_vec())
            };
            let guard = Guard::of(self.shard, Stands::Sorted(score)).at(list);
            let guard = Guard { at_once, ..guard };
            let at = Some(score / per_ms);
            let job = JobInfo::of_payload(&self.queue.name, self.state, at, payload, guard);
            self.rows.push_back((job, position));
        }
        Ok(())
    }

    /// Members of a sorted set behind the position, each with its score and position. `name`: with what it begins that orders it.
    async fn sorted(
        &mut self,
        set: &str,
        per_ms: u64,
        name: impl Fn(&[u8]) -> String,
    ) -> Result<Vec<(Vec<u8>, u64, Position)>, Fault> {
        let (newest_first, count) = (self.order == Order::Newest, self.portion());
        let of_payloads = self.state.ended().is_none();
        let jobs = &self.queue.keys.jobs.clone();
        let range = |from: Option<u64>, skip: u64, count: u64| Range {
            since: self.times.since.saturating_mul(per_ms),
            until: self.times.until.saturating_mul(per_ms),
            from,
            newest_first,
            skip,
            count,
            of_payloads,
        };
        let (mut first, mut shown) = (None, 0);
        let mut members = match &self.position {
            Position::Sorted { score, before, hash, name: last } => {
                // From the row itself, if it is there still.
                let from = Some(*score);
                let mut rows =
                    read_set(&self.on, (set, jobs), range(from, *before, count + 1)).await?;
                let is_last = |row: &(Vec<u8>, u64)| row.1 == *score && fnv::hash(&row.0) == *hash;
                (first, shown) = (from, *before + 1);
                if rows.first().is_some_and(is_last) {
                    rows.remove(0);
                    if rows.is_empty() {
                        // It may be as large as a reply.
                        rows = read_set(&self.on, (set, jobs), range(from, shown, count)).await?;
                    }
                } else if !last.is_empty() {
                    // It has left, and maybe others before it: behind it is what is ordered behind it.
                    let comes_before = |row: &(Vec<u8>, u64)| {
                        let order = name(&row.0).cmp(last);
                        let before = if newest_first { Ordering::Greater } else { Ordering::Less };
                        row.1 == *score && (order == before || order == Ordering::Equal)
                    };
                    shown = 0;
                    loop {
                        rows = read_set(&self.on, (set, jobs), range(from, shown, count)).await?;
                        let gone = rows.iter().take_while(|row| comes_before(row)).count();
                        shown += gone as u64;
                        if gone < rows.len() || rows.is_empty() {
                            rows.drain(..gone);
                            break;
                        }
                    }
                }
                rows
            }
            _ => read_set(&self.on, (set, jobs), range(None, 0, count)).await?,
        };
        members.truncate(count as usize);
        if members.is_empty() {
            self.position = Position::End;
        }
        let mut rows = Vec::with_capacity(members.len());
        for (member, score) in members {
            if first != Some(score) {
                (first, shown) = (Some(score), 0);
            }
            let hash = fnv::hash(&member);
            self.position = Position::Sorted { score, before: shown, hash, name: name(&member) };
            shown += 1;
            rows.push((member, score, self.position.clone()));
        }
        Ok(rows)
    }

    async fn fill_from_ended(&mut self) -> Result<(), Fault> {
        let Some(ended) = self.state.ended() else { return Ok(()) };
        let set = self.queue.keys.ended(ended).to_owned();
        let name = |member: &[u8]| String::from_utf8_lossy(member).into_owned();
        let rows = self.sorted(&set, 1, name).await?;
        for (member, score, position) in rows {
            let member = String::from_utf8_lossy(&member).into_owned();
            let place = Place { member, ended_at: score };
            let job = JobInfo::of_place(&self.queue.name, self.state, self.shard, &place);
            self.rows.push_back((job, position));
        }
        Ok(())
    }

    /// Held jobs in the order of their leases.
    async fn fill_from_workers(&mut self) -> Result<(), Fault> {
        if self.held.is_none() {
            let held = read_held(&self.queue, self.shard, &self.on).await?;
            let last = match &self.position {
                Position::Sorted { score, name, .. } => Some((*score, name.clone())),
                _ => None,
            };
            let mut held: Vec<_> = held
                .into_iter()
                .filter(|(since, _, _)| (self.times.since..=self.times.until).contains(since))
                .collect();
            held.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
            if self.order == Order::Newest {
                held.reverse();
            }
            let is_behind = |since: u64, name: &str| {
                last.as_ref().is_none_or(|last| {
                    let order = (since, name).cmp(&(last.0, last.1.as_str()));
                    order
                        == if self.order == Order::Newest {
                            Ordering::Less
                        } else {
                            Ordering::Greater
                        }
                })
            };
            let rows = held.into_iter().filter(|(since, name, _)| is_behind(*since, name)).map(
                |(score, name, job)| (job, Position::Sorted { score, before: 0, hash: 0, name }),
            );
            self.held = Some(rows.collect());
        }
        self.rows.extend(self.held.take().unwrap_or_default());
        self.held = Some(VecDeque::new());
        self.position = match self.rows.back() {
            Some((_, position)) => position.clone(),
            None => Position::End,
        };
        Ok(())
    }

    async fn fill_from_broken(&mut self) -> Result<(), Fault> {
        let (cursor, shown, last) = match self.position {
            Position::Hash { cursor, shown, hash } => (cursor, shown, hash),
            _ => (0, 0, 0),
        };
        let count = self.portion();
        let read = |from| self.queue.broken(&self.on, from, count);
        // From the last row itself, if it is there still.
        let (mut entries, mut next) = read((cursor, shown.saturating_sub(1))).await?;
        let is_last = |(entry, _): &(BrokenEntry, _)| fnv::hash(&entry.payload) == last;
        if shown > 0 && entries.first().is_some_and(is_last) {
            entries.remove(0);
            if let (true, Some(from)) = (entries.is_empty(), next) {
                (entries, next) = read(from).await?;
            }
        } else if shown > 0 {
            // It has left, and maybe others before it.
            (entries, next) = read((cursor, 0)).await?;
        }
        for (entry, (cursor, shown)) in entries {
            let guard = Guard::of(self.shard, Stands::Broken);
            let (at, queue, hash) = (Some(entry.at), &self.queue.name, fnv::hash(&entry.payload));
            let mut job = JobInfo::of_payload(queue, self.state, at, entry.payload, guard);
            (job.times, job.message) = (Some(entry.times), Some(entry.reason));
            self.rows.push_back((job, Position::Hash { cursor, shown, hash }));
        }
        self.position = match (next, self.rows.back()) {
            (None, _) => Position::End,
            (Some((cursor, 0)), _) | (Some((cursor, _)), None) => {
                Position::Hash { cursor, shown: 0, hash: 0 }
            }
            (Some(_), Some((_, last))) => last.clone(),
        };
        Ok(())
    }
}

impl Reader<'_> {
    /// Reads the records of ended jobs that are known by their places alone; of large ones only if asked, one at a time.
    pub(super) async fn read_records(
        &self,
        jobs: impl Iterator<Item = &mut JobInfo>,
        large_too: bool,
    ) -> Result<(), Fault> {
        let mut unread = Vec::new();
        for job in jobs {
            if let (Stands::Ended(place), false) = (&job.guard.stands, job.is_read) {
                unread.push((place.clone(), job));
            }
        }
        let name = |place: &Place| place.parts().map_or("", |[_, _, name]| name).to_owned();
        let names: Vec<_> = unread.iter().map(|(place, _)| name(place)).collect();
        let records = self.queue.records(&self.on, &names, LARGE_RECORD).await?;
        for ((size, mut record), (place, job)) in records.into_iter().zip(unread) {
            if large_too && record.is_none() && size > LARGE_RECORD {
                record = self.queue.record(&self.on, &name(&place)).await?;
            }
            let (queue, state, shard) = (&self.queue.name, job.state, job.guard.shard);
            *job = JobInfo::of_record(queue, state, shard, &place, size, record.as_deref());
        }
        Ok(())
    }
}

/// The beginning of an envelope of ours, up to the end of its id, which orders it among those of one score. Nothing of an envelope
/// that begins otherwise: it may be arguments.
fn own_id(payload: &[u8]) -> &str {
    const START: &str = r#"{"v":1,"id":""#;
    let text = std::str::from_utf8(payload).unwrap_or_default();
    // With the list in front.
    let before = payload.len() - of_scheduled(payload).2.len();
    let id = text.get(before..).and_then(|text| text.strip_prefix(START)?.find('"'));
    id.map_or("", |end| &text[..before + START.len() + end])
}

/// So many lists whose jobs have limits are looked at for it.
const LOOKS_AT: usize = 20;

/// The waiting job that is next.
pub(super) async fn next_waiting(queue: &Queue, on: &Connection) -> Result<Option<JobInfo>, Fault> {
    let asked = (JobState::Waiting, Order::Next);
    let mut lists = Priority::ALL.map(List::from).to_vec();
    lists.extend(queue.other_lists(on).await?.into_iter().take(LOOKS_AT));
    for list in lists {
        let queue = queue.clone().at(list);
        let mut reader = Reader::new(&queue, 0, on.clone(), asked, Times::ALL, Position::Start);
        reader.portion = 1;
        while !reader.is_filled() {
            reader.fill().await?;
        }
        if let Some((job, _)) = reader.take_first() {
            return Ok(Some(job));
        }
    }
    Ok(None)
}

/// How many are taken before a waiting job that is not near the place at which it was seen, if it waits still: looked for by its
/// time.
pub(super) async fn waiting_again(
    queue: &Queue,
    on: &Connection,
    job: &JobInfo,
) -> Result<Option<u64>, Fault> {
    const AROUND_MS: u64 = 2_000;
    let Some(at) = job.at else { return Ok(None) };
    let times = Times { since: at.saturating_sub(AROUND_MS), until: at.saturating_add(AROUND_MS) };
    let asked = (JobState::Waiting, Order::Next);
    let mut reader = Reader::new(queue, 0, on.clone(), asked, times, Position::Start);
    loop {
        while let Some((other, _)) = reader.take_first() {
            match other.guard.stands {
                Stands::Waiting(before) if other.payload() == job.payload() => {
                    return Ok(Some(before));
                }
                _ if other.at.is_some_and(|at| at > times.until) => return Ok(None),
                _ => {}
            }
        }
        if reader.is_filled() {
            return Ok(None);
        }
        reader.fill().await?;
    }
}

/// All that workers hold, each with since when and the name of its lease.
pub(super) async fn read_held(
    queue: &Queue,
    shard: usize,
    on: &Connection,
) -> Result<Vec<(u64, String, JobInfo)>, Fault> {
    let now = crate::store::server_time(on).await?;
    let mut held = Vec::new();
    for worker in queue.worker_ids(on).await? {
        for entry in queue.running(on, &queue.keys.worker(&worker)).await? {
            let since = entry.lease.as_ref().map_or(now, |lease| lease.token() / 1000);
            let name = entry.lease.as_ref().map(ToString::to_string).unwrap_or_default();
            let list = entry.lease.as_ref().and_then(Lease::list).cloned().unwrap_or_default();
            let stands = Stands::Running(worker.clone(), entry.lease);
            let guard = Guard::of(shard, stands).at(list);
            let state = JobState::Running;
            let mut job =
                JobInfo::of_payload(&queue.name, state, Some(since), entry.payload, guard);
            job.worker = Some(worker.clone());
            held.push((since, format!("{worker} {name}"), job));
        }
    }
    Ok(held)
}
