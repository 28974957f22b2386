//! Firing: the runs of an entry that are due become jobs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::entry::Entry;
use super::plan::plan;
use crate::error::Error;
use crate::log::say;
use crate::store::{Connection, DueEntry, Fault, FaultKind, Firing, Queue, Run, Word};

/// A process tells of an entry that is missed, or that it cannot fire, so often, and tries to fire it.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// What a process remembers of the entries of a queue, each with when it noted it.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Those that it cannot fire.
    left: BTreeMap<String, Instant>,
    /// Those of which it said that runs were missed.
    missed: BTreeMap<String, Instant>,
}

impl Notes {
    /// The entries that it leaves to other processes.
    pub(crate) fn left_to_others(&mut self) -> Vec<&str> {
        self.left.retain(|_, at| at.elapsed() < AGAIN_AFTER);
        self.missed.retain(|_, at| at.elapsed() < AGAIN_AFTER);
        self.left.keys().map(String::as_str).collect()
    }

    /// An entry that it cannot fire is left to others for a while.
    fn leave(&mut self, queue: &Queue, name: &str, why: String) {
        self.left.insert(name.to_owned(), Instant::now());
        say!(WARN, { queue = queue.name.clone(), entry = name.to_owned() },
            job.queue = %queue, cron.entry = %entry, "a cron entry that is due cannot be fired here, and is left to other workers for a minute: {why}");
    }

    fn missed(&mut self, queue: &Queue, name: &str, since: u64, runs: usize) {
        if self.missed.contains_key(name) {
            return;
        }
        self.missed.insert(name.to_owned(), Instant::now());
        say!(WARN, { queue = queue.name.clone(), entry = name.to_owned() }, job.queue = %queue, cron.entry = %entry, missed_since = since, runs,
            "runs of a cron entry were missed; `catch_up` says what is done about them");
    }
}

/// Has an entry that is due run, if nobody else has: whoever is first takes in the runs, and says when it is due next. One that cannot run holds
/// up no other.
pub(crate) async fn fire(
    queue: &Queue,
    on: &Connection,
    due: &DueEntry,
    now: u64,
    notes: &mut Notes,
) -> Result<(), Fault> {
    let name = &due.name;
    let read = Entry::read(&due.text).and_then(|entry| {
        let calendar = entry.calendar(&queue.name, name)?;
        Ok((entry, calendar))
    });
    let (entry, calendar) = match read {
        Ok(read) => read,
        Err(why) => {
            notes.leave(queue, name, why);
            return Ok(());
        }
    };
    let plan = plan(&entry.when, &calendar, due.due, due.fired, now);
    let runs = runs(&entry, name, &plan.runs, now);
    let firing = Firing {
        name,
        text: &due.text,
        seen: Some(due.due),
        next: plan.next,
        missed: plan.missed,
        count: entry.when.count,
    };
    match queue.fire(on, &firing, &runs).await {
        Ok(ran) => {
            if let (Some(missed), Some(ran)) = (plan.missed, &ran) {
                notes.missed(queue, name, missed, ran.len());
            }
            Ok(())
        }
        Err(fault) if fault.kind != FaultKind::Connection => {
            notes.leave(queue, name, fault.to_string());
            Ok(())
        }
        Err(fault) => Err(fault),
    }
}

/// Has an entry run now, whenever it is due. Gives what became of the run; nothing where the entry is another by now.
pub(crate) async fn run_now(
    queue: &Queue,
    on: &Connection,
    name: &str,
    text: &str,
    now: u64,
) -> Result<Result<Option<Word>, Fault>, Error> {
    let entry = Entry::read(text).map_err(Error::config)?;
    let runs = runs(&entry, name, &[now], now);
    let firing = Firing { name, text, seen: None, next: None, missed: None, count: None };
    let ran = queue.fire(on, &firing, &runs).await;
    Ok(ran.map(|ran| ran.unwrap_or_default().first().copied()))
}

fn runs(entry: &Entry, name: &str, due: &[u64], now: u64) -> Vec<Run> {
    let run = |due: &u64| {
        let id = Entry::id(name, *due);
        let (place, lock) = entry.place(name, &id);
        let envelope = entry.envelope(&id, now).ok()?;
        Some(Run { due: *due, place, lock, terms: entry.terms.clone(), envelope })
    };
    due.iter().filter_map(run).collect()
}
