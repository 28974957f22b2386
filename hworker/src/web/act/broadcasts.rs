//! Jobs for each worker that are cancelled.

use crate::envelope::JobId;
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::site::Site;

/// Cancels a job for each worker; gives how many that run it were told.
pub(crate) async fn cancel(
    site: &Site,
    asked: &Asked,
    queue: &str,
    id: &str,
) -> Result<u64, Problem> {
    let what = format!("the job {id} for each worker");
    let doing = async {
        let told = site.client.control(queue).cancel_broadcast(&JobId::from(id)).await?;
        Ok((told, format!("cancelled, {told} told")))
    };
    site.act(asked, "cancel", queue, &what, doing).await
}
