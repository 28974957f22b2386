//! Jobs that are changed by their ids.

use serde::Serialize;
use utoipa::ToSchema;

use crate::envelope::JobId;
use crate::inspect::{Action, Changed, JobInfo};
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::site::Site;

/// A job as it was seen.
#[derive(Debug, Clone)]
pub(crate) struct Which {
    pub(crate) id: JobId,
    /// The time that was shown of it, so that a job that failed again meanwhile is not taken for the one that was seen.
    pub(crate) seen: Option<u64>,
}

/// What came of a change of several jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Report {
    /// So many are changed.
    pub(crate) done: usize,
    /// So many were not there any more, or had started.
    pub(crate) missing: usize,
    /// So many were not as they had been seen.
    pub(crate) changed: usize,
    /// So many are unique, and others hold their keys.
    pub(crate) conflicts: usize,
}

impl Report {
    fn add(&mut self, changed: Changed) {
        match changed {
            Changed::Done => self.done += 1,
            Changed::Missing => self.missing += 1,
            Changed::Changed => self.changed += 1,
            Changed::Conflict => self.conflicts += 1,
        }
    }

    fn text(self) -> String {
        let Self { done, missing, changed, conflicts } = self;
        let conflicts =
            if conflicts > 0 { format!(", conflicts {conflicts}") } else { String::new() };
        format!("done {done}, missing {missing}, changed {changed}{conflicts}")
    }
}

/// At most so many at once.
const MOST: usize = 100;

/// Changes jobs of a queue.
pub(crate) async fn change(
    site: &Site,
    asked: &Asked,
    queue: &str,
    jobs: &[Which],
    (verb, action): (&str, &Action),
) -> Result<Report, Problem> {
    if jobs.is_empty() || jobs.len() > MOST {
        let count = jobs.len();
        return Err(Problem::invalid(format!("choose 1 to {MOST} jobs, not {count}")));
    }
    let ids: Vec<_> = jobs.iter().take(20).map(|which| which.id.as_str()).collect();
    let more = if jobs.len() > ids.len() {
        format!(" and {} more", jobs.len() - ids.len())
    } else {
        String::new()
    };
    let what = format!("{}{more}", ids.join(" "));
    // Large, and passed on.
    let doing = Box::pin(async {
        let mut report = Report::default();
        for which in jobs {
            match change_seen(site, queue, which, action).await {
                Ok((changed, _)) => report.add(changed),
                Err(problem) if report.done == 0 => return Err(problem),
                Err(problem) => {
                    let detail = format!("done {}, then: {}", report.done, problem.detail);
                    return Err(Problem { detail, ..problem });
                }
            }
        }
        Ok((report, report.text()))
    });
    let what = format!("{what}{}", check_target(site, asked, verb, action)?);
    site.act(asked, verb, queue, &what, doing).await
}

/// A move needs the right on the other queue too. Gives the end of the text for the audit.
fn check_target(
    site: &Site,
    asked: &Asked,
    verb: &str,
    action: &Action,
) -> Result<String, Problem> {
    let Action::MoveTo(to) = action else { return Ok(String::new()) };
    site.check_may(asked, verb, to)?;
    Ok(format!(" to the queue {to}"))
}

/// Changes one job, and gives it as it was before.
pub(crate) async fn change_one(
    site: &Site,
    asked: &Asked,
    queue: &str,
    which: &Which,
    (verb, action): (&str, &Action),
) -> Result<JobInfo, Problem> {
    let id = &which.id;
    // Large, and passed on.
    let doing = Box::pin(async {
        let (changed, job) = change_seen(site, queue, which, action).await?;
        match (changed, job) {
            (Changed::Done, Some(job)) => Ok((job, "done 1".to_owned())),
            (Changed::Conflict, _) => Err(Problem::conflict(format!(
                "the job {id} is unique, and another holds its key: see the locks of the queue {queue}"
            ))),
            (Changed::Changed, _) => Err(Problem::changed(format!(
                "the job {id} on the queue {queue} is not as it was seen: look again"
            ))),
            (_, Some(job)) => Err(Problem::changed(format!(
                "the job {id} on the queue {queue} is {}, and cannot be changed so",
                job.state
            ))),
            (_, None) => Err(Problem::not_found(format!("no job {id} on the queue {queue}"))),
        }
    });
    let what = format!("{id}{}", check_target(site, asked, verb, action)?);
    site.act(asked, verb, queue, &what, doing).await
}

/// What became of it, and the job as it was before, where it was there.
async fn change_seen(
    site: &Site,
    queue: &str,
    which: &Which,
    action: &Action,
) -> Result<(Changed, Option<JobInfo>), Problem> {
    let inspect = site.client.inspect(queue);
    let mut last = None;
    // It may go on between the look and the change.
    for _ in 0..3 {
        let Some(job) = site.find(queue, &which.id).await? else { break };
        if which.seen.is_some() && job.at != which.seen {
            return Ok((Changed::Changed, Some(job)));
        }
        let changed = inspect.change(std::slice::from_ref(&job), action).await?.pop();
        let changed = changed.unwrap_or(Changed::Missing);
        if changed != Changed::Missing {
            return Ok((changed, Some(job)));
        }
        last = Some(job);
    }
    Ok((Changed::Missing, last))
}
