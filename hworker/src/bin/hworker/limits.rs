//! Limits: how many jobs run at once, how fast they start, and which of them are held up.

use std::time::Duration;

use hworker::{LimitControl, LimitInfo, Pause, Rate};
use serde_json::json;

use crate::Context;
use crate::args::{LimitOrJob, Limits, WhichLimit};
use crate::output::tell;
use crate::rows::{millis, number, span, utc};
use crate::stop::Stop;

pub(crate) async fn run(context: &Context, command: Limits) -> Result<(), Stop> {
    match command {
        Limits::Ls { queue } => ls(context, queue.name()).await,
        Limits::Show { which } => show(context, &Target::limit(&which)).await,
        Limits::Set { which, at_once, rate, max_waiting } => {
            set(context, &Target::limit(&which), at_once, rate, max_waiting).await
        }
        Limits::Unset { which } => lift(context, &Target::limit(&which), "unset", "set").await,
        Limits::Pause { which, duration } => {
            pause(context, &Target::limit_or_job(&which), duration).await
        }
        Limits::Resume { which } => {
            lift(context, &Target::limit_or_job(&which), "resume", "paused").await
        }
        Limits::Reset { queue } => reset(context, queue.name()).await,
    }
}

/// A limit, one key of it, that of the queue, or a job type.
struct Target<'a> {
    queue: &'a str,
    name: &'a str,
    key: Option<&'a str>,
    is_job: bool,
}

impl<'a> Target<'a> {
    fn limit(which: &'a WhichLimit) -> Self {
        let name = which.name.as_deref().unwrap_or("*");
        Self { queue: which.queue.name(), name, key: which.key.as_deref(), is_job: false }
    }

    fn limit_or_job(which: &'a LimitOrJob) -> Self {
        let name = which.name.as_deref().or(which.job.as_deref()).unwrap_or_default();
        let (queue, is_job) = (which.queue.name(), which.job.is_some());
        Self { queue, name, key: which.key.as_deref(), is_job }
    }

    fn control(&self, context: &Context) -> LimitControl {
        let control = context.client.control(self.queue);
        match self.key {
            None if self.is_job => control.job(self.name),
            None => control.limit(self.name),
            Some(key) => control.limit(self.name).of_key(key),
        }
    }

    /// As it stands in the audit.
    fn shown(&self) -> String {
        let what = if self.is_job { "jobs" } else { "limit" };
        let key = self.key.map_or_else(String::new, |key| format!(" of the key {key}"));
        format!("{what} {}{key}", self.name)
    }

    /// A name that is misspelt would change nothing, and say nothing.
    async fn tell_if_unknown(&self, context: &Context) -> Result<(), Stop> {
        let Self { queue, name, .. } = self;
        let is_known = self.is_job
            || *name == "*"
            || !context.client.control(queue).limit(name).info().await?.is_empty();
        if !is_known {
            tell(&format!("no worker of {queue} has told of a limit {name} so far; see limits ls"));
        }
        Ok(())
    }

    fn print(&self, context: &Context, field: &str, value: bool, state: &str) -> Result<(), Stop> {
        let (what, key) = (if self.is_job { "job" } else { "limit" }, self.key);
        let json = json!({ "queue": self.queue, what: self.name, "key": key, field: value });
        let lines = [
            ("queue", self.queue.to_owned()),
            (what, self.name.to_owned()),
            ("key", key.unwrap_or_default().to_owned()),
            ("state", state.to_owned()),
        ];
        context.output.one(&json, &lines)
    }
}

async fn ls(context: &Context, queue: &str) -> Result<(), Stop> {
    let limits = context.client.control(queue).limits().await?;
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let titles = ["NAME", "AT ONCE", "RATE", "MAX WAITING", "RUNNING", "STATE"];
    context.output.rows(&titles, &limits, |limit| {
        vec![
            limit.name.clone(),
            or_none(limit.at_once.map(number)),
            or_none(limit.rate.map(|rate| rate.to_string())),
            or_none(limit.max_waiting.map(number)),
            number(limit.running),
            state(limit),
        ]
    })
}

/// `set` where a person set it, and until when it is paused.
fn state(limit: &LimitInfo) -> String {
    let paused = limit.paused.map(|Pause { until, .. }| {
        until.map_or_else(|| "paused".to_owned(), |until| format!("paused until {}", utc(until)))
    });
    let set = limit.is_set.then(|| "set".to_owned());
    set.into_iter().chain(paused).collect::<Vec<_>>().join(", ")
}

