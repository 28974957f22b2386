//! Queues that are paused, resumed, cleared and destroyed.

use std::time::{Duration, Instant};

use serde::Serialize;
use utoipa::ToSchema;

use crate::inspect::{Action, Changed, Order};
use crate::job_state::JobState;
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::site::Site;

/// Pauses a queue, for so long or until it is resumed.
pub(crate) async fn pause(
    site: &Site,
    asked: &Asked,
    queue: &str,
    duration: Option<Duration>,
) -> Result<(), Problem> {
    let what = duration.map_or_else(String::new, |time| format!("for {} ms", time.as_millis()));
    let doing = async {
        let control = site.client.control(queue);
        match duration {
            Some(time) => control.pause_for(time).await?,
            None => control.pause().await?,
        }
        Ok(((), "paused".into()))
    };
    site.act(asked, "pause", queue, &what, doing).await
}

/// Resumes a queue; gives whether it was paused.
pub(crate) async fn resume(site: &Site, asked: &Asked, queue: &str) -> Result<bool, Problem> {
    let doing = async {
        let was_paused = site.client.control(queue).resume().await?;
        let result = if was_paused { "resumed" } else { "was not paused" };
        Ok((was_paused, result.into()))
    };
    site.act(asked, "resume", queue, "", doing).await
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Cleared {
    /// So many are deleted.
    pub(crate) deleted: u64,
    /// Whether there may be more: ask again. A call deletes for at most 5 s.
    pub(crate) more: bool,
}

/// Deletes all jobs in one state.
pub(crate) async fn clear(
    site: &Site,
    asked: &Asked,
    queue: &str,
    state: JobState,
) -> Result<Cleared, Problem> {
    if state == JobState::Running {
        return Err(Problem::invalid("running jobs are cancelled, one by one"));
    }
    let doing = async {
        let cleared = delete_all(site, queue, state).await?;
        let more = if cleared.more { ", and there are more" } else { "" };
        let result = format!("done {}{more}", cleared.deleted);
        Ok((cleared, result))
    };
    site.act(asked, "clear", queue, state.name(), doing).await
}

/// Deletes page by page, each from the begin, so that none is left out.
async fn delete_all(site: &Site, queue: &str, state: JobState) -> Result<Cleared, Problem> {
    const WITHIN: Duration = Duration::from_secs(5);
    let (inspect, since) = (site.client.inspect(queue), Instant::now());
    // What was there when it began, so that jobs which fail again and again do not keep it going.
    let mut left = inspect.jobs(state).limit(1).page().await?.total;
    let mut deleted = 0;
    while left > 0 && since.elapsed() < WITHIN {
        let page = inspect.jobs(state).order(Order::Next).limit(100).page().await?;
        if page.items.is_empty() {
            return Ok(Cleared { deleted, more: false });
        }
        left = left.saturating_sub(page.items.len() as u64);
        let changed = inspect.change(&page.items, &Action::Delete).await?;
        deleted += changed.iter().filter(|changed| **changed == Changed::Done).count() as u64;
    }
    Ok(Cleared { deleted, more: left > 0 })
}

/// Deletes a queue with all that belongs to it; gives how many keys there were.
pub(crate) async fn destroy(
    site: &Site,
    asked: &Asked,
    queue: &str,
    force: bool,
) -> Result<u64, Problem> {
    let what = if force { "with force" } else { "" };
    let doing = async {
        let keys = site.client.inspect(queue).destroy(force).await?;
        Ok((keys, format!("{keys} keys")))
    };
    site.act(asked, "destroy", queue, what, doing).await
}
