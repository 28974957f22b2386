//! Where each job is, as the server's own log tells it.
//!
//! The ledger follows every list, set and hash of the queues as `docs/wire-format.md` describes them, and looks at the end
//! of each change whether what the change did is a move that hworker may make. A server that is killed comes back with the
//! state after one of these changes: so each of them is a crash that was looked at.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::aof::Command;
use crate::change::{Change, Place};
use crate::jobs::{Limited, QUEUES, limited, list_of, priority_list};
use crate::limits::Limits;
use crate::names::{HUSK, Key, Kind, TICKET, list_in, number_in, number_of};

/// A lease: the queue, and the token.
pub(crate) type Lease = (u8, u64);

/// How a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Acked,
    Retried,
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    Broken,
    /// Put aside for a worker that can run it.
    Parked,
    /// Given back by its worker.
    Released,
    /// Taken back from its worker.
    Recovered,
    /// Taken out of its list by an operator, without a lease.
    Deleted,
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// A job is there that was nowhere.
    Entered {
        n: u32,
    },
    Granted {
        n: u32,
        lease: Lease,
        worker: String,
    },
    /// What had a lease came to its end, or waits again.
    LeaseEnded {
        n: u32,
        lease: Lease,
        how: Ended,
    },
    /// The job came to its end without a lease.
    SetAside {
        n: u32,
        how: Ended,
    },
    /// An operator took it out of its list.
    Deleted {
        n: u32,
    },
    /// An operator let a failed job run again.
    Again {
        n: u32,
    },
    /// A worker was marked dead in a queue, by others or by itself.
    Dead {
        queue: u8,
        worker: String,
    },
    /// A heartbeat, or the first word of a worker.
    Pulse {
        queue: u8,
        worker: String,
        /// By the server's clock.
        ms: u64,
    },
    /// A move that must not be.
    Wrong {
        rule: &'static str,
        detail: String,
    },
}

/// Where each job is.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    lists: HashMap<Vec<u8>, VecDeque<u32>>,
    /// The jobs that are known by their ids, by the queue and the id, but for those that run.
    ids: HashMap<(u8, Vec<u8>), u32>,
    /// Which jobs hold a key: those that are somewhere and not at their end.
    alone: HashMap<u32, HashSet<u32>>,
    scheduled: HashMap<u8, HashSet<u32>>,
    parked: HashMap<u8, HashSet<u32>>,
    progress: HashMap<Vec<u8>, HashMap<u64, u32>>,
    /// How many copies there are of a job that has not come to its end.
    copies: HashMap<u32, u8>,
    last_token: [u64; QUEUES.len()],
    counters: [HashMap<String, i64>; QUEUES.len()],
    held: usize,
    /// The jobs that were in a list beside the plain one, and go on in it.
    listed: HashSet<u32>,
    pub(crate) limits: Limits,
    /// Which queues are paused.
    paused: [bool; QUEUES.len()],
    /// How many husks there are in each queue.
    husks: [i64; QUEUES.len()],
    /// The jobs of which there is a record, by the queue and the name of it.
    records: HashMap<(u8, Vec<u8>), u32>,
    /// How many of each queue an operator let run again.
    run_again: [i64; QUEUES.len()],
    change: Change,
}

impl Ledger {
    /// How many leases are held.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// How many jobs are somewhere and not at their end, and husks with them.
    pub(crate) fn open(&self) -> usize {
        self.copies.len() + self.husks.iter().sum::<i64>() as usize
    }

    /// How many failed jobs of a queue an operator let run again.
    pub(crate) fn run_again(&self, queue: usize) -> i64 {
        self.run_again[queue]
    }

    /// A counter of a queue, as all increments make it.
    pub(crate) fn counter(&self, queue: usize, name: &str) -> i64 {
        self.counters[queue].get(name).copied().unwrap_or(0)
    }

    /// Every counter of a queue.
    pub(crate) fn counters(&self, queue: usize) -> impl Iterator<Item = (&str, i64)> {
        self.counters[queue].iter().map(|(name, count)| (name.as_str(), *count))
    }

