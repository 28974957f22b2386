//! Cron entries.

use hworker::{CatchUp, CronControl, CronInfo, Overlap, Schedule};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Context;
use crate::args::{self, AddEntry, Cron, WhichEntry};
use crate::enqueue;
use crate::rows::{from_now, number, span, utc};
use crate::stop::Stop;

pub(crate) async fn run(context: &Context, command: Cron) -> Result<(), Stop> {
    match command {
        Cron::Ls { queue } => ls(context, queue.name()).await,
        Cron::Show { which, limit } => show(context, &which, usize::from(limit)).await,
        Cron::Pause { which } => order(context, &which, "pause", "paused").await,
        Cron::Resume { which } => order(context, &which, "resume", "resumed").await,
        Cron::Run { which } => run_now(context, &which).await,
        Cron::Add(entry) => Box::pin(add(context, &entry)).await,
        Cron::Rm { which } => order(context, &which, "remove", "removed").await,
    }
}

impl WhichEntry {
    fn control(&self, context: &Context) -> CronControl {
        context.client.control(self.queue.name()).cron(&self.name)
    }

    /// As it stands in the audit.
    fn shown(&self) -> String {
        format!("the cron entry {}", self.name)
    }
}

async fn ls(context: &Context, queue: &str) -> Result<(), Stop> {
    let entries = context.client.control(queue).crons().await?;
    let titles = ["NAME", "JOB", "WHEN", "ZONE", "NEXT", "RUNS", "STATE"];
    context.output.rows(&titles, &entries, |entry| {
        vec![
            entry.name.clone(),
            entry.job.clone(),
            when(entry),
            entry.timezone.clone().unwrap_or_else(|| "UTC".to_owned()),
            from_now(entry.next.filter(|_| entry.paused.is_none())),
            number(entry.fired),
            state(entry),
        ]
    })
}

fn when(entry: &CronInfo) -> String {
    let every = entry.every_ms.map(|ms| format!("every {}", exact(ms)));
    entry.cron.clone().or(every).unwrap_or_else(|| "-".to_owned())
}

/// A time span to the last digit.
fn exact(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let (mut rest, mut text) = (ms, String::new());
    for (unit, name) in units {
        if rest >= unit {
            text.extend([&(rest / unit).to_string(), name]);
            rest %= unit;
        }
    }
    text
}

/// `set` where a person set it, `paused`, `over` where it does not come again.
fn state(entry: &CronInfo) -> String {
    let states = [
        (entry.is_set, "set"),
        (entry.paused.is_some(), "paused"),
        (entry.next.is_none(), "over"),
        (entry.problem.is_some(), "not readable here"),
    ];
    let states = states.into_iter().filter_map(|(is_so, word)| is_so.then_some(word));
    states.collect::<Vec<_>>().join(", ")
}

/// An entry with its next times and its last runs.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    entry: CronInfo,
    times: Vec<u64>,
    runs: Vec<hworker::CronRun>,
}

async fn show(context: &Context, which: &WhichEntry, limit: usize) -> Result<(), Stop> {
    let control = which.control(context);
    let Some(entry) = control.info().await? else {
        return Err(Stop::not_found(format!("no {} on {}", which.shown(), which.queue.name())));
    };
    let times = if entry.problem.is_some() { Vec::new() } else { control.next(limit).await? };
    let mut runs = control.history().await?;
    runs.truncate(limit);
    let some = |text: &Option<String>| text.clone().unwrap_or_default();
    let next = times.iter().map(|at| format!("{} ({})", utc(*at), from_now(Some(*at))));
    let last = runs.iter().map(|run| format!("{} {}", utc(run.due), run.state));
    let lines = [
        ("entry", entry.name.clone()),
        ("queue", which.queue.name().to_owned()),
        ("job", entry.job.clone()),
        ("when", when(&entry)),
        ("zone", entry.timezone.clone().unwrap_or_else(|| "UTC".to_owned())),
        ("skip days", some(&entry.skip_days)),
        ("start", some(&entry.start)),
        ("end", some(&entry.end)),
        ("count", entry.count.map(|count| number(u64::from(count))).unwrap_or_default()),
        ("splay", entry.splay_ms.map(span).unwrap_or_default()),
        ("catch up", format!("{:?}", entry.catch_up).to_lowercase()),
        ("overlap", format!("{:?}", entry.overlap).to_lowercase()),
        ("runs", number(entry.fired)),
        ("state", state(&entry)),
        ("problem", some(&entry.problem)),
        ("next", next.collect::<Vec<_>>().join("\n")),
        ("last", last.collect::<Vec<_>>().join("\n")),
    ];
    context.output.one(&Shown { entry: entry.clone(), times, runs }, &lines)
}

