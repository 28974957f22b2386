//! Pages of jobs.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::budget::{Reader, Times};
use super::filter::{Condition, Filter};
use super::groups::Group;
use super::job::JobInfo;
use super::order::Order;
use super::position::Position;
use super::{Doing, Inspect};
use crate::error::Error;
use crate::job_state::JobState;
use crate::priority::Priority;
use crate::store::{Connection, Fault, Queue, server_time};

/// A page has at most this many jobs.
const MOST: usize = 1000;

/// A page ends behind so many bytes of jobs.
const BYTES: u64 = 8 << 20;

/// How long a page looks for jobs that a filter means, before it gives what it has.
const LOOKS_FOR: Duration = Duration::from_millis(80);

/// A page of a list.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Page<T> {
    /// What it shows.
    pub items: Vec<T>,
    /// Where the next page goes on, for [`Jobs::after`]; none behind the last. A page that looked for jobs of a filter may be short,
    /// or empty, and have a next one all the same.
    pub next: Option<String>,
    /// How many jobs were looked at for it.
    pub scanned: u64,
    /// How many jobs there are in that state, with those that the filter leaves out.
    pub total: u64,
    /// Whether every job can be reached. Of a list with more than 4 million waiting jobs those in the middle cannot.
    pub complete: bool,
}

/// Asks for jobs of a queue; [`Inspect::jobs`] makes one.
///
/// ```no_run
/// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
/// use hworker::JobState;
/// let queue = client.inspect("default");
/// let mut asked = queue.jobs(JobState::Failed).filter("error:\"timed out\"".parse().expect("a filter"));
/// loop {
///     let page = asked.page().await?;
///     for job in &page.items {
///         println!("{:?} {:?}", job.id, job.message);
///     }
///     let Some(next) = page.next else { break };
///     asked = asked.after(next);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is asked before `.page().await`"]
pub struct Jobs<'a> {
    inspect: &'a Inspect,
    state: JobState,
    filter: Filter,
    order: Order,
    limit: usize,
    cursor: Option<String>,
}

impl Inspect {
    /// Asks for the jobs in one state, in pages. Waiting, scheduled and running ones begin with the one that is next, ended and parked
    /// ones with the newest. Broken payloads come in no order.
    pub fn jobs(&self, state: JobState) -> Jobs<'_> {
        let order = match state {
            JobState::Waiting | JobState::Scheduled | JobState::Running => Order::Next,
            _ => Order::Newest,
        };
        Jobs { inspect: self, state, filter: Filter::default(), order, limit: 50, cursor: None }
    }
}