    /// The jobs that are not at their end, and where they are.
    pub(crate) fn left(&self) -> Vec<(u32, String)> {
        let key = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let lists =
            self.lists.iter().flat_map(|(name, jobs)| jobs.iter().map(move |n| (*n, key(name))));
        let held = self.progress.iter().flat_map(|(name, jobs)| {
            jobs.iter().map(move |(token, n)| (*n, format!("{} {token}", key(name))))
        });
        let known = self.ids.iter().map(|((queue, id), n)| {
            (*n, format!("{} in {}", key(id), QUEUES[usize::from(*queue)]))
        });
        let sets = [("scheduled", &self.scheduled), ("parked", &self.parked)];
        let sets = sets.into_iter().flat_map(|(what, set)| {
            set.iter().flat_map(move |(queue, jobs)| {
                let queue = QUEUES[usize::from(*queue)];
                jobs.iter().map(move |n| (*n, format!("{what} in {queue}")))
            })
        });
        lists.chain(held).chain(known).chain(sets).filter(|(n, _)| *n != TICKET).collect()
    }

    /// What is in inboxes, and in which.
    pub(crate) fn in_inboxes(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let inboxes = self.lists.iter().filter(|(name, _)| name.starts_with(b"hworker-inbox-"));
        let jobs = inboxes.flat_map(|(name, jobs)| jobs.iter().map(|n| (*n, name.as_slice())));
        jobs.filter(|(n, _)| *n != TICKET)
    }

    /// Follows one change, and says what it did.
    pub(crate) fn apply(&mut self, commands: &[Command]) -> Vec<Event> {
        let mut events = Vec::new();
        for command in commands {
            if let [name, key, rest @ ..] = command.as_slice()
                && let Some(of) = Key::of(key)
            {
                self.command(&name.to_ascii_uppercase(), key, &of, rest, &mut events);
            }
        }
        let mut change = std::mem::take(&mut self.change);
        for (queue, by) in change.husks_that_are_ids() {
            self.husks[queue] += by;
        }
        let mut doubled = Vec::new();
        for queue in change.queues_of_husks() {
            let (there, counted) = (self.husks[queue], self.counter(queue, "husks"));
            if there != counted {
                let detail = format!("{there} in {}, and {counted} are counted", QUEUES[queue]);
                change.wrong("every husk is counted", detail);
            }
        }
        for (n, step) in change.steps() {
            let copies = step.after;
            match copies {
                0 => self.copies.remove(&n),
                _ => self.copies.insert(n, copies),
            };
            if let Some(Limited::Alone(key)) = limited(n) {
                let holders = self.alone.entry(key).or_default();
                if copies == 0 {
                    holders.remove(&n)
                } else {
                    holders.insert(n)
                };
                if holders.len() > 1 {
                    doubled.push(format!("{holders:?} hold the key {key}"));
                }
            }
        }
        for detail in doubled {
            change.wrong("no two jobs hold one key", detail);
        }
        change.judge(&mut events);
        for detail in self.limits.turn(&events, change.moved()) {
            events.push(Event::Wrong { rule: "the jobs of a key keep their order", detail });
        }
        self.change = change.cleared();
        events
    }

