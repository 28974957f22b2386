//! Every queue: whether it is served, and whether what belongs together is together.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Findings, Severity};
use super::repair::Repair;
use super::server::CLOCKS_DIFFER;
use crate::client::Client;
use crate::config::defaults;
use crate::inspect::Order;
use crate::job_state::JobState;
use crate::limit::List;
use crate::store::{Connection, Fault, Queue, server_time, types};
use crate::time::millis;

/// So long a due job may wait for the timer, in ms.
const OVERDUE: u64 = 5_000;

/// So many parked jobs, and newest jobs, are looked at.
const SAMPLE: usize = 100;

pub(super) async fn look_at_all(findings: &mut Findings, client: &Client) -> Result<(), Fault> {
    let Some(registered) = findings.look("queues", client.registered_queues().await)? else {
        return Ok(());
    };
    let listed = findings.look("queues without registration", client.listed_queues().await)?;
    let (listed, none) = (listed.unwrap_or_default(), BTreeMap::new());
    let mut names: Vec<_> = registered.keys().chain(listed.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let known = findings.0.len();
        let shards = client.shard_count(name);
        let lists = listed.get(name).unwrap_or(&none);
        if let Some((last, _)) = lists.last_key_value().filter(|(last, _)| **last >= shards) {
            let text = format!(
                "jobs are in its shard {last}, and HWORKER_SHARDS says that it has {shards}: workers and tools with these settings neither \
                 run nor see them. Set {name}={} or more everywhere",
                last + 1
            );
            findings.say(Severity::Fail, name.as_str(), text);
        } else if let Some(said) =
            registered.get(name).copied().flatten().filter(|said| *said != shards)
        {
            let text = format!(
                "another program has {said} shards of it, and HWORKER_SHARDS says {shards} here"
            );
            findings.say(Severity::Warn, name.as_str(), text);
        }
        look(findings, client, name, lists).await?;
        if findings.0.len() == known {
            findings.say(Severity::Ok, name.as_str(), "nothing is wrong");
        }
    }
    Ok(())
}

async fn look(
    findings: &mut Findings,
    client: &Client,
    name: &str,
    lists: &BTreeMap<usize, Vec<List>>,
) -> Result<(), Fault> {
    let (mut waiting, mut served, mut whole) = (0, false, true);
    for (number, shard) in client.shards(name, client.limits()).into_iter().enumerate() {
        let on = client.connection_to_inspect(&shard).await?;
        let lists = lists.get(&number).map_or(&[][..], Vec::as_slice);
        if !look_at_keys(findings, &shard, &on, lists).await? {
            whole = false;
            continue;
        }
        look_at_lists(findings, &shard, &on, lists).await?;
        let counted = look_at_shard(findings, &shard, &on).await;
        if let Some((pending, is_served)) = findings.look(name, counted)? {
            waiting += pending;
            served |= is_served;
        }
    }
    if waiting > 0 && !served {
        let text = format!(
            "waiting: {waiting}, and no worker serves it: start one with HWORKER_QUEUES={name}"
        );
        findings.say(Severity::Fail, name, text);
    }
    if whole {
        look_at_jobs(findings, client, name).await?;
    }
    Ok(())
}

/// Whether every key is of the type that it should have.
async fn look_at_keys(
    findings: &mut Findings,
    shard: &Queue,
    on: &Connection,
    lists: &[List],
) -> Result<bool, Fault> {
    let name = &shard.name;
    let mut all = shard.keys.typed();
    let groups: BTreeSet<_> = lists.iter().filter_map(List::group).collect();
    all.extend(groups.iter().map(|group| (shard.keys.keys_of(group), "zset")));
    // Where the workers are no set, nobody knows them.
    for worker in shard.worker_ids(on).await.unwrap_or_default() {
        let keys = shard.keys.worker(worker);
        all.extend([(keys.progress, "hash"), (keys.inbox, "list"), (keys.record, "hash")]);
    }
    let mut whole = true;
    for some in all.chunks(1000) {
        let keys: Vec<_> = some.iter().map(|(key, _)| key.as_str()).collect();
        let Some(found) = findings.look(name, types(on, &keys).await)? else { return Ok(true) };
        for ((key, wanted), found) in some.iter().zip(found) {
            whole &= !findings.check_type(name, Some(shard), (key, wanted, &found));
        }
    }
    Ok(whole)
}

/// Whether workers look into all lists that have jobs, and jobs stand where their ids say.
async fn look_at_lists(
    findings: &mut Findings,
    shard: &Queue,
    on: &Connection,
    lists: &[List],
) -> Result<(), Fault> {
    let found = findings.look(&shard.name, shard.relist(on, lists, false).await)?;
    if let Some(found @ 1..) = found {
        let text = format!(
            "lists that have jobs and into which no worker looks: {found}; the key that names them was removed"
        );
        findings.mends(Severity::Fail, &shard.name, text, Repair::lists(shard, lists));
    }
    let found = findings.look(&shard.name, shard.orphans(on, false).await)?;
    if let Some((waiting, gone)) = found.filter(|found| *found != (0, 0)) {
        let text = format!(
            "jobs that are known by their ids and stand nowhere: {}; a key was removed. {waiting} can wait again, of {gone} nothing is left \
             but the keys that they hold",
            waiting + gone
        );
        findings.mends(Severity::Fail, &shard.name, text, Repair::orphans(shard));
    }
    Ok(())
}

