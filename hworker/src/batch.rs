//! A batch that there is: how it stands, and what may be done to it.

mod id;
mod status;

use serde::Serialize;

use crate::client::{Client, OfWorker};
use crate::context::Context;
use crate::error::Error;
use crate::relay::{self, BatchEntry};
use crate::runtime;
use crate::store::Fault;

pub use id::BatchId;
pub use status::{BatchFailure, BatchState, BatchStatus, CallbackState};

/// What became of an order to a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub enum BatchChange {
    /// It is done.
    Changed,
    /// It was so already, or cannot be any more: this is how it stands.
    Unchanged(BatchState),
}

/// A batch, to grow it, to look at it, and to cancel, pause or resume it. [`Client::batch`] gives one, [`Batch::open`](crate::Batch::open), and inside
/// of a member [`Context::batch`].
///
/// ```no_run
/// # async fn demo(client: hworker::Client, id: hworker::BatchId) -> Result<(), hworker::Error> {
/// let batch = client.batch(&id);
/// if let Some(status) = batch.status().await? {
///     println!("{} of {} have ended, {} badly", status.ended, status.total, status.bad);
/// }
/// batch.cancel().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct BatchHandle {
    pub(crate) client: Client,
    pub(crate) id: BatchId,
    /// The number of the member whose body this is, `c` in the body of a callback, nothing outside.
    pub(crate) by: Box<str>,
}

impl BatchHandle {
    pub(crate) fn new(client: Client, id: BatchId) -> Self {
        Self { client, id, by: Box::default() }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &BatchId {
        &self.id
    }

    /// How it stands; `None` where there is none of this id, or it was finished long ago: a day, or 14 days if any member ended badly.
    ///
    /// # Errors
    /// What the server says, or that it does not answer.
    pub async fn status(&self) -> Result<Option<BatchStatus>, Error> {
        let entry = self.read().await?;
        Ok(entry.map(|entry| BatchStatus::of(self.id.clone(), entry)))
    }

    /// Of what is a member of another batch: that one. In the body of a callback of this batch, it can be grown.
    ///
    /// # Errors
    /// As [`BatchHandle::status`].
    pub async fn parent(&self) -> Result<Option<Self>, Error> {
        let entry = self.read().await?;
        Ok(entry.and_then(|entry| {
            let (parent, number) = entry.parent?;
            let by = if self.by.is_empty() { String::new() } else { number.to_string() };
            Some(Self { client: self.client.clone(), id: parent.parse().ok()?, by: by.into() })
        }))
    }

    /// Says that nothing is added any more but by members. It ends when all of these have ended.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is none; [`Error::Unanswered`] where the answer was lost: this can be repeated; else what the server says.
    pub async fn seal(&self) -> Result<BatchChange, Error> {
        self.order("seal").await
    }

    /// Cancels it: nothing is added any more, no member starts any more, those that run are cancelled as by
    /// [`Inspect::cancel`](crate::Inspect::cancel), and so are the batches that are its members. A member ends as cancelled when a worker meets it,
    /// which counts as ended and not as bad. `on_settled` comes once all have ended, `on_success` never.
    ///
    /// # Errors
    /// As [`BatchHandle::seal`].
    pub async fn cancel(&self) -> Result<BatchChange, Error> {
        self.order("cancel").await
    }

    /// Pauses it: no member starts any more; what runs goes on, and callbacks come. Members that workers meet are put aside. It survives restarts of
    /// workers and servers. The batches that are its members go on.
    ///
    /// # Errors
    /// As [`BatchHandle::seal`].
    pub async fn pause(&self) -> Result<BatchChange, Error> {
        self.order("pause").await
    }

    /// Resumes it: what was put aside is the next to run.
    ///
    /// # Errors
    /// As [`BatchHandle::seal`].
    pub async fn resume(&self) -> Result<BatchChange, Error> {
        self.order("resume").await
    }

    async fn order(&self, order: &str) -> Result<BatchChange, Error> {
        in_a_runtime()?;
        let ordered = relay::order(&self.client, self.id.as_str(), order).await;
        let doing = || format!("{order} the batch {}", self.id);
        let ordered = ordered
            .map_err(|fault| fault.at(self.client.address()).into_error_of_change(doing()))?;
        let Some(ordered) = ordered else {
            return Err(Error::NotFound { what: format!("a batch {}", self.id) });
        };
        Ok(if ordered.is_changed {
            BatchChange::Changed
        } else {
            BatchChange::Unchanged(BatchState::of(&ordered.state))
        })
    }

    pub(crate) async fn read(&self) -> Result<Option<BatchEntry>, Error> {
        in_a_runtime()?;
        let found = relay::read(&self.client, self.id.as_str()).await;
        found.map_err(|fault| self.error("look at", fault))
    }

    pub(crate) fn error(&self, what: &str, fault: Fault) -> Error {
        fault.at(self.client.address()).into_error(format!("{what} the batch {}", self.id))
    }
}

fn in_a_runtime() -> Result<(), Error> {
    let outside = "a batch was asked outside a tokio runtime; await it inside one";
    runtime::current(outside).map(drop)
}

impl Client {
    /// The batch of this id. Nothing is asked yet.
    ///
    /// ```no_run
    /// # async fn demo(client: hworker::Client, id: hworker::BatchId) -> Result<(), hworker::Error> {
    /// if let Some(batch) = client.batch(&id).status().await? {
    ///     println!("{} of {} have ended, {} badly", batch.ended, batch.total, batch.bad);
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn batch(&self, id: &BatchId) -> BatchHandle {
        BatchHandle::new(self.clone(), id.clone())
    }

    /// The batches that are not finished, at most so many, in no order; they may be a minute behind.
    ///
    /// # Errors
    /// What the server says, or that it does not answer.
    pub async fn batches(&self, at_most: usize) -> Result<Vec<BatchStatus>, Error> {
        in_a_runtime()?;
        let doing = |fault: Fault| fault.at(self.address()).into_error("list the batches");
        let ids = relay::list(self, at_most).await.map_err(doing)?;
        let mut batches = Vec::new();
        for id in ids {
            let Ok(id) = id.parse::<BatchId>() else { continue };
            batches.extend(self.batch(&id).status().await?);
        }
        Ok(batches)
    }
}

impl Context {
    /// The batch to which this job belongs, as a member or as a callback. A member can grow it, sealed or not.
    ///
    /// ```no_run
    /// #[hworker::job]
    /// async fn crawl(page: String, context: hworker::Context) -> Result<(), hworker::Error> {
    ///     let links: Vec<String> = vec![format!("{page}/more")];
    ///     context.batch()?.add("links", links.into_iter().map(crawl::with)).await
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] where it belongs to none.
    pub fn batch(&self) -> Result<BatchHandle, Error> {
        let none = || Error::config("this job belongs to no batch");
        let (batch, which) = self.of().and_then(relay::place).ok_or_else(none)?;
        let client = match self.worker_state() {
            Some(OfWorker(client)) => client,
            None => Client::default_client()?,
        };
        let by = if which.starts_with('c') { "c" } else { which };
        Ok(BatchHandle { client, id: BatchId(batch.into()), by: by.into() })
    }
}
