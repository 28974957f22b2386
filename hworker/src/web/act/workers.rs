//! Workers that are told something. They learn of it with their next heartbeat, within 2 s.

use std::time::Duration;

use crate::error::Error;
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::site::Site;

async fn tell(
    site: &Site,
    asked: &Asked,
    (verb, id): (&str, &str),
    order: impl Future<Output = Result<usize, Error>>,
) -> Result<usize, Problem> {
    let doing = async {
        let workers = order.await?;
        Ok((workers, format!("told {workers}")))
    };
    site.act(asked, verb, "", &format!("worker {id}"), doing).await
}

/// Has a worker take no more jobs; gives how many live workers were told.
pub(crate) async fn quiet(site: &Site, asked: &Asked, id: &str) -> Result<usize, Problem> {
    tell(site, asked, ("quiet", id), Box::pin(site.client.worker(id).quiet())).await
}

/// Has a worker take jobs again.
pub(crate) async fn resume(site: &Site, asked: &Asked, id: &str) -> Result<usize, Problem> {
    tell(site, asked, ("resume", id), Box::pin(site.client.worker(id).resume())).await
}

/// Stops a worker, as SIGTERM does; its jobs may finish within a time.
pub(crate) async fn stop(
    site: &Site,
    asked: &Asked,
    id: &str,
    grace: Option<Duration>,
) -> Result<usize, Problem> {
    tell(site, asked, ("stop", id), Box::pin(site.client.worker(id).stop(grace))).await
}