/// How many jobs wait, and whether a worker serves them.
async fn look_at_shard(
    findings: &mut Findings,
    shard: &Queue,
    on: &Connection,
) -> Result<(u64, bool), Fault> {
    let name = &shard.name;
    let now = server_time(on).await?;
    let overdue = shard.due_before(on, now.saturating_sub(OVERDUE)).await?;
    if overdue > 0 {
        let text =
            format!("scheduled and due for more than 5 s: {overdue}; no worker keeps the timer");
        findings.mends(Severity::Fail, name, text, Repair::promote(shard));
    }
    let (records, places) = shard.records_and_places(on).await?;
    if records != places {
        let text = format!(
            "records of ended jobs: {records}, places of records: {places}; another program wrote there"
        );
        findings.mends(Severity::Warn, name, text, Repair::records(shard));
    }
    if let Some((Some(husks), counted)) = findings.look(name, shard.recount(on, false).await)?
        && husks != counted
    {
        let text = format!(
            "deleted jobs among the waiting ones: {husks}, counted: {counted}; so the number of waiting jobs is wrong"
        );
        findings.mends(Severity::Warn, name, text, Repair::husks(shard));
    }
    let undelivered = findings.look(name, shard.count_undelivered(on).await)?;
    if let Some(undelivered @ 1..) = undelivered {
        let text = format!(
            "notes of ended jobs that their batches refused, as a key was of another type: {undelivered}; `hworker batches repair` has these \
             members count as ended"
        );
        findings.say(Severity::Warn, name.as_ref(), text);
    }
    look_at_entries(findings, shard, on, now).await?;
    let pending = shard.load(on, u64::MAX).await?.pending;
    Ok((pending, shard.serving(on, defaults::DEAD_AFTER * 2).await? > 0))
}

/// Cron entries that are due and do not run.
#[cfg(feature = "cron")]
async fn look_at_entries(
    findings: &mut Findings,
    shard: &Queue,
    on: &Connection,
    now: u64,
) -> Result<(), Fault> {
    // A key of another type was reported.
    let Some(entries) = findings.look(&shard.name, shard.entries(on).await)? else { return Ok(()) };
    for (name, entry) in entries {
        let late = entry.next.map_or(0, |next| now.saturating_sub(next));
        if entry.paused.is_none() && late > 60_000 {
            let minutes = late / 60_000;
            let text = format!(
                "the cron entry `{name}` was due {minutes} min ago and has not run: no worker keeps the timer, or none can read the entry"
            );
            findings.say(Severity::Warn, &*shard.name, text);
        }
    }
    Ok(())
}

#[cfg(not(feature = "cron"))]
async fn look_at_entries(_: &mut Findings, _: &Queue, _: &Connection, _: u64) -> Result<(), Fault> {
    Ok(())
}

/// Jobs that no worker can run, and producers whose clocks are ahead.
async fn look_at_jobs(findings: &mut Findings, client: &Client, name: &str) -> Result<(), Fault> {
    let queue = client.inspect(name);
    let first = |state, order| queue.jobs(state).order(order).limit(SAMPLE);
    // A look that fails was reported of the keys.
    let Ok(parked) = first(JobState::Parked, Order::Next).page().await else { return Ok(()) };
    let on = client.connection_to_inspect(&client.queue(name)).await?;
    let now = server_time(&on).await?;
    let mut types: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for job in &parked.items {
        let type_name = job.job.clone().unwrap_or_else(|| "?".to_owned());
        let (count, since) = types.entry(type_name).or_insert((0, u64::MAX));
        (*count, *since) = (*count + 1, job.at.unwrap_or(now).min(*since));
    }
    for (job, (count, since)) in types {
        let left = (since + millis(defaults::UNKNOWN_FOR)).saturating_sub(now) / 60_000;
        let more = if parked.next.is_some() { " or more" } else { "" };
        let text = format!(
            "parked: {count}{more} of `{job}`, which no worker can run: deploy one, or in about {left} min they are broken"
        );
        findings.say(Severity::Warn, name, text);
    }
    let Ok(newest) = first(JobState::Waiting, Order::Newest).page().await else { return Ok(()) };
    let ahead = newest.items.iter().filter_map(|job| job.at?.checked_sub(now)).max();
    if let Some(ahead) = ahead.filter(|ahead| *ahead > CLOCKS_DIFFER) {
        let text = format!(
            "a producer's clock is {ahead} ms ahead of the server's: waiting times are wrong"
        );
        findings.say(Severity::Warn, name, text);
    }
    Ok(())
}
