//! Payloads that could not be decoded, or that no worker could run.

use std::io::{self, IsTerminal, Write};

use hworker::{Inspect, JobInfo, JobState};

use crate::Context;
use crate::args::{Broken, List, SelectBroken};
use crate::output::{cut, tell};
use crate::rows::{from_now, number, utc};
use crate::stop::Stop;

pub(crate) async fn run(context: &Context, command: Broken) -> Result<(), Stop> {
    match command {
        Broken::Ls(list) => ls(context, &list).await,
        Broken::Show { queue, digest, raw } => show(context, queue.name(), &digest, raw).await,
        Broken::Requeue { select } => change(context, "requeue", &select).await,
        Broken::Delete { select } => change(context, "delete", &select).await,
    }
}

async fn ls(context: &Context, list: &List) -> Result<(), Stop> {
    let filter = list.which.filter()?;
    let queue = context.client.inspect(list.queue.named_by(&filter)?);
    let mut asked = queue.jobs(JobState::Broken).filter(filter).limit(list.limit);
    if let Some(cursor) = &list.cursor {
        asked = asked.after(cursor);
    }
    let page = asked.page().await?;
    let head = ["DIGEST", "TIMES", "LAST", "BYTES", "REASON"];
    context.output.rows(&head, &page.items, |broken| {
        vec![
            broken.digest(),
            number(broken.times.unwrap_or(1)),
            from_now(broken.at),
            number(broken.bytes),
            cut(broken.message.as_deref().unwrap_or_default(), 100),
        ]
    })?;
    if let Some(next) = page.next {
        tell(&format!("more: --cursor {next}"));
    }
    Ok(())
}

/// All broken payloads that are meant.
async fn all(queue: &Inspect, is_meant: impl Fn(&JobInfo) -> bool) -> Result<Vec<JobInfo>, Stop> {
    let (mut meant, mut cursor): (_, Option<String>) = (Vec::new(), None);
    loop {
        let mut asked = queue.jobs(JobState::Broken).limit(100);
        if let Some(cursor) = cursor {
            asked = asked.after(cursor);
        }
        let page = asked.page().await?;
        meant.extend(page.items.into_iter().filter(&is_meant));
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(meant),
        }
    }
}

async fn one(queue: &Inspect, name: &str, digest: &str) -> Result<JobInfo, Stop> {
    let mut found = all(queue, |broken| broken.digest().starts_with(digest)).await?;
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Stop::not_found(format!("no broken payload {digest} on the queue {name}"))),
        _ => Err(Stop::usage(format!("{digest} begins several digests; write more of it"))),
    }
}

async fn show(context: &Context, queue: &str, digest: &str, raw: bool) -> Result<(), Stop> {
    let broken = one(&context.client.inspect(queue), queue, digest).await?;
    if raw {
        if io::stdout().is_terminal() {
            return Err(Stop::refused("--raw goes into a file or a pipe, not to a terminal"));
        }
        let written = io::stdout().lock().write_all(broken.payload());
        return written.map_err(|error| Stop::failed(error.to_string()));
    }
    let text = cut(&String::from_utf8_lossy(broken.payload()), 4096);
    let hex =
        |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let start = &broken.payload()[..broken.payload().len().min(64)];
    let types = context.types(std::slice::from_ref(&broken)).await?;
    let is_hidden = types.iter().any(|known| !known.redact.is_empty());
    let lines = [
        ("digest", broken.digest()),
        ("times", number(broken.times.unwrap_or(1))),
        ("last", broken.at.map(utc).unwrap_or_default()),
        ("bytes", number(broken.bytes)),
        ("reason", broken.message.clone().unwrap_or_default()),
        // What cannot be decoded cannot be cleaned either.
        (
            "text",
            if is_hidden {
                "••• (some job types hide arguments: --raw into a file)".into()
            } else {
                text
            },
        ),
        ("hex", if is_hidden { String::new() } else { hex(start) }),
    ];
    context.output.one(&broken_json(&broken, is_hidden)?, &lines)
}

fn broken_json(broken: &JobInfo, is_hidden: bool) -> Result<serde_json::Value, Stop> {
    let mut value =
        serde_json::to_value(broken).map_err(|error| Stop::failed(error.to_string()))?;
    if is_hidden && let Some(args) = value.get_mut("args") {
        *args = serde_json::Value::Null;
    }
    Ok(value)
}

async fn change(context: &Context, verb: &str, select: &SelectBroken) -> Result<(), Stop> {
    let name = select.queue.name();
    let queue = context.client.inspect(name);
    let meant = match (&select.digests[..], &select.reason) {
        ([], None) if !select.all => {
            return Err(Stop::usage("name digests, give --reason, or write --all"));
        }
        ([], reason) => {
            let reason = reason.clone().unwrap_or_default();
            let has =
                |broken: &JobInfo| broken.message.as_ref().is_some_and(|why| why.contains(&reason));
            all(&queue, has).await?
        }
        (digests, _) => {
            let mut meant = Vec::new();
            for digest in digests {
                meant.push(one(&queue, name, digest).await?);
            }
            meant
        }
    };
    if meant.is_empty() {
        return context.output.say("nothing matches");
    }
    if select.dry_run {
        return context.output.say(&format!("would {verb} {} payloads on {name}", meant.len()));
    }
    context
        .ask(&format!("{verb} {} broken payloads of {name}", meant.len()), name, meant.len() as u64)
        .await?;
    let what = format!("{} broken payloads", meant.len());
    let done = context
        .audited(verb, name, &what, async {
            let mut done = 0_u64;
            for broken in &meant {
                let changed = match verb {
                    "requeue" => queue.requeue_broken(broken.payload()).await,
                    _ => queue.delete_broken(broken.payload()).await,
                };
                match changed {
                    Ok(()) => done += 1,
                    Err(hworker::Error::NotFound { .. }) => {}
                    Err(error) if done == 0 => return Err(error.into()),
                    Err(error) => return Err(Stop::from(error).after(&format!("done {done}"))),
                }
            }
            Ok((done, format!("done {done}")))
        })
        .await?;
    context.output.one(&serde_json::json!({ "done": done }), &[("done", done.to_string())])
}
