//! What there is of a batch.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::client::Client;
use crate::error::Error;
use crate::relay;
use crate::runtime;
use crate::time::since_1970;

/// The id of a batch: 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchId(Box<str>);

impl BatchId {
    pub(crate) fn fresh() -> Self {
        let now = since_1970(std::time::SystemTime::now());
        Self(crate::fresh_uuid::v7(now).simple().to_string().into())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BatchId {
    type Err = Error;

    /// # Errors
    /// [`Error::Config`] if it is not one.
    fn from_str(id: &str) -> Result<Self, Error> {
        if relay::is_id(id) {
            Ok(Self(id.into()))
        } else {
            Err(Error::config("the id of a batch has 32 hexadecimal digits, in lower case"))
        }
    }
}

impl Serialize for BatchId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for BatchId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// How a batch stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BatchStatus {
    /// Its id.
    pub id: BatchId,
    /// What it is called.
    pub name: String,
    /// Whether members may still come, or it waits for those that there are, or all that follows is done.
    pub state: BatchState,
    /// When it was begun, in milliseconds since 1970 by the server's clock.
    pub created_at: u64,
    /// How many members it has; none while they are still enqueued.
    pub total: Option<u64>,
    /// How many have ended.
    pub ended: u64,
    /// How many of these failed, were cancelled, or expired, and have not succeeded since.
    pub bad: u64,
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
#[non_exhaustive]
pub enum BatchState {
    /// Members are still enqueued.
    Open,
    /// No more members come.
    Sealed,
    /// All members and all callbacks that came have ended.
    Finished,
}

/// Where a callback is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallbackState {
    /// What it is for has not happened.
    Waits,
    /// It is about to be enqueued.
    Due,
    /// It is enqueued.
    Pushed,
    /// It has run, or failed.
    Ended,
}

/// A member that did not end well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BatchFailure {
    /// Its place among the members, from 0.
    pub member: u64,
    /// `failed`, `cancelled` or `expired`.
    pub outcome: String,
    /// The id of the job.
    pub id: crate::envelope::JobId,
}

impl CallbackState {
    fn read(text: Option<String>) -> Option<Self> {
        Some(match text?.as_str() {
            "due" => Self::Due,
            "pushed" => Self::Pushed,
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

impl Client {
    /// How a batch stands; `None` where there is none of this id, or it was finished long ago: a day, or 14 days if any member ended badly.
    ///
    /// ```no_run
    /// # async fn demo(client: hworker::Client, id: hworker::BatchId) -> Result<(), hworker::Error> {
    /// if let Some(batch) = client.batch(&id).await? {
    ///     println!("{} of {:?} have ended, {} badly", batch.ended, batch.total, batch.bad);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the server says, or that it does not answer.
    pub async fn batch(&self, id: &BatchId) -> Result<Option<BatchStatus>, Error> {
        runtime::current("a batch was looked at outside a tokio runtime; await it inside one")?;
        let found = relay::read(self, id.as_str()).await.map_err(|fault| {
            fault.at(self.address()).into_error(format!("look at the batch {id}"))
        })?;
        Ok(found.map(|entry| {
            let [on_failure, on_settled, on_success] = entry.callbacks.map(CallbackState::read);
            BatchStatus {
                id: id.clone(),
                name: entry.name,
                state: match entry.state.as_str() {
                    "open" => BatchState::Open,
                    "finished" => BatchState::Finished,
                    _ => BatchState::Sealed,
                },
                created_at: entry.at,
                total: entry.total,
                ended: entry.ended,
                bad: entry.bad,
                on_failure,
                on_settled,
                on_success,
                failures: entry.fails.iter().filter_map(|text| BatchFailure::read(text)).collect(),
            }
        }))
    }
}
