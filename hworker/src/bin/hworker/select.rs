//! Which jobs a command means, and the question before they are changed.

use std::io::{self, BufRead, IsTerminal, Write};

use hworker::{Filter, Inspect, JobId, JobInfo, JobState};

use crate::Context;
use crate::args::Select;
use crate::locks::nobody_holds;
use crate::output::{shown, tell};
use crate::rows;
use crate::stop::Stop;

/// More than so many are asked for by the queue's name.
const MANY: u64 = 10_000;

/// The jobs of a command, with how they were chosen.
pub(crate) struct Selected {
    pub(crate) queue: Inspect,
    pub(crate) jobs: Vec<JobInfo>,
    /// As the audit has it: ids, or the filter without what it asks of arguments.
    pub(crate) what: String,
    /// How many of the ids are of no job that is meant.
    pub(crate) missing: usize,
}

/// Which jobs a command is about where the call does not say it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Of {
    /// Those in this state, and no others.
    Only(JobState),
    /// With ids those in any state.
    Any(JobState),
}

impl Context {
    /// The jobs that are meant: those with the ids, or the first that the filter means.
    pub(crate) async fn select(&self, select: &Select, of: Of) -> Result<Selected, Stop> {
        let filter = select.which.filter()?;
        let name = select.queue.named_by(&filter)?;
        let queue = self.client.inspect(name);
        let ids = match &select.key {
            Some(_) if !filter.is_empty() => {
                return Err(Stop::usage("--key means one job; give it without a filter"));
            }
            Some(key) => vec![self.holder(name, key).await?],
            None => select.ids.clone(),
        };
        if !ids.is_empty() {
            let only = match of {
                Of::Only(state) => Some(state),
                Of::Any(_) => select.state,
            };
            let (mut jobs, mut missing) = (Vec::new(), Vec::new());
            for id in &ids {
                let id = JobId::from(id.as_str());
                match queue.find(&id).await? {
                    Some(job) if only.is_none_or(|state| state == job.state) => jobs.push(job),
                    Some(job) => {
                        let (is, wanted) = (job.state, only.unwrap_or(job.state));
                        missing.push(format!("job {id} is {is}, and not {wanted}"));
                    }
                    None => missing.push(format!(
                        "job {id} is not on the queue {name}; another queue is named with -q"
                    )),
                }
            }
            if jobs.is_empty() {
                return Err(Stop::not_found(missing.join("\n")));
            }
            for why in &missing {
                tell(why);
            }
            let missing = missing.len();
            return Ok(Selected { queue, jobs, what: ids.join(" "), missing });
        }
        let (Of::Only(state) | Of::Any(state)) = of;
        let state = select.state.or(filter.state()).unwrap_or(state);
        if filter.is_empty() && !select.all {
            return Err(Stop::usage(format!(
                "name ids, give a filter, or write --all for all {state} jobs"
            )));
        }
        let jobs = matching(&queue, state, &filter, select.limit).await?;
        // Arguments stay out of the audit.
        let told = if filter.asks_for_args() { " by their arguments" } else { "" };
        let what = format!("{} {state} jobs{told}", jobs.len());
        Ok(Selected { queue, jobs, what, missing: 0 })
    }

    /// The id of the job that holds a key.
    async fn holder(&self, queue: &str, key: &str) -> Result<String, Stop> {
        let lock = self.client.control(queue).lock(key).await?;
        let lock = lock.ok_or_else(|| nobody_holds(queue, key))?;
        Ok(lock.id.to_string())
    }

    /// Says what is to be done with which jobs, and asks. An error if it is not to be done.
    pub(crate) async fn confirm(
        &self,
        verb: &str,
        selected: &Selected,
        dry_run: bool,
    ) -> Result<bool, Stop> {
        let count = selected.jobs.len();
        let queue = selected.jobs.first().map_or("", |job| &job.queue);
        if count == 0 {
            return Err(Stop::not_found("no job matches"));
        }
        if dry_run || count > 1 || verb != "retry" {
            for job in selected.jobs.iter().take(3) {
                // One job is one line, whatever its id is.
                tell(&format!("  {}", shown(&rows::line(job))));
            }
        }
        if dry_run {
            self.output.say(&format!("would {verb} {count} jobs on {queue}"))?;
            return Ok(false);
        }
        let alone = count == 1 && matches!(verb, "retry" | "promote");
        if !alone {
            self.ask(&format!("{verb} {count} jobs on {queue}"), queue, count as u64).await?;
        }
        Ok(true)
    }

    /// Asks whether something is to be done; above ten thousand, or where it takes a whole queue, by the queue's name.
    pub(crate) async fn ask(&self, what: &str, queue: &str, count: u64) -> Result<(), Stop> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            return Err(Stop::refused(format!("nothing done: to {what}, write --yes")));
        }
        let by_name = count > MANY;
        let expected = if by_name { queue } else { "y" };
        let hint = if by_name { format!("type {queue}") } else { "y/N".to_owned() };
        let what = shown(what);
        eprint!("{what}, {}? [{hint}] ", self.place);
        let _ = io::stderr().flush();
        // On a thread of its own, so that Ctrl-C is heard meanwhile.
        let read = tokio::task::spawn_blocking(|| io::stdin().lock().lines().next());
        match read.await {
            Ok(Some(Ok(answer))) if answer.trim() == expected => Ok(()),
            _ => Err(Stop::said_no()),
        }
    }
}

/// The first jobs that a filter means, at most so many.
async fn matching(
    queue: &Inspect,
    state: JobState,
    filter: &Filter,
    limit: usize,
) -> Result<Vec<JobInfo>, Stop> {
    let mut jobs = Vec::new();
    let mut asked = queue.jobs(state).filter(filter.clone()).limit(limit);
    loop {
        let page = asked.page().await?;
        jobs.extend(page.items);
        match page.next {
            Some(next) if jobs.len() < limit => {
                asked =
                    queue.jobs(state).filter(filter.clone()).limit(limit - jobs.len()).after(next);
            }
            _ => return Ok(jobs),
        }
    }
}
