//! Firing: the runs of an entry that are due become jobs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::entry::Entry;
use super::plan::plan;
use crate::calendar::Overlap;
use crate::envelope::JobId;
use crate::error::Error;
use crate::log::say;
use crate::store::{Connection, DueEntry, Fault, Firing, Queue, Ran, Run, Stand, Word};

/// Has an entry that is due run, if nobody else has: whoever is first takes in the runs, and says when it is due next.
pub(crate) async fn fire(
    queue: &Queue,
    on: &Connection,
    due: &DueEntry,
    now: u64,
) -> Result<(), Fault> {
    let name = &due.name;
    let read = Entry::read(&due.text).and_then(|entry| {
        let calendar = entry.calendar(&queue.name, name)?;
        Ok((entry, calendar))
    });
    let (entry, calendar) = match read {
        Ok(read) => read,
        Err(why) => {
            tell_unreadable(queue, name, why, now);
            return Ok(());
        }
    };
    let plan = plan(&entry.when, &calendar, due.due, due.fired, now);
    let runs = runs(&entry, name, &plan.runs, now, queue);
    let firing =
        Firing { name, text: &due.text, seen: Some(due.due), next: plan.next, missed: plan.missed };
    let ran = queue.fire(on, &firing, &runs).await?;
    if let (Some(missed), Some(ran)) = (plan.missed, &ran) {
        let runs = ran.len();
        say!(WARN, { queue = queue.name.clone(), entry = name.clone() }, %queue, %entry, missed_since = missed, runs, "runs of a cron entry were missed; \
             `catch_up` says what is done about them");
    }
    give_way(queue, on, &entry, &ran.unwrap_or_default()).await
}

/// Of an entry that is told of again and again, about once a minute.
fn tell_unreadable(queue: &Queue, name: &str, why: String, now: u64) {
    static TOLD: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    told.retain(|_, at| now.abs_diff(*at) < 60_000);
    let of = format!("{} {name}", queue.name);
    if told.contains_key(&of) {
        return;
    }
    told.insert(of, now);
    say!(WARN, { queue = queue.name.clone(), entry = name.to_owned() }, %queue, %entry, "a cron entry that is due cannot be read here, and waits for a \
         worker that can: {why}");
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
    let runs = runs(&entry, name, &[now], now, queue);
    let firing = Firing { name, text, seen: None, next: None, missed: None };
    let fired = async {
        let ran = queue.fire(on, &firing, &runs).await?.unwrap_or_default();
        give_way(queue, on, &entry, &ran).await?;
        Ok(ran.first().map(|ran| ran.word))
    };
    Ok(fired.await)
}

fn runs(entry: &Entry, name: &str, due: &[u64], now: u64, queue: &Queue) -> Vec<Run> {
    let run = |due: &u64| {
        let id = Entry::id(name, *due);
        let (place, lock) = entry.place(name, &id);
        let envelope = entry.envelope(&id, now).ok()?;
        (envelope.len() <= queue.largest()).then(|| Run {
            due: *due,
            place,
            lock,
            terms: entry.terms.clone(),
            envelope,
        })
    };
    due.iter().filter_map(run).collect()
}

/// Has runs end that go on, where they are to give way to the next.
async fn give_way(queue: &Queue, on: &Connection, entry: &Entry, ran: &[Ran]) -> Result<(), Fault> {
    if entry.when.overlap != Overlap::Cancel {
        return Ok(());
    }
    for ran in ran.iter().filter(|ran| ran.stands == Some('r')) {
        let Some(standing) = queue.standing(on, &JobId::from(&*ran.other)).await? else { continue };
        if let Stand::Runs { worker, lease } = standing.at {
            queue.cancel(on, &queue.keys.worker(&worker), &lease).await?;
        }
    }
    Ok(())
}
