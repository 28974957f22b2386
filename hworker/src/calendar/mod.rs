//! The timing of a cron entry as it is written; and, with the feature `cron`, when it is due.

#[cfg(feature = "cron")]
mod search;
#[cfg(all(test, feature = "cron"))]
mod tests;
#[cfg(feature = "cron")]
mod zones;

use serde::{Deserialize, Serialize};

#[cfg(feature = "cron")]
pub(crate) use search::Calendar;

/// When an entry runs, and what is done about runs that are missed or overlap; all as it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timing {
    /// A cron expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// In ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// Its name; UTC without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Days of the week on which it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_days: Option<String>,
    /// It does not run before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// It does not run after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// How many runs it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// In ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub splay: Option<u64>,
    /// What is done about runs that were missed.
    pub catch_up: CatchUp,
    /// What is done while the run before goes on.
    pub overlap: Overlap,
}

/// What is done about runs that were missed, as while no worker was there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CatchUp {
    /// They are left out. One that was due within the last minute still runs.
    #[default]
    Skip,
    /// The last of them runs.
    One,
    /// All of them run, at most the last 100.
    All,
}

/// What is done when a run is due while the one before waits or runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overlap {
    /// Both run.
    #[default]
    Allow,
    /// The new one is left out.
    Skip,
    /// The new one waits until the other has ended. One waits at most.
    Queue,
    /// The other is cancelled; the new one runs once it has ended.
    Cancel,
}
