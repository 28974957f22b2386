//! Looks for the members of a batch that have not ended, and mends what cannot end any more.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;

use crate::batch::{BatchHandle, BatchId};
use crate::client::Client;
use crate::envelope::belongs;
use crate::error::Error;
use crate::job_state::JobState;
use crate::relay;
use crate::store::{Fault, Queue};

/// What is in neither of two looks is missing: the second comes so long after the first, as a job may go on meanwhile.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// In these states a member has not ended, in the order in which a job goes its way.
const ALIVE: [JobState; 4] =
    [JobState::Waiting, JobState::Scheduled, JobState::Parked, JobState::Running];

/// What was found of the members of a batch. See [`BatchHandle::verify`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct BatchAudit {
    /// The batch.
    #[cfg_attr(feature = "web", schema(value_type = String))]
    pub id: BatchId,
    /// How many of its members have not ended.
    pub alive: u64,
    /// The numbers of those that are nowhere, and can never end.
    pub missing: Vec<u64>,
    /// These count as ended now: as `lost`, which is bad.
    pub is_repaired: bool,
}

impl BatchHandle {
    /// Looks for every member that has not ended, in the queues to which members were sent: a member that somebody removed from the server, or moved to
    /// another queue, is missing. Where any is, it looks again a minute later, and what is found then is not. It reads these queues whole.
    ///
    /// ```no_run
    /// # async fn demo(client: hworker::Client, id: hworker::BatchId) -> Result<(), hworker::Error> {
    /// if let Some(audit) = client.batch(&id).verify().await? {
    ///     println!("{} have not ended, {} are missing", audit.alive, audit.missing.len());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the server says, or that it does not answer.
    pub async fn verify(&self) -> Result<Option<BatchAudit>, Error> {
        self.audit(AGAIN_AFTER, false).await
    }

    /// The same, and has the missing ones count as ended, and as bad. What the batch counts is counted anew, and what is due of it is done.
    ///
    /// # Errors
    /// As [`BatchHandle::verify`].
    pub async fn repair(&self) -> Result<Option<BatchAudit>, Error> {
        self.audit(AGAIN_AFTER, true).await
    }

    /// For tests, which have no minute.
    #[doc(hidden)]
    pub async fn audit(&self, pause: Duration, repairs: bool) -> Result<Option<BatchAudit>, Error> {
        let Some(mut missing) = self.missing().await? else { return Ok(None) };
        if !missing.is_empty() {
            sleep(pause).await;
            let Some(again) = self.missing().await? else { return Ok(None) };
            missing.retain(|number| again.contains(number));
        }
        let missing: Vec<_> = missing.into_iter().collect();
        if repairs {
            let repaired = relay::repair(&self.client, self.id.as_str(), &missing).await;
            repaired.map_err(|fault| self.error("repair", fault))?;
        }
        let Some(status) = self.status().await? else { return Ok(None) };
        let alive = status.total.saturating_sub(status.ended);
        Ok(Some(BatchAudit { id: self.id.clone(), alive, missing, is_repaired: repairs }))
    }

    /// The numbers of the members that have not ended, and are nowhere; `None` where there is no such batch.
    async fn missing(&self) -> Result<Option<BTreeSet<u64>>, Error> {
        let Some(entry) = self.read().await? else { return Ok(None) };
        let unended = relay::unended(&self.client, self.id.as_str(), &entry).await;
        let mut unended = unended.map_err(|fault| self.error("look at", fault))?;
        let labels = entry.queues;
        let mut names: Vec<_> =
            labels.iter().map(|label| label.split('#').next().unwrap_or_default()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            if unended.is_empty() {
                break;
            }
            for state in ALIVE {
                self.take_found(name, state, &mut unended).await?;
            }
        }
        for label in &labels {
            let taken = take_beside(&self.client, label, self.id.as_str(), &mut unended).await;
            taken.map_err(|fault| self.error("look for members of", fault))?;
        }
        Ok(Some(unended))
    }

    /// Takes those out that are there.
    async fn take_found(
        &self,
        queue: &str,
        state: JobState,
        unended: &mut BTreeSet<u64>,
    ) -> Result<(), Error> {
        let inspect = self.client.inspect(queue);
        let mut asked = inspect.jobs(state).limit(1_000);
        loop {
            let page = asked.page().await?;
            for job in &page.items {
                take(job.payload(), self.id.as_str(), unended);
            }
            let Some(next) = page.next else { return Ok(()) };
            asked = asked.after(next);
        }
    }
}

/// Takes the number of a job out, if it is a member of this batch.
fn take(payload: &[u8], batch: &str, unended: &mut BTreeSet<u64>) {
    let Some((_, of)) = belongs(payload) else { return };
    if let Some((_, which)) = relay::place(&of).filter(|(of, _)| *of == batch)
        && let Ok(number) = which.parse()
    {
        unended.remove(&number);
    }
}

/// Takes those out that were met while the batch was paused, and those of which a note is to be delivered.
async fn take_beside(
    client: &Client,
    label: &str,
    batch: &str,
    unended: &mut BTreeSet<u64>,
) -> Result<(), Fault> {
    let queue = Queue::of_label(client.key_space(), label, client.limits());
    let on = client.connection_to_inspect(&queue).await?;
    let mut from = 0;
    loop {
        let some = queue.read_paused(&on, batch, from).await?;
        if some.is_empty() {
            break;
        }
        from += some.len();
        for payload in &some {
            take(payload, batch, unended);
        }
    }
    let mut cursor = 0;
    loop {
        let (next, notes) = queue.read_notes(&on, cursor).await?;
        for (_, text) in &notes {
            if let Some(number) = relay::noted(text, batch) {
                unended.remove(&number);
            }
        }
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
    }
}
