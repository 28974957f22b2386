//! Deploys that are marked.

use crate::deploys::{DeployMark, check_text};
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::site::Site;

/// Marks now in the charts.
pub(crate) async fn mark(site: &Site, asked: &Asked, text: &str) -> Result<DeployMark, Problem> {
    site.check_may(asked, "mark", "")?;
    let text = check_text(text).map_err(Problem::invalid)?;
    let doing = async {
        let mark = site.client.mark_deploy(&asked.operator.name, text).await?;
        Ok((mark, "marked".into()))
    };
    site.act(asked, "mark", "", text, doing).await
}