async fn order(context: &Context, which: &WhichEntry, verb: &str, done: &str) -> Result<(), Stop> {
    let (control, queue) = (which.control(context), which.queue.name());
    let changed = context
        .audited(verb, queue, &which.shown(), async {
            let changed = match verb {
                "pause" => control.pause().await?,
                "resume" => control.resume().await?,
                _ => control.remove().await.map(|()| true)?,
            };
            Ok((changed, if changed { done.to_owned() } else { format!("was {done}") }))
        })
        .await?;
    let json = json!({ "queue": queue, "entry": which.name, done: true, "changed": changed });
    let state = if changed { done.to_owned() } else { format!("was {done}") };
    let lines = [("queue", queue.to_owned()), ("entry", which.name.clone()), ("state", state)];
    context.output.one(&json, &lines)
}

async fn run_now(context: &Context, which: &WhichEntry) -> Result<(), Stop> {
    let (control, queue) = (which.control(context), which.queue.name());
    let id = context
        .audited("run", queue, &which.shown(), async {
            let id = control.run_now().await?;
            let result =
                id.as_ref().map_or_else(|| "left out".to_owned(), |id| format!("enqueued {id}"));
            Ok((id, result))
        })
        .await?;
    let Some(id) = id else {
        return Err(Stop::failed(format!("left out: the run before of {} goes on", which.shown())));
    };
    let json = json!({ "queue": queue, "entry": which.name, "id": id });
    let lines =
        [("queue", queue.to_owned()), ("entry", which.name.clone()), ("id", id.to_string())];
    context.output.one(&json, &lines)
}

async fn add(context: &Context, entry: &AddEntry) -> Result<(), Stop> {
    let args = enqueue::read(&entry.args)?;
    let value: Value = serde_json::from_str(&args)
        .map_err(|error| Stop::usage(format!("the arguments are no JSON: {error}")))?;
    let mut version = entry.args_version;
    if !entry.no_check {
        version = Some(enqueue::checked(context, &entry.job, &value).await?.version);
    }
    let mut job = context.client.job_by_name(&entry.job, &args);
    if let Some(version) = version {
        job = job.args_version(version);
    }
    if let Some(priority) = entry.priority {
        job = job.priority(priority);
    }
    for tag in &entry.tag {
        job = job.tag(tag);
    }
    let schedule = match (&entry.cron, entry.every) {
        (Some(expression), _) => job.cron(expression),
        (None, every) => job.every(every.unwrap_or_default()),
    };
    let schedule = with_rest(schedule, entry);
    let (which, queue) = (&entry.which, entry.which.queue.name());
    let control = which.control(context);
    context
        .audited("set", queue, &which.shown(), async {
            Box::pin(control.upsert(schedule)).await?;
            Ok(((), "set".to_owned()))
        })
        .await?;
    show(context, which, 3).await
}

fn with_rest(mut schedule: Schedule, entry: &AddEntry) -> Schedule {
    schedule = schedule.catch_up(match entry.catch_up {
        args::CatchUp::Skip => CatchUp::Skip,
        args::CatchUp::One => CatchUp::One,
        args::CatchUp::All => CatchUp::All,
    });
    schedule = schedule.overlap(match entry.overlap {
        args::Overlap::Allow => Overlap::Allow,
        args::Overlap::Skip => Overlap::Skip,
        args::Overlap::Queue => Overlap::Queue,
        args::Overlap::Cancel => Overlap::Cancel,
    });
    if let Some(zone) = &entry.timezone {
        schedule = schedule.timezone(zone);
    }
    if let Some(splay) = entry.splay {
        schedule = schedule.splay(splay);
    }
    if let Some(start) = &entry.start {
        schedule = schedule.start(start);
    }
    if let Some(end) = &entry.end {
        schedule = schedule.end(end);
    }
    if let Some(count) = entry.count {
        schedule = schedule.count(count);
    }
    if let Some(days) = &entry.skip_days {
        schedule = schedule.skip_days(days);
    }
    schedule
}
