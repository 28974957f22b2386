//! From what a program writes to an entry.

use serde_json::value::RawValue;

use super::entry::{Entry, check_entry};
use super::schedule::Schedule;
use super::template::Template;
use crate::calendar::{Calendar, Overlap};
use crate::client::Client;
use crate::error::{Error, Problems};
use crate::job::Definition;

/// Its arguments have at most so many bytes: a hundred runs may be taken in at once.
const MOST_BYTES: usize = 64 * 1024;

/// The entry of this name as a schedule says it. All that is wrong is told at once.
pub(crate) fn entry_of(
    schedule: Schedule,
    client: &Client,
    queue: &str,
    name: &str,
) -> Result<(Entry, Calendar), Error> {
    let Schedule { timing, template } = schedule;
    let mut problems = Vec::new();
    problems.extend(check_entry(name).err());
    if timing.count == Some(0) {
        problems.push("`count` is 0; an entry has at least one run".into());
    }
    let mut entry = Entry {
        hash: String::new(),
        when: timing,
        job: String::new(),
        args: RawValue::NULL.to_owned(),
        args_v: None,
        list: String::new(),
        lock: None,
        terms: String::new(),
        tags: Vec::new(),
        meta: None,
        max_attempts: None,
        timeout: None,
        backoff: None,
        expires_in: None,
        priority: None,
    };
    template.fill(client, (queue, name), &mut entry, &mut problems)?;
    if entry.lock.is_some() && entry.when.overlap != Overlap::Allow {
        problems.push("a unique job has no `overlap`: its key says what is done".into());
    }
    let calendar = entry.calendar(queue, name).map_err(|why| problems.push(why)).ok();
    let bytes = entry.args.get().len();
    if bytes > MOST_BYTES {
        problems.push(format!(
            "the arguments of a cron entry have {bytes} bytes, more than {MOST_BYTES}; name what they are about instead"
        ));
    }
    match calendar.filter(|_| problems.is_empty()) {
        Some(calendar) => Ok((entry, calendar)),
        None => Err(Error::Config(Problems(problems))),
    }
}

/// An entry that code declares.
#[derive(Debug)]
pub(crate) struct DeclaredEntry {
    pub(crate) name: &'static str,
    pub(crate) text: String,
    pub(crate) calendar: Calendar,
}

/// The entries that a job type declares on its queue.
pub(crate) fn declared(
    definition: &'static Definition,
    client: &Client,
) -> Result<Vec<DeclaredEntry>, Error> {
    let entry = |declared: &crate::job::DeclaredCron| {
        let args = (declared.args)();
        let schedule = Schedule::new((declared.timing)(), Template::of(definition, args));
        let (entry, calendar) = entry_of(schedule, client, definition.queue, declared.name)?;
        Ok(DeclaredEntry { name: declared.name, text: entry.text()?, calendar })
    };
    definition.crons.iter().map(entry).collect()
}
