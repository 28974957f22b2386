//! Reads the events of a queue.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use super::line::Line;
use super::position::{EventPosition, Mark};
use crate::client::Client;
use crate::error::Error;
use crate::hooks::{Event, EventKind};
use crate::keys::check_queue;
use crate::store::{EventEntry, Fault, Queue};

/// A reader that waits asks again after so long.
const EVERY: Duration = Duration::from_millis(200);

/// So many entries are read at once.
const ENTRIES: usize = 100;

/// Reads what happens to the jobs of a queue; [`Client::events`] makes it. It reads what workers write that run with
/// [`HWORKER_EVENTS`](https://github.com/hworker/hworker/blob/main/docs/events.md), and asks the server five times a second where there is nothing new.
///
/// A reader that is dropped, or whose process ends, loses nothing: another one goes on [from](Self::from) its [position](Self::position).
#[derive(Clone)]
#[must_use = "nothing is read until `.next().await`"]
pub struct EventReader {
    client: Client,
    queue: String,
    kinds: Option<BTreeSet<EventKind>>,
    position: EventPosition,
    /// What is read, and not given yet.
    read: VecDeque<Read>,
}

/// What is read of a shard, up to this mark; `None` where nobody asked for it.
#[derive(Debug, Clone)]
struct Read {
    shard: usize,
    mark: Mark,
    event: Option<Event>,
}

impl Client {
    /// Reads what happens to the jobs of this queue from now on, in this process and all others.
    ///
    /// ```no_run
    /// # use hworker::EventKind;
    /// # fn saved() -> hworker::EventPosition { hworker::EventPosition::start() }
    /// # fn save(_: &hworker::EventPosition) {}
    /// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
    /// let mut events = client.events("mail").kinds([EventKind::Failed, EventKind::Missed]).from(saved());
    /// loop {
    ///     let event = events.next().await?;
    ///     println!("{} {:?}: {:?}", event.kind, event.id, event.message);
    ///     save(events.position());
    /// }
    /// # }
    /// ```
    pub fn events(&self, queue: impl Into<String>) -> EventReader {
        EventReader {
            client: self.clone(),
            queue: queue.into(),
            kinds: None,
            position: EventPosition(vec![Mark::Now]),
            read: VecDeque::new(),
        }
    }
}

impl EventReader {
    /// Gives events of these kinds alone. Default: all.
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = EventKind>) -> Self {
        self.kinds = Some(kinds.into_iter().collect());
        self
    }

    /// Goes on behind this position. Where what came next is no longer kept, the first event is one of the kind [`Missed`](EventKind::Missed).
    /// [`EventPosition::start`] gives all that is kept.
    pub fn from(mut self, position: EventPosition) -> Self {
        self.position = position;
        self.read.clear();
        self
    }

    /// Behind the last event that was given.
    #[must_use]
    pub fn position(&self) -> &EventPosition {
        &self.position
    }

    /// The next event; waits until there is one. Cancel safe: an event that is not given is given by the next call.
    ///
    /// # Errors
    /// [`Error::Unavailable`], or [`Error::Refused`] where the user may not read. The next call goes on in the same place.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.next_kept().await? {
                return Ok(event);
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// The next event, if there is one already. Cancel safe, as [`next`](Self::next).
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn next_kept(&mut self) -> Result<Option<Event>, Error> {
        loop {
            while let Some(Read { shard, mark, event }) = self.read.pop_front() {
                self.position.0[shard] = mark;
                if event.is_some() {
                    return Ok(event);
                }
            }
            if !self.read_on().await? {
                return Ok(None);
            }
        }
    }

    /// Reads what comes next; false where there is nothing.
    async fn read_on(&mut self) -> Result<bool, Error> {
        check_queue(&self.queue).map_err(Error::config)?;
        let shards = self.client.shards(&self.queue, self.client.limits());
        // A queue that is spread over more shards than the position knows has nothing in those that are new which was read.
        let is_now = self.position.0 == [Mark::Now];
        self.position.0.resize(shards.len(), if is_now { Mark::Now } else { Mark::START });
        let mut read = Vec::new();
        for (number, shard) in shards.iter().enumerate() {
            let found = self.read_shard(shard, number, &mut read).await;
            found.map_err(|fault| {
                fault
                    .at(self.client.address())
                    .into_error(format!("read the events of the queue {}", self.queue))
            })?;
        }
        // Each shard is in order by itself.
        read.sort_by_key(|(at, _)| *at);
        self.read.extend(read.into_iter().map(|(_, read)| read));
        Ok(!self.read.is_empty())
    }

    /// Reads what comes next in a shard, each with the time of its entry.
    async fn read_shard(
        &mut self,
        shard: &Queue,
        number: usize,
        read: &mut Vec<(u64, Read)>,
    ) -> Result<(), Fault> {
        let on = self.client.connection_to_inspect(shard).await?;
        let Mark::Behind { entry, read: of_entry } = self.position.0[number] else {
            let last = shard.last_event(&on).await?;
            self.position.0[number] = Mark::Behind { entry: last.unwrap_or_default(), read: None };
            return Ok(());
        };
        let entries = shard.read_events(&on, entry, ENTRIES).await?;
        let mut entries = entries.into_iter().peekable();
        let skipped = match entries.peek() {
            Some(first) if first.id == entry => {
                if of_entry.is_none() {
                    entries.next();
                }
                of_entry.unwrap_or(0)
            }
            // The one that was read last is gone, so others may be that came behind it.
            Some(first) if self.position.0[number].is_entry() => {
                let (at, mark) = (first.id.0, Mark::before(first.id.0));
                let event = self.wanted(missed(&self.queue, at));
                read.push((at, Read { shard: number, mark, event }));
                0
            }
            _ => 0,
        };
        for (index, entry) in entries.enumerate() {
            self.read_entry(&entry, number, if index == 0 { skipped } else { 0 }, read);
        }
        Ok(())
    }

    /// Reads the events of an entry but for the first of them.
    fn read_entry(
        &self,
        entry: &EventEntry,
        shard: usize,
        skipped: usize,
        read: &mut Vec<(u64, Read)>,
    ) {
        let lines: Vec<_> = entry.text.lines().collect();
        for (index, line) in lines.iter().enumerate().skip(skipped) {
            let behind = Some(index + 1).filter(|behind| *behind < lines.len());
            let event = Line::event(line, &self.queue, entry.id.0, &entry.worker, entry.unsure);
            let event = event.and_then(|event| self.wanted(event));
            let mark = Mark::Behind { entry: entry.id, read: behind };
            read.push((entry.id.0, Read { shard, mark, event }));
        }
        if lines.len() <= skipped {
            let mark = Mark::Behind { entry: entry.id, read: None };
            read.push((entry.id.0, Read { shard, mark, event: None }));
        }
    }

    fn wanted(&self, event: Event) -> Option<Event> {
        let is_wanted = self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&event.kind));
        is_wanted.then_some(event)
    }
}

fn missed(queue: &str, at: u64) -> Event {
    Event {
        kind: EventKind::Missed,
        at,
        queue: queue.to_owned(),
        job: None,
        id: None,
        attempt: None,
        worker: None,
        message: None,
        elapsed: None,
        unsure: false,
    }
}

impl fmt::Debug for EventReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventReader")
            .field("queue", &self.queue)
            .field("kinds", &self.kinds)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
