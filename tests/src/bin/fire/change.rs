//! One change of the server's data, judged as a whole: each job is in exactly one structure before and after it, and the
//! counters say what it did.

use std::collections::{HashMap, HashSet};

use crate::ledger::{Ended, Event, Lease};

/// Where a job came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Waiting,
    Inbox,
    Held,
    Scheduled,
    Parked,
    Failed,
    Cancelled,
    Broken,
}

/// What a change did with one job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    before: u8,
    pub(crate) after: u8,
    /// The lease that it lost.
    lease: Option<Lease>,
    /// It was in the inbox of a worker.
    inbox: bool,
    /// An operator took it out of its list.
    taken_out: bool,
    /// Its record is gone.
    unrecorded: bool,
    to: Option<Place>,
}

/// A change so far.
#[derive(Debug, Default)]
pub(crate) struct Change {
    steps: HashMap<u32, Step>,
    counted: HashMap<String, i64>,
    /// In which queues husks moved.
    husks_of: HashSet<usize>,
    /// How many of them had a lease that ended.
    husks_freed: i64,
    /// Jobs that came to their own list from another.
    routed: HashSet<u32>,
    /// Ids were taken out of a list, or their jobs are gone.
    takes_ids: bool,
    /// What was added to the counters of husks, by queue.
    husks_counted: Vec<(usize, i64)>,
    wrong: Vec<(&'static str, String)>,
}

impl Change {
    fn step(&mut self, n: u32, copies: u8) -> &mut Step {
        let step = Step {
            before: copies,
            after: copies,
            lease: None,
            inbox: false,
            taken_out: false,
            unrecorded: false,
            to: None,
        };
        self.steps.entry(n).or_insert(step)
    }

    /// The job came to a place; `copies` is how many there were before the change.
    pub(crate) fn enters(&mut self, n: u32, copies: u8, to: Place) {
        let step = self.step(n, copies);
        step.after = step.after.saturating_add(1);
        step.to = Some(to);
    }

    /// The job left a place, or a lease.
    pub(crate) fn leaves(&mut self, n: u32, copies: u8, lease: Option<Lease>, inbox: bool) {
        let step = self.step(n, copies);
        step.after = step.after.saturating_sub(1);
        step.lease = lease.or(step.lease);
        step.inbox |= inbox;
    }

    /// The job is among those that will not run.
    pub(crate) fn comes_to_its_end(&mut self, n: u32, copies: u8, to: Place) {
        self.step(n, copies).to = Some(to);
    }

    /// An operator took it out of its list.
    pub(crate) fn is_taken_out(&mut self, n: u32, copies: u8) {
        self.leaves(n, copies, None, false);
        self.step(n, copies).taken_out = true;
    }

    /// Its record is gone.
    pub(crate) fn loses_its_record(&mut self, n: u32, copies: u8) {
        self.step(n, copies).unrecorded = true;
    }

    /// It came to its own list from another.
    pub(crate) fn is_routed(&mut self, n: u32) {
        self.routed.insert(n);
    }

    /// Ids were taken out of a list, or their jobs are gone: so husks that are ids come and go.
    pub(crate) fn takes_ids(&mut self) {
        self.takes_ids = true;
    }

    pub(crate) fn counts_husks(&mut self, queue: usize, by: i64) {
        self.husks_counted.push((queue, by));
    }

    /// By how many those have changed, by queue.
    pub(crate) fn husks_that_are_ids(&self) -> Vec<(usize, i64)> {
        if self.takes_ids { self.husks_counted.clone() } else { Vec::new() }
    }

    /// A husk came or went.
    pub(crate) fn husk_of(&mut self, queue: usize) {
        self.husks_of.insert(queue);
    }

    /// The lease of one ended.
    pub(crate) fn husk_is_freed(&mut self) {
        self.husks_freed += 1;
    }

    /// Where any did.
    pub(crate) fn queues_of_husks(&self) -> Vec<usize> {
        self.husks_of.iter().copied().collect()
    }

    pub(crate) fn counts(&mut self, field: &str, by: i64) {
        if !field.contains(':') {
            *self.counted.entry(field.to_owned()).or_default() += by;
        }
    }

    pub(crate) fn wrong(&mut self, rule: &'static str, detail: String) {
        self.wrong.push((rule, detail));
    }

