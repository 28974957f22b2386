//! The jobs of a list: a row is found again wherever it stands now, as it has no name there.

use super::{MOST, Reader};
use crate::fnv;
use crate::inspect::job::{Guard, JobInfo, Stands};
use crate::inspect::order::Order;
use crate::inspect::position::Position;
use crate::job_state::JobState;
use crate::store::{DEEPEST, Fault, HUSK, Places, is_ticket};

/// As far around its place a row is looked for first.
const AROUND: u64 = 64;

/// Then in so many portions of those of its time.
const PORTIONS: usize = 20;

/// In place of the hash of a row where the list ended.
const NOTHING: u64 = 0;

impl Reader<'_> {
    /// The length of the list, and payloads from a place on, counted from the end where the order begins.
    async fn list(&self, first: u64, count: u64) -> Result<(u64, Vec<Vec<u8>>), Fault> {
        let from_right = self.order == Order::Next;
        let places = Places { first, count, from_right };
        self.queue.read(&self.on, places).await
    }

    pub(super) async fn fill_from_list(&mut self) -> Result<(), Fault> {
        let base = match (self.base, &self.position) {
            (Some(base), _) => base,
            (None, Position::List { place, hash, at, next }) => {
                self.behind((*place, *at), (*hash, *next)).await?
            }
            (None, _) => self.first_in_time().await?,
        };
        self.base = Some(base);
        let (place, count) = (base + self.husks, self.portion());
        let (length, payloads) = self.list(place, count).await?;
        if payloads.is_empty() {
            self.is_cut |= place < length;
            // What is too deep from both ends is left out.
            match length.saturating_sub(DEEPEST) {
                behind if behind > place => (self.base, self.husks) = (Some(behind), 0),
                _ => self.position = Position::End,
            }
            return Ok(());
        }
        let read = payloads.len();
        // The last one comes again with those behind it, as a row notes which is behind it.
        let is_end = place + read as u64 >= length;
        let taken = if is_end { read } else { (read - 1).max(1) };
        let mut next = is_end.then_some(NOTHING);
        for (at, payload) in payloads.into_iter().enumerate().rev() {
            if payload == HUSK || is_ticket(&payload) {
                continue;
            }
            let hash = fnv::hash(&payload);
            if at < taken {
                let place = place + at as u64;
                let stands = Stands::Waiting(self.before(place, length));
                let guard = Guard::of(self.shard, stands).at(self.queue.list.clone());
                let job = JobInfo::of_payload(&self.queue.name, self.state, None, payload, guard);
                let (at, next) = (job.at.unwrap_or_default(), next.unwrap_or(hash));
                self.rows.push_front((job, Position::List { place, hash, at, next }));
            }
            next = Some(hash);
        }
        match self.rows.back() {
            Some((_, last)) => {
                (self.position, self.base, self.husks) = (last.clone(), None, 0);
            }
            None => self.husks += taken as u64,
        }
        Ok(())
    }

    /// How many are taken before the one at this place of a list of this length.
    fn before(&self, place: u64, length: u64) -> u64 {
        match self.order {
            Order::Next => place,
            Order::Newest => length.saturating_sub(place + 1),
        }
    }

    /// Where the list goes on behind a row that was seen at this place and is of this time, by its hash, or if it has left by that of the
    /// one that was behind it.
    async fn behind(&self, (place, at): (u64, u64), hashes: (u64, u64)) -> Result<u64, Fault> {
        let found = |first: u64, rows: &[Vec<u8>]| {
            let stands = |hash| rows.iter().position(|row| fnv::hash(row) == hash);
            let behind = stands(hashes.0).map(|last| last + 1).or_else(|| stands(hashes.1))?;
            Some(first + behind as u64)
        };
        for around in [0, AROUND / 16, AROUND / 4, AROUND] {
            let first = place.saturating_sub(around);
            let (_, rows) = self.list(first, place + around + 1 - first).await?;
            if let Some(place) = found(first, &rows) {
                return Ok(place);
            }
        }
        let near = match self.order {
            // New ones push it on.
            Order::Newest => place,
            Order::Next if hashes.1 == NOTHING => self.place_of_time(at.saturating_add(1)).await?,
            Order::Next => self.place_of_time(at).await?,
        };
        let mut first = near;
        for _ in 0..PORTIONS {
            let (_, rows) = self.list(first, MOST).await?;
            if let Some(place) = found(first, &rows) {
                return Ok(place);
            }
            first += rows.len() as u64;
            let time = rows.last().and_then(|row| enqueued_at(row));
            if rows.is_empty()
                || time.is_some_and(|time| time != at && !self.comes_before(time, at))
            {
                break;
            }
        }
        // Both have left. Nothing is left out: in front of it jobs of its time may come again, or behind it those that new ones pushed on.
        Ok(near)
    }

    /// The first place within the times that are asked for.
    async fn first_in_time(&self) -> Result<u64, Fault> {
        match self.order {
            Order::Next if self.times.since > 0 => self.place_of_time(self.times.since).await,
            Order::Newest if self.times.until < u64::MAX => {
                self.place_of_time(self.times.until).await
            }
            _ => Ok(0),
        }
    }

    /// Whether one time comes before another in the order of the page.
    fn comes_before(&self, one: u64, other: u64) -> bool {
        match self.order {
            Order::Next => one < other,
            Order::Newest => one > other,
        }
    }

    /// The place from which on jobs were enqueued at this time or later in the order of the page: found by halves, each by the middle of
    /// five neighbours' times, as producers' clocks differ.
    async fn place_of_time(&self, at: u64) -> Result<u64, Fault> {
        let length =
            self.queue.length(&self.on, "LLEN", &self.queue.keys.list(&self.queue.list)).await?;
        let (mut low, mut high) = (0, length.min(DEEPEST));
        while low < high {
            let middle = low.midpoint(high);
            let (_, neighbours) = self.list(middle, 5).await?;
            let mut times: Vec<u64> =
                neighbours.iter().filter_map(|row| enqueued_at(row)).collect();
            times.sort_unstable();
            match times.get(times.len() / 2) {
                Some(time) if self.comes_before(*time, at) => low = middle + 1,
                _ => high = middle,
            }
        }
        // The middle one of the five is two places further on.
        let (_, first) = self.list(low, 2).await?;
        let is_before = |row: &&Vec<u8>| {
            *row == HUSK
                || is_ticket(row)
                || enqueued_at(row).is_some_and(|time| self.comes_before(time, at))
        };
        Ok(low + first.iter().take_while(is_before).count() as u64)
    }
}

fn enqueued_at(payload: &[u8]) -> Option<u64> {
    let guard = Guard::of(0, Stands::Broken);
    JobInfo::of_payload("", JobState::Waiting, None, payload.to_vec(), guard).at
}
