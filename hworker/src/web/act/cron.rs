//! Cron entries that are paused, resumed, run and removed.

use crate::envelope::JobId;
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::site::Site;

/// Pauses a cron entry; gives whether it ran until now.
pub(crate) async fn pause(
    site: &Site,
    asked: &Asked,
    queue: &str,
    name: &str,
) -> Result<bool, Problem> {
    let doing = async {
        let was_running = site.client.control(queue).cron(name).pause().await?;
        Ok((was_running, "paused".into()))
    };
    site.act(asked, "pause", queue, &format!("cron {name}"), doing).await
}

/// Resumes a cron entry; gives whether it was paused.
pub(crate) async fn resume(
    site: &Site,
    asked: &Asked,
    queue: &str,
    name: &str,
) -> Result<bool, Problem> {
    let doing = async {
        let was_paused = site.client.control(queue).cron(name).resume().await?;
        Ok((was_paused, "resumed".into()))
    };
    site.act(asked, "resume", queue, &format!("cron {name}"), doing).await
}

/// Runs a cron entry now, beside its times; gives the id of its job, or none where it is left out as the run before goes on.
pub(crate) async fn run(
    site: &Site,
    asked: &Asked,
    queue: &str,
    name: &str,
) -> Result<Option<JobId>, Problem> {
    let doing = async {
        let id = site.client.control(queue).cron(name).run_now().await?;
        let result =
            id.as_ref().map_or_else(|| "skipped".to_owned(), |id| format!("enqueued {id}"));
        Ok((id, result))
    };
    site.act(asked, "run", queue, &format!("cron {name}"), doing).await
}

/// Removes a cron entry that was set.
pub(crate) async fn remove(
    site: &Site,
    asked: &Asked,
    queue: &str,
    name: &str,
) -> Result<(), Problem> {
    let doing = async {
        site.client.control(queue).cron(name).remove().await?;
        Ok(((), "removed".into()))
    };
    site.act(asked, "delete", queue, &format!("cron {name}"), doing).await
}