async fn show(context: &Context, target: &Target<'_>) -> Result<(), Stop> {
    let known = target.control(context).info().await?;
    if known.is_empty() {
        return Err(Stop::not_found(format!("no {} on {}", target.shown(), target.queue)));
    }
    for limit in known {
        let (bare, key) = limit.name.split_once('=').unwrap_or((&limit.name, ""));
        let form = match bare {
            "*" => "of the whole queue",
            _ if !key.is_empty() => "of one key",
            _ if limit.name.ends_with('=') => "of each key",
            _ if limit.name.ends_with('@') => "of each worker",
            _ => "over all workers",
        };
        let lines = [
            ("limit", limit.name.clone()),
            ("queue", target.queue.to_owned()),
            ("counts", form.to_owned()),
            ("at once", limit.at_once.map_or_else(|| "no limit".to_owned(), number)),
            ("rate", limit.rate.map_or_else(|| "no limit".to_owned(), |rate| rate.to_string())),
            ("max waiting", limit.max_waiting.map_or_else(|| "not set".to_owned(), number)),
            ("running", number(limit.running)),
            ("state", state(&limit)),
        ];
        context.output.one(&limit, &lines)?;
    }
    Ok(())
}

async fn set(
    context: &Context,
    target: &Target<'_>,
    at_once: Option<u32>,
    rate: Option<Rate>,
    max_waiting: Option<u32>,
) -> Result<(), Stop> {
    let control = target.control(context);
    let values = [
        at_once.map(|n| format!("{n} at once")),
        rate.map(|rate| rate.to_string()),
        max_waiting.map(|n| format!("{n} waiting")),
    ];
    let values: Vec<_> = values.into_iter().flatten().collect();
    let all = values.join(", ");
    let mut done = 0;
    context
        .audited("set", target.queue, &format!("{} to {all}", target.shown()), async {
            let setting = async {
                if let Some(at_once) = at_once {
                    control.set(at_once).await?;
                    done += 1;
                }
                if let Some(rate) = rate {
                    control.set_rate(rate).await?;
                    done += 1;
                }
                if let Some(jobs) = max_waiting {
                    control.set_max_waiting(jobs).await?;
                }
                Ok(())
            };
            let set: Result<(), hworker::Error> = setting.await;
            set.map_err(|error| match done {
                0 => Stop::from(error),
                done => Stop::from(error).after(&format!("set {}", values[..done].join(", "))),
            })?;
            Ok(((), "set".to_owned()))
        })
        .await?;
    target.print(context, "set", true, &format!("set to {all}"))
}

async fn pause(
    context: &Context,
    target: &Target<'_>,
    duration: Option<Duration>,
) -> Result<(), Stop> {
    target.tell_if_unknown(context).await?;
    let control = target.control(context);
    let long = duration.map_or_else(
        || "until it is resumed".to_owned(),
        |duration| format!("for {}", span(millis(duration))),
    );
    context
        .audited("pause", target.queue, &format!("{} {long}", target.shown()), async {
            match duration {
                None => control.pause().await?,
                Some(duration) => control.pause_for(duration).await?,
            }
            Ok(((), "paused".to_owned()))
        })
        .await?;
    target.print(context, "paused", true, "paused")
}

/// Unsets it, or resumes it. That it was not set or paused is no error.
async fn lift(context: &Context, target: &Target<'_>, verb: &str, was: &str) -> Result<(), Stop> {
    let control = target.control(context);
    let done = if verb == "unset" { "unset" } else { "resumed" };
    let lifted = context
        .audited(verb, target.queue, &target.shown(), async {
            let lifted =
                if verb == "unset" { control.unset().await? } else { control.resume().await? };
            Ok((lifted, format!("{done} {}", u8::from(lifted))))
        })
        .await?;
    let state = if lifted { done.to_owned() } else { format!("was not {was}") };
    target.print(context, done, lifted, &state)
}

/// What a person set or paused on limits of the queue holds no longer.
async fn reset(context: &Context, queue: &str) -> Result<(), Stop> {
    let control = context.client.control(queue);
    let mut limits = control.limits().await?;
    limits.retain(|limit| limit.is_set || limit.paused.is_some());
    let names: Vec<_> = limits.into_iter().map(|limit| limit.name).collect();
    if !names.is_empty() {
        let what = format!("limits {}", names.join(", "));
        context.ask(&format!("unset and resume the {what} of {queue}"), queue, 1).await?;
        context
            .audited("reset", queue, &what, async {
                for (done, name) in names.iter().enumerate() {
                    // It may be a job type that was paused, which has jobs belong to a limit.
                    let is_plain = !name.contains(['=', '@', '*']);
                    let limit = if is_plain { control.job(name) } else { control.limit(name) };
                    let both = async {
                        limit.unset().await?;
                        limit.resume().await
                    };
                    both.await.map_err(|error| match done {
                        0 => Stop::from(error),
                        done => Stop::from(error).after(&format!("reset {done}")),
                    })?;
                }
                Ok(((), format!("reset {}", names.len())))
            })
            .await?;
    }
    let lines = [("queue", queue.to_owned()), ("reset", number(names.len() as u64))];
    context.output.one(&json!({ "queue": queue, "reset": names }), &lines)
}
