//! How a batch stands.

use serde::Serialize;

use super::id::BatchId;
use crate::relay::BatchEntry;

/// How a batch stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct BatchStatus {
    /// Its id.
    #[cfg_attr(feature = "web", schema(value_type = String))]
    pub id: BatchId,
    /// What it is called.
    pub name: String,
    /// Where it is.
    pub state: BatchState,
    /// Members may still be added from outside.
    pub is_open: bool,
    /// Somebody cancelled it, or it was abandoned.
    pub is_cancelled: bool,
    /// It was cancelled because it was open and did not grow for an hour.
    pub is_abandoned: bool,
    /// When it was begun, in milliseconds since 1970 by the server's clock.
    pub created_at: u64,
    /// Until when it is kept at most, in milliseconds since 1970, where it says that.
    pub expires_at: Option<u64>,
    /// How many members it has so far.
    pub total: u64,
    /// How many have ended.
    pub ended: u64,
    /// How many of these failed, were cancelled one by one, or expired, and have not succeeded since.
    pub bad: u64,
    /// How many of these were cancelled with the batch.
    pub cancelled: u64,
    /// The batch of which it is a member.
    #[cfg_attr(feature = "web", schema(value_type = Option<String>))]
    pub parent: Option<BatchId>,
    /// How many of its members are batches.
    pub children: u64,
    /// Its tags.
    pub tags: Vec<String>,
    /// What was noted beside it, by name.
    #[cfg_attr(feature = "web", schema(value_type = Object))]
    pub meta: serde_json::Map<String, serde_json::Value>,
    /// The queues to which members were sent.
    pub queues: Vec<String>,
    /// How each callback stands, where the batch has it.
    pub on_failure: Option<CallbackState>,
    /// The same of the one that comes when all have ended.
    pub on_settled: Option<CallbackState>,
    /// The same of the one that comes when all have succeeded.
    pub on_success: Option<CallbackState>,
    /// The first hundred members that did not end well.
    pub failures: Vec<BatchFailure>,
}

/// Where a batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub enum BatchState {
    /// Members are added from outside.
    Open,
    /// No more members come but from members.
    Sealed,
    /// No member starts.
    Paused,
    /// No member starts any more; some have not ended yet.
    Cancelled,
    /// All members and all callbacks that came have ended.
    Finished,
}

/// Where a callback is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub enum CallbackState {
    /// What it is for has not happened.
    Waits,
    /// It is about to be enqueued.
    Due,
    /// It is enqueued.
    Pushed,
    /// It has run.
    Ended,
    /// It failed for good, was cancelled, or has expired.
    Failed,
}

/// A member that did not end well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct BatchFailure {
    /// Its place among the members, from 0.
    pub member: u64,
    /// `failed`, `cancelled`, `expired`, `deleted`, `broken` or `lost`.
    pub outcome: String,
    /// The id of the job, or of the batch.
    #[cfg_attr(feature = "web", schema(value_type = String))]
    pub id: crate::envelope::JobId,
}

impl BatchState {
    /// As its server says it.
    pub(super) fn of(word: &str) -> Self {
        match word {
            "open" => Self::Open,
            "paused" => Self::Paused,
            "cancelled" | "abandoned" => Self::Cancelled,
            "finished" => Self::Finished,
            _ => Self::Sealed,
        }
    }
}

impl BatchStatus {
    pub(super) fn of(id: BatchId, entry: BatchEntry) -> Self {
        let is_abandoned = entry.stop == "abandoned";
        let state = if entry.state == "finished" || entry.stop.is_empty() {
            BatchState::of(&entry.state)
        } else {
            BatchState::of(&entry.stop)
        };
        let mut callbacks = entry.callbacks.into_iter().zip(entry.failed);
        let mut callback =
            || callbacks.next().and_then(|(stands, how)| CallbackState::read(stands, how.as_ref()));
        let (on_failure, on_settled, on_success) = (callback(), callback(), callback());
        // A shard is of its queue.
        let queue = |label: String| label.split('#').next().unwrap_or_default().to_owned();
        let mut queues: Vec<_> = entry.queues.into_iter().map(queue).collect();
        queues.sort_unstable();
        queues.dedup();
        Self {
            id,
            name: entry.name,
            state,
            is_open: entry.state == "open",
            is_cancelled: is_abandoned || entry.stop == "cancelled",
            is_abandoned,
            created_at: entry.at,
            expires_at: entry.expires,
            total: entry.total,
            ended: entry.ended,
            bad: entry.bad,
            cancelled: entry.cancelled,
            parent: entry.parent.and_then(|(parent, _)| parent.parse().ok()),
            children: entry.children,
            tags: serde_json::from_str(&entry.tags).unwrap_or_default(),
            meta: serde_json::from_str(&entry.meta).unwrap_or_default(),
            queues,
            on_failure,
            on_settled,
            on_success,
            failures: entry.fails.iter().filter_map(|text| BatchFailure::read(text)).collect(),
        }
    }
}

impl CallbackState {
    fn read(text: Option<String>, failed: Option<&String>) -> Option<Self> {
        Some(match text?.as_str() {
            "due" => Self::Due,
            "pushed" => Self::Pushed,
            "ended" if failed.is_some() => Self::Failed,
            "ended" => Self::Ended,
            _ => Self::Waits,
        })
    }
}

impl BatchFailure {
    fn read(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let member = words.next()?.parse().ok()?;
        Some(Self { member, outcome: words.next()?.to_owned(), id: words.next()?.into() })
    }
}
