//! Orders to batches.

use crate::batch::{BatchChange, BatchHandle, BatchState};
use crate::inspect::BatchAudit;
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::site::Site;

/// Cancels, pauses or resumes a batch; gives whether that changed it, and how it stands.
pub(crate) async fn order(
    site: &Site,
    asked: &Asked,
    order: &str,
    batch: &BatchHandle,
) -> Result<(bool, BatchState), Problem> {
    let doing = async {
        let change = match order {
            "cancel" => batch.cancel().await?,
            "pause" => batch.pause().await?,
            _ => batch.resume().await?,
        };
        Ok(match change {
            BatchChange::Unchanged(state) => ((false, state), "unchanged".to_owned()),
            BatchChange::Changed => {
                let state = batch.status().await?.map_or(BatchState::Finished, |batch| batch.state);
                ((true, state), "changed".to_owned())
            }
        })
    };
    site.act(asked, order, "", &format!("the batch {}", batch.id()), doing).await
}

/// Has missing members count as ended.
pub(crate) async fn repair(
    site: &Site,
    asked: &Asked,
    batch: &BatchHandle,
) -> Result<Option<BatchAudit>, Problem> {
    let doing = async {
        let audit = batch.repair().await?;
        let missing = audit.as_ref().map_or(0, |audit| audit.missing.len());
        Ok((audit, format!("{missing} were missing")))
    };
    // On the heap, as it reads whole queues.
    Box::pin(site.act(asked, "repair", "", &format!("the batch {}", batch.id()), doing)).await
}
