//! Broken payloads that are put back or deleted.

use crate::inspect::JobInfo;
use crate::job_state::JobState;
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::site::Site;

/// So many payloads are looked through for a digest.
const MOST: usize = 10_000;

/// The broken payload with this digest. At most 10,000 are looked through.
pub(crate) async fn find_broken(
    site: &Site,
    queue: &str,
    digest: &str,
) -> Result<JobInfo, Problem> {
    let inspect = site.client.inspect(queue);
    let mut jobs = inspect.jobs(JobState::Broken).limit(100);
    let mut looked = 0;
    while looked < MOST {
        let page = jobs.page().await?;
        looked += page.items.len();
        if let Some(found) = page.items.into_iter().find(|job| job.digest() == digest) {
            return Ok(found);
        }
        let Some(next) = page.next else { break };
        jobs = jobs.after(next);
    }
    Err(Problem::not_found(format!("no broken payload {digest} on the queue {queue}")))
}

/// Deletes a broken payload.
pub(crate) async fn delete(
    site: &Site,
    asked: &Asked,
    queue: &str,
    digest: &str,
) -> Result<(), Problem> {
    let doing = async {
        let found = find_broken(site, queue, digest).await?;
        site.client.inspect(queue).delete_broken(found.payload()).await?;
        Ok(((), "done 1".into()))
    };
    site.act(asked, "delete", queue, &format!("broken {digest}"), doing).await
}

/// Puts a broken payload back into its queue.
pub(crate) async fn requeue(
    site: &Site,
    asked: &Asked,
    queue: &str,
    digest: &str,
) -> Result<(), Problem> {
    let doing = async {
        let found = find_broken(site, queue, digest).await?;
        site.client.inspect(queue).requeue_broken(found.payload()).await?;
        Ok(((), "done 1".into()))
    };
    site.act(asked, "retry", queue, &format!("broken {digest}"), doing).await
}