    /// The jobs that an operator took out of their place, to put them to another or to delete them.
    pub(crate) fn moved(&self) -> impl Iterator<Item = u32> {
        self.steps().filter(|(_, step)| step.taken_out).map(|(n, _)| n)
    }

    /// The jobs that it touched.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (u32, &Step)> {
        self.steps.iter().map(|(n, step)| (*n, step))
    }

    /// An empty one that keeps the memory.
    pub(crate) fn cleared(mut self) -> Self {
        self.steps.clear();
        self.counted.clear();
        self.husks_of.clear();
        self.husks_freed = 0;
        self.routed.clear();
        self.takes_ids = false;
        self.husks_counted.clear();
        self.wrong.clear();
        self
    }

    fn counted(&self, counter: &str) -> i64 {
        self.counted.get(counter).copied().unwrap_or(0)
    }

    /// What it did, and whether it may.
    pub(crate) fn judge(&self, events: &mut Vec<Event>) {
        let mut seen: HashMap<&'static str, i64> = HashMap::new();
        for (rule, detail) in &self.wrong {
            events.push(Event::Wrong { rule, detail: detail.clone() });
        }
        for (n, step) in self.steps() {
            let is_over = matches!(step.to, Some(Place::Failed | Place::Cancelled | Place::Broken));
            if step.after > 1 || (is_over && step.after > 0) {
                let detail = format!("job {n} is there {} times, last {:?}", step.after, step.to);
                events.push(Event::Wrong { rule: "a job is in one place", detail });
            }
            match step.lease {
                Some(lease) => {
                    let how = self.how(n, step);
                    *seen.entry(counter_of(how)).or_default() += 1;
                    events.push(Event::LeaseEnded { n, lease, how });
                }
                None if is_over => {
                    let (counter, how) = match step.to {
                        Some(Place::Failed) => ("failed", Ended::Failed),
                        Some(Place::Cancelled) => ("cancelled", Ended::Cancelled),
                        _ => ("broken", Ended::Broken),
                    };
                    *seen.entry(counter).or_default() += 1;
                    events.push(Event::SetAside { n, how });
                }
                None if step.taken_out && step.after == 0 => events.push(Event::Deleted { n }),
                None if step.unrecorded && step.before == 0 && step.after > 0 => {
                    events.push(Event::Again { n });
                }
                None if step.before > 0 && step.after == 0 => {
                    let detail = format!("job {n} left its place and came to no other");
                    events.push(Event::Wrong { rule: "a job is in one place", detail });
                }
                None if step.inbox && self.counted("recovered") > 0 => {
                    *seen.entry("recovered").or_default() += 1;
                }
                None if step.before == 0 && step.after > 0 => events.push(Event::Entered { n }),
                None => {}
            }
        }
        for counter in
            ["processed", "retried", "failed", "cancelled", "broken", "parked", "recovered"]
        {
            let (seen, counted) = (seen.get(counter).copied().unwrap_or(0), self.counted(counter));
            // What a worker that died had not dropped yet is given back as jobs are.
            let husks = if counter == "recovered" { self.husks_freed } else { 0 };
            if !(seen..=seen + husks).contains(&counted) {
                let detail = format!("{counted} {counter} were counted, and {seen} were");
                events.push(Event::Wrong { rule: "counters say what happened", detail });
            }
        }
    }

    /// How a lease ended: where its job is now says it, and what the same change counted.
    fn how(&self, n: u32, step: &Step) -> Ended {
        match step.to {
            Some(Place::Failed) => Ended::Failed,
            Some(Place::Cancelled) => Ended::Cancelled,
            Some(Place::Broken) => Ended::Broken,
            Some(Place::Parked) => Ended::Parked,
            None if step.after == 0 => Ended::Acked,
            _ if self.counted("recovered") > 0 => Ended::Recovered,
            _ if self.counted("retried") > 0 && !self.routed.contains(&n) => Ended::Retried,
            _ => Ended::Released,
        }
    }
}

/// The counter in which the end of a lease is counted; none for what is given back.
fn counter_of(how: Ended) -> &'static str {
    match how {
        Ended::Acked => "processed",
        Ended::Retried => "retried",
        Ended::Failed => "failed",
        Ended::Cancelled => "cancelled",
        Ended::Broken => "broken",
        Ended::Parked => "parked",
        Ended::Recovered => "recovered",
        Ended::Released | Ended::Deleted => "",
    }
}