    fn command(
        &mut self,
        name: &[u8],
        key: &[u8],
        of: &Key,
        rest: &[Vec<u8>],
        events: &mut Vec<Event>,
    ) {
        match (name, of.kind) {
            // Ids, which say where their jobs are.
            (b"LPUSH" | b"RPUSH", Kind::Jobs) if of.part.contains('*') => {}
            (b"LPOP" | b"RPOP", Kind::Jobs) if of.part.contains('*') => {
                self.change.takes_ids();
            }
            (b"HSET", Kind::Ids) => {
                for pair in rest.chunks_exact(2) {
                    self.stands(of, &pair[0], &pair[1]);
                }
            }
            (b"HDEL", Kind::Ids) => {
                for id in rest {
                    if let Some(n) = self.ids.remove(&(of.queue, id.clone())) {
                        let copies = self.copies(n);
                        self.change.is_taken_out(n, copies);
                        self.change.takes_ids();
                    }
                }
            }
            (b"LPUSH" | b"RPUSH", Kind::Jobs | Kind::Inbox) => {
                for payload in rest {
                    self.push(key, of, number_of(payload), name == b"LPUSH");
                }
            }
            (b"HSETNX" | b"HSET", Kind::Record) => {
                if let [id, record, ..] = rest {
                    let is_cancelled = is_in(record, br#""outcome":"cancelled""#);
                    self.ends(record, if is_cancelled { Place::Cancelled } else { Place::Failed });
                    if let Some(n) = number_in(record) {
                        self.records.insert((of.queue, id.clone()), n);
                        // An operator who lets it run again need not know its limits.
                        self.listed.remove(&n);
                    }
                }
            }
            (b"HDEL", Kind::Record) => {
                for id in rest {
                    if let Some(n) = self.records.remove(&(of.queue, id.clone())) {
                        let copies = self.copies(n);
                        self.change.loses_its_record(n, copies);
                        self.run_again[usize::from(of.queue)] += 1;
                    }
                }
            }
            (b"HSET", Kind::Control) if rest.first().is_some_and(|field| field == b"paused") => {
                self.paused[usize::from(of.queue)] = true;
            }
            (b"HDEL", Kind::Control) if rest.first().is_some_and(|field| field == b"paused") => {
                self.paused[usize::from(of.queue)] = false;
            }
            (b"LSET", Kind::Jobs) => self.set(key, of, rest),
            (b"LPOP" | b"RPOP", Kind::Jobs | Kind::Inbox) => {
                let count = rest.first().and_then(|count| number(count)).unwrap_or(1);
                for _ in 0..count {
                    self.pop(key, of, name == b"LPOP");
                }
            }
            (b"LMOVE", Kind::Jobs | Kind::Inbox) => self.list_move(key, of, rest),
            (b"HSET", Kind::Progress) => self.grant(key, of, rest, events),
            (b"HDEL", Kind::Progress) => self.end_leases(key, of, rest),
            (b"HSET", Kind::Broken) => {
                for payload in rest.iter().step_by(2) {
                    self.ends(payload, Place::Broken);
                }
            }
            (b"ZADD", Kind::Scheduled | Kind::Parked) => {
                for payload in rest.iter().skip(1).step_by(2).filter(|member| !is_of_id(member)) {
                    self.add(of, payload);
                }
            }
            (b"ZREM", Kind::Scheduled | Kind::Parked) => {
                for payload in rest.iter().filter(|member| !is_of_id(member)) {
                    self.remove(of, payload);
                }
            }
            (b"ZADD", Kind::Workers) => {
                for beat in rest.chunks_exact(2) {
                    let (queue, ms) = (of.queue, number(&beat[0]).unwrap_or(0));
                    let worker = text(&beat[1]);
                    events.push(Event::Pulse { queue, worker, ms });
                }
            }
            (b"HSETNX", Kind::Worker) if rest.first().is_some_and(|field| field == b"dead") => {
                events.push(Event::Dead { queue: of.queue, worker: of.part.clone() });
            }
            (b"HINCRBY", Kind::Stat) if of.part.is_empty() => self.count(of.queue, rest),
            (
                b"DEL" | b"UNLINK",
                Kind::Jobs | Kind::Inbox | Kind::Progress | Kind::Scheduled | Kind::Parked,
            ) => {
                let (rule, key) = ("a structure was deleted", text(key));
                events.push(Event::Wrong { rule, detail: key });
            }
            _ => {}
        }
    }

    fn copies(&self, n: u32) -> u8 {
        self.copies.get(&n).copied().unwrap_or(0)
    }

    fn push(&mut self, key: &[u8], of: &Key, n: Option<u32>, left: bool) {
        let Some(n) = n else { return self.change.wrong("a payload that nobody wrote", text(key)) };
        if n == HUSK {
            self.husk(of.queue, 1);
        }
        let list = self.lists.entry(key.to_vec()).or_default();
        if left {
            list.push_front(n);
        } else {
            list.push_back(n);
        }
        if n == TICKET {
            return;
        }
        if of.kind == Kind::Jobs {
            self.goes_to(n, Some(&*of.part).filter(|list| !list.is_empty()));
        }
        if n != HUSK {
            let place = if of.kind == Kind::Jobs { Place::Waiting } else { Place::Inbox };
            let copies = self.copies(n);
            self.change.enters(n, copies, place);
        }
    }

    /// A job that is known by its id stands somewhere, unless it runs, or another has its place.
    fn stands(&mut self, of: &Key, id: &[u8], value: &[u8]) {
        let n = number_in(value);
        if let Some(before) = self.ids.remove(&(of.queue, id.to_vec())) {
            let copies = self.copies(before);
            self.change.leaves(before, copies, None, false);
            // Put to another place by hand.
            self.change.takes_ids();
        }
        let (Some(n), Some((state, rest))) = (n, value.split_first()) else { return };
        let list = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        self.goes_to(n, Some(&text(list)));
        self.ids.insert((of.queue, id.to_vec()), n);
        let place = match state {
            b's' => Place::Scheduled,
            b'p' => Place::Parked,
            _ => Place::Waiting,
        };
        let copies = self.copies(n);
        self.change.enters(n, copies, place);
    }

    /// A job stands in a list, or is held or scheduled as one of it; none is the plain one.
    fn goes_to(&mut self, n: u32, list: Option<&str>) {
        if n == HUSK {
            return;
        }
        // By those who do not know its limits, or write no priority, it is put where it does not belong, once.
        let (own, of_priority) = (list_of(n), priority_list(n));
        let list = list.unwrap_or_default();
        if list.contains("+!cancelled") {
            // Where the next worker ends it.
            self.change.is_routed(n);
            return self.limits.gives_way(n);
        }
        let keeps_it = if list == own {
            if !list.is_empty() && self.listed.insert(n) {
                self.change.is_routed(n);
            }
            true
        } else {
            !self.listed.contains(&n) && (list.is_empty() || list == of_priority)
        };
        if !keeps_it {
            let detail = format!("job {n}, which is one of `{own}`, in `{list}`");
            self.change.wrong("a job keeps its list", detail);
        }
    }

    fn husk(&mut self, queue: u8, by: i64) {
        self.husks[usize::from(queue)] += by;
        self.change.husk_of(usize::from(queue));
    }

    /// An operator puts something else in the place of a job; only husks are put there in the suite.
    fn set(&mut self, key: &[u8], of: &Key, rest: &[Vec<u8>]) {
        let [index, payload] = rest else { return };
        let list = self.lists.entry(key.to_vec()).or_default();
        let index = text(index).parse().unwrap_or(0_isize);
        let from_left = if index < 0 { list.len().checked_add_signed(index) } else { None };
        let there = from_left.and_then(|index| list.get_mut(index));
        let (Some(there), Some(HUSK)) = (there, number_of(payload)) else {
            return self.change.wrong("an edit leaves a husk", format!("{index} of {}", text(key)));
        };
        let n = std::mem::replace(there, HUSK);
        self.husk(of.queue, 1);
        if n == HUSK {
            self.husk(of.queue, -1);
            return self.change.wrong("an edit leaves a husk", "in the place of one".to_owned());
        }
        let copies = self.copies(n);
        self.change.is_taken_out(n, copies);
    }

    fn pop(&mut self, key: &[u8], of: &Key, left: bool) -> Option<u32> {
        let list = self.lists.get_mut(key)?;
        let n = if left { list.pop_front() } else { list.pop_back() }?;
        if list.is_empty() {
            self.lists.remove(key);
        }
        if n == TICKET {
            return Some(n);
        }
        if n == HUSK {
            self.husk(of.queue, -1);
            return Some(n);
        }
        let copies = self.copies(n);
        self.change.leaves(n, copies, None, of.kind == Kind::Inbox);
        Some(n)
    }

    fn list_move(&mut self, key: &[u8], of: &Key, rest: &[Vec<u8>]) {
        let [to, from_end, to_end, ..] = rest else { return };
        let Some(to_key) = Key::of(to) else { return };
        if let Some(n) = self.pop(key, of, from_end.eq_ignore_ascii_case(b"LEFT")) {
            self.push(to, &to_key, Some(n), to_end.eq_ignore_ascii_case(b"LEFT"));
        }
    }

    fn grant(&mut self, key: &[u8], of: &Key, rest: &[Vec<u8>], events: &mut Vec<Event>) {
        for pair in rest.chunks_exact(2) {
            let (Some(token), Some(n)) = (token(&pair[0]), number_of(&pair[1])) else {
                self.change.wrong("a payload that nobody wrote", text(&pair[0]));
                continue;
            };
            if self.paused[usize::from(of.queue)] {
                let detail = format!("job {n} of {}", QUEUES[usize::from(of.queue)]);
                self.change.wrong("no job is taken from a paused queue", detail);
            }
            let last = &mut self.last_token[usize::from(of.queue)];
            if token <= *last {
                self.change.wrong("tokens grow", format!("{token} after {last}, job {n}"));
            }
            *last = token.max(*last);
            self.progress.entry(key.to_vec()).or_default().insert(token, n);
            self.held += 1;
            if n == HUSK {
                self.husk(of.queue, 1);
                continue;
            }
            self.goes_to(n, list_in(&pair[0]));
            let copies = self.copies(n);
            self.change.enters(n, copies, Place::Held);
            let (lease, worker) = ((of.queue, token), of.part.clone());
            if let Some(detail) =
                self.limits.hold(lease, list_in(&pair[0]).unwrap_or_default(), &worker)
            {
                self.change.wrong("no limit is exceeded", detail);
            }
            events.push(Event::Granted { n, lease, worker });
        }
    }

    fn end_leases(&mut self, key: &[u8], of: &Key, rest: &[Vec<u8>]) {
        let Some(leases) = self.progress.get_mut(key) else { return };
        let mut ended = Vec::new();
        for token in rest.iter().filter_map(|lease| token(lease)) {
            ended.extend(leases.remove(&token).map(|n| (n, token)));
        }
        if leases.is_empty() {
            self.progress.remove(key);
        }
        self.held -= ended.len();
        for (n, token) in ended {
            self.limits.free((of.queue, token));
            if n == HUSK {
                self.husk(of.queue, -1);
                self.change.husk_is_freed();
                continue;
            }
            let copies = self.copies(n);
            self.change.leaves(n, copies, Some((of.queue, token)), false);
        }
    }

    fn set_of(&mut self, of: &Key) -> &mut HashSet<u32> {
        let sets = if of.kind == Kind::Parked { &mut self.parked } else { &mut self.scheduled };
        sets.entry(of.queue).or_default()
    }

    fn add(&mut self, of: &Key, payload: &[u8]) {
        let Some(n) = number_in(payload) else {
            return self.change.wrong("a payload that nobody wrote", format!("{:?}", of.kind));
        };
        if of.kind == Kind::Parked {
            // Who takes it from there puts it where it belongs.
            self.listed.remove(&n);
        } else {
            self.goes_to(n, list_in(payload));
        }
        let copies = self.copies(n);
        self.set_of(of).insert(n);
        let place = if of.kind == Kind::Parked { Place::Parked } else { Place::Scheduled };
        self.change.enters(n, copies, place);
    }

    fn remove(&mut self, of: &Key, payload: &[u8]) {
        let Some(n) = number_in(payload) else { return };
        if self.set_of(of).remove(&n) {
            let copies = self.copies(n);
            self.change.leaves(n, copies, None, false);
        }
    }

    fn ends(&mut self, payload: &[u8], place: Place) {
        let Some(n) = number_in(payload) else {
            return self.change.wrong("a payload that nobody wrote", format!("{place:?}"));
        };
        let copies = self.copies(n);
        self.change.comes_to_its_end(n, copies, place);
    }

    fn count(&mut self, queue: u8, rest: &[Vec<u8>]) {
        let [field, by] = rest else { return };
        let (field, by) = (text(field), text(by).parse().unwrap_or(0));
        self.change.counts(&field, by);
        if field == "husks" {
            self.change.counts_husks(usize::from(queue), by);
        }
        *self.counters[usize::from(queue)].entry(field).or_default() += by;
    }
}

fn is_in(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

/// Whether it stands for a job that is known by its id.
fn is_of_id(member: &[u8]) -> bool {
    member.starts_with(b":") && member.ends_with(b"\n") && member.contains(&b'#')
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// That of a lease, which may name its list too.
fn token(lease: &[u8]) -> Option<u64> {
    number(lease.split(|byte| *byte == b'.').next()?)
}

fn number(bytes: &[u8]) -> Option<u64> {
    str::from_utf8(bytes).ok()?.parse().ok()
}
