//! Limits that are set, taken back, paused and resumed, and keys that are freed.

use std::time::Duration;

use serde::Deserialize;
use utoipa::ToSchema;

use crate::control::LimitControl;
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::schema::{RateText, count};
use crate::web::site::Site;

/// A limit of a queue, or of one value of its key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfLimit<'a> {
    pub(crate) queue: &'a str,
    pub(crate) name: &'a str,
    pub(crate) key: Option<&'a str>,
}

impl OfLimit<'_> {
    fn control(&self, site: &Site) -> LimitControl {
        let limit = site.client.control(self.queue).limit(self.name);
        self.key.map_or(limit.clone(), |key| limit.of_key(key))
    }

    /// As the audit names it: the value of a key is one of the arguments.
    fn what(&self) -> String {
        let (name, key) = self.name.split_once('=').unwrap_or((self.name, ""));
        let of = if self.key.is_some() || !key.is_empty() { " of a key" } else { "" };
        format!("limit {name}{of}")
    }
}

/// What is set; what is not named stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Values {
    /// How many jobs may run at once.
    #[serde(default, deserialize_with = "count")]
    #[schema(format = Int64, minimum = 1, maximum = 4_294_967_295u32)]
    pub(crate) at_once: Option<u32>,
    /// How many may start in a time.
    #[schema(value_type = Option<RateText>)]
    pub(crate) rate: Option<String>,
    /// How many may wait.
    #[serde(default, deserialize_with = "count")]
    #[schema(format = Int64, minimum = 1, maximum = 4_294_967_295u32)]
    pub(crate) max_waiting: Option<u32>,
}

/// Sets a limit for all workers at once.
pub(crate) async fn set(
    site: &Site,
    asked: &Asked,
    of: OfLimit<'_>,
    values: &Values,
) -> Result<(), Problem> {
    let rate = values.rate.as_deref().map(str::parse).transpose().map_err(Problem::invalid)?;
    if values.at_once.is_none() && rate.is_none() && values.max_waiting.is_none() {
        return Err(Problem::invalid("say what is set: `at_once`, `rate` or `max_waiting`"));
    }
    let limit = of.control(site);
    let doing = async {
        if let Some(jobs) = values.at_once {
            limit.set(jobs).await?;
        }
        if let Some(rate) = rate {
            limit.set_rate(rate).await?;
        }
        if let Some(jobs) = values.max_waiting {
            limit.set_max_waiting(jobs).await?;
        }
        Ok(((), "set".into()))
    };
    site.act(asked, "set limit", of.queue, &of.what(), doing).await
}

/// Takes back what was set; gives whether something was.
pub(crate) async fn unset(site: &Site, asked: &Asked, of: OfLimit<'_>) -> Result<bool, Problem> {
    let limit = of.control(site);
    let doing = async { Ok((limit.unset().await?, "unset".into())) };
    site.act(asked, "unset limit", of.queue, &of.what(), doing).await
}

/// Pauses the jobs of a limit, for so long or until they are resumed.
pub(crate) async fn pause(
    site: &Site,
    asked: &Asked,
    of: OfLimit<'_>,
    duration: Option<Duration>,
) -> Result<(), Problem> {
    let limit = of.control(site);
    let doing = async {
        match duration {
            Some(time) => limit.pause_for(time).await?,
            None => limit.pause().await?,
        }
        Ok(((), "paused".into()))
    };
    site.act(asked, "pause", of.queue, &of.what(), doing).await
}

/// Resumes the jobs of a limit; gives whether they were paused.
pub(crate) async fn resume(site: &Site, asked: &Asked, of: OfLimit<'_>) -> Result<bool, Problem> {
    let limit = of.control(site);
    let doing = async { Ok((limit.resume().await?, "resumed".into())) };
    site.act(asked, "resume", of.queue, &of.what(), doing).await
}

/// Frees a key that a unique job holds; gives whether one held it.
pub(crate) async fn unlock(
    site: &Site,
    asked: &Asked,
    queue: &str,
    key: &str,
) -> Result<bool, Problem> {
    let doing = async {
        let was_held = site.client.control(queue).unlock(key).await?;
        Ok((was_held, if was_held { "freed" } else { "was free" }.into()))
    };
    site.act(asked, "free", queue, "a key", doing).await
}