impl Jobs<'_> {
    /// Only those that the filter means. A page looks for them for at most 80 ms.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// In another order.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// How many a page shows, 1 to 1,000. Default: 50. It shows fewer where they have more than 8 MB together, and has a next one then.
    pub fn limit(mut self, jobs: usize) -> Self {
        self.limit = jobs;
        self
    }

    /// Goes on behind a page, with what its [`next`](Page::next) says. Jobs that came or went meanwhile are no reason that others are shown
    /// twice or not at all, with two exceptions: among scheduled jobs of the same due time without an id in front, as producers in other
    /// languages may write them; and waiting jobs may be shown twice if the last one of the page and the one behind it have both left.
    pub fn after(mut self, next: impl Into<String>) -> Self {
        self.cursor = Some(next.into());
        self
    }

    /// Reads the page. It may be dropped at any time: it changes nothing.
    ///
    /// # Errors
    /// [`Error::Config`] for a limit or a cursor that is none; else where the server cannot be asked.
    pub async fn page(&self) -> Result<Page<JobInfo>, Error> {
        self.inspect.check()?;
        if !(1..=MOST).contains(&self.limit) {
            return Err(Error::config(format!("a page has 1 to {MOST} jobs, not {}", self.limit)));
        }
        let places = self.places().len();
        let positions = match &self.cursor {
            None => vec![Position::Start; places],
            Some(cursor) => Position::of_places(cursor, places).ok_or_else(|| {
                Error::config("the cursor is none of this queue's; begin with the first page")
            })?,
        };
        let read = self.read(positions).await;
        read.map_err(|fault| self.inspect.error(Doing::Look, fault))
    }

    async fn read(&self, mut positions: Vec<Position>) -> Result<Page<JobInfo>, Fault> {
        let (mut readers, mut total, mut now) = (Vec::new(), 0, 0);
        let places = self.places();
        for ((shard, queue, walks), position) in places.iter().zip(&positions) {
            let on = self.inspect.client.connection_to_inspect(queue).await?;
            now = server_time(&on).await?;
            let times = self.times(queue, &on, now).await?;
            let asked = (self.state, self.order);
            let mut reader = Reader::new(queue, *shard, on, asked, times, position.clone());
            if *walks {
                let lists = queue.other_lists(&reader.on).await?;
                reader = reader.walking(lists);
            }
            // Each row notes the one behind it.
            reader.portion = self.limit as u64 + 1;
            total += reader.total().await?;
            readers.push(reader);
        }
        let began = Instant::now();
        let (mut items, mut scanned, mut bytes) = (Vec::new(), 0, 0);
        let is_over = loop {
            if items.len() >= self.limit || bytes > BYTES {
                break false;
            }
            let Some(place) = self.next_of(&mut readers, began, scanned > 0).await? else {
                break readers.iter().all(|reader| reader.is_filled() && reader.first().is_none());
            };
            let Some((job, position)) = readers[place].take_first() else { break true };
            positions[place] = position;
            scanned += 1;
            let has_record = self.state.ended().is_some();
            let is_meant = if has_record {
                !self.filter.excludes_by_place(&job, now)
            } else {
                self.filter.holds(&job, now)
            };
            // Those of an ended job are read later, and bounded there.
            bytes += if is_meant { job.payload().len() as u64 } else { 0 };
            items.extend(is_meant.then_some(job));
            if has_record && items.len() == self.limit {
                self.read_records(&readers, &mut items, now).await?;
            }
        };
        self.read_records(&readers, &mut items, now).await?;
        let complete = readers.iter().all(|reader| !reader.is_cut);
        let next = (!is_over).then(|| Position::cursor(&positions));
        Ok(Page { items, next, scanned, total, complete })
    }

    /// Where its jobs are: in each shard, waiting ones in the list of each priority, and behind them in those that have limits, which are
    /// one place together.
    fn places(&self) -> Vec<(usize, Queue, bool)> {
        let waits = self.state == JobState::Waiting;
        let priorities = if waits { &Priority::ALL[..] } else { &[Priority::Normal] };
        let mut places = Vec::new();
        for (number, shard) in self.inspect.shards.iter().enumerate() {
            for priority in priorities {
                places.push((number, shard.clone().at(*priority), false));
            }
            if waits {
                places.push((number, shard.clone(), true));
            }
        }
        places
    }

    /// The place that has the next job. Portions are read where none is at hand, unless it took long enough.
    async fn next_of(
        &self,
        readers: &mut [Reader<'_>],
        began: Instant,
        has_any: bool,
    ) -> Result<Option<usize>, Fault> {
        for reader in &mut *readers {
            while !reader.is_filled() {
                // However far the server is, the next page goes on behind this one.
                if has_any && began.elapsed() >= LOOKS_FOR && !self.filter.is_empty() {
                    return Ok(None);
                }
                let asked = Instant::now();
                reader.fill().await?;
                // Others' calls come first, half of the time.
                if !self.filter.is_empty() {
                    tokio::time::sleep(asked.elapsed()).await;
                }
            }
        }
        let first = |(place, reader): (usize, &Reader<'_>)| {
            Some((reader.rank(), reader.first()?.at.unwrap_or_default(), place))
        };
        let firsts = readers.iter().enumerate().filter_map(first);
        Ok(match self.order {
            Order::Next => firsts.min(),
            Order::Newest => firsts.max_by_key(|(_, at, place)| (*at, std::cmp::Reverse(*place))),
        }
        .map(|(_, _, place)| place))
    }

    /// Reads the records of ended jobs, and leaves out those that the filter does not mean.
    async fn read_records(
        &self,
        readers: &[Reader<'_>],
        items: &mut Vec<JobInfo>,
        now: u64,
    ) -> Result<(), Fault> {
        for (shard, reader) in readers.iter().enumerate() {
            // What a filter asks of their contents can be said of large ones too.
            let jobs = items.iter_mut().filter(|job| job.guard.shard == shard);
            reader.read_records(jobs, self.filter.asks_for_contents()).await?;
        }
        items.retain(|job| self.filter.holds(job, now));
        Ok(())
    }

    /// Between which times the jobs must be that the filter means.
    async fn times(&self, queue: &Queue, on: &Connection, now: u64) -> Result<Times, Fault> {
        let mut times = Times::ALL;
        for condition in &self.filter.conditions {
            let (since, until) = match condition {
                Condition::Since(when) => (when.ms(now), u64::MAX),
                Condition::Until(when) => (0, when.ms(now)),
                Condition::Group(group) if self.state == JobState::Failed => {
                    match queue
                        .group(on, group)
                        .await?
                        .and_then(|entry| Group::parse(group, &entry))
                    {
                        // Before its first failure too: of more than 500 groups one may have been left out for a while.
                        Some(group) => (0, group.last),
                        None => continue,
                    }
                }
                _ => continue,
            };
            times = Times { since: times.since.max(since), until: times.until.min(until) };
        }
        Ok(times)
    }
}
