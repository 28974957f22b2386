//! Marks of deploys: when a release came, as the charts show it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::client::Client;
use crate::error::Error;
use crate::store::{Fault, MetaKey};

/// A mark has so many characters at most.
const LONGEST: usize = 200;

/// A mark at a time: that a release came, or whatever else changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct DeployMark {
    /// When it was set, in milliseconds since 1970 by the server's clock.
    pub at: u64,
    /// Who set it: the name of an operator of the page, or of a user and a host.
    pub who: String,
    /// What changed, as `1.4.2`.
    pub text: String,
}

impl DeployMark {
    fn of(id: &str, mut fields: BTreeMap<String, String>) -> Self {
        let mut field = |name: &str| fields.remove(name).unwrap_or_default();
        let at = id.split('-').next().and_then(|ms| ms.parse().ok()).unwrap_or(0);
        Self { at, who: field("who"), text: field("text") }
    }
}

/// The text of a mark as it is kept, or what is wrong with it.
pub(crate) fn check_text(text: &str) -> Result<&str, String> {
    let text = text.trim();
    if !(1..=LONGEST).contains(&text.chars().count()) || text.chars().any(char::is_control) {
        return Err(format!("a mark is one line of 1 to {LONGEST} characters, as `1.4.2`"));
    }
    Ok(text)
}

impl Client {
    /// Marks now in the charts of all queues: that a release came, or whatever else changed. The last 200 marks are kept.
    ///
    /// ```no_run
    /// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
    /// client.mark_deploy("ci", "1.4.2").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] for a text that is empty, has more than 200 characters, or has control characters. Where the server does not take it.
    pub async fn mark_deploy(&self, who: &str, text: &str) -> Result<DeployMark, Error> {
        let text = check_text(text).map_err(Error::config)?;
        let write = async {
            let (meta, on) = self.meta(MetaKey::Deploys).await?;
            meta.add_deploy(&on, &[("who", who), ("text", text)]).await
        };
        let id = write.await;
        let id = id.map_err(|fault: Fault| fault.into_error_of_change("mark a deploy".into()))?;
        let fields = [("who", who), ("text", text)];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(DeployMark::of(&id, fields.into()))
    }

    /// The marks that were set, the latest first, at most 200.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn deploys(&self) -> Result<Vec<DeployMark>, Error> {
        let read = async {
            let (meta, on) = self.meta(MetaKey::Deploys).await?;
            meta.deploys(&on).await
        };
        let entries = read.await.map_err(|fault: Fault| fault.into_error("read the deploys"))?;
        Ok(entries.into_iter().map(|(id, fields)| DeployMark::of(&id, fields)).collect())
    }
}
