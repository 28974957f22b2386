//! A job that only has to be sent.

use std::borrow::Cow;

use tokio::runtime;

use crate::client::Client;
use crate::durability::Durability;
use crate::envelope::JobId;
use crate::error::Error;
use crate::store::Due;

/// A job encoded and checked.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) client: Client,
    pub(crate) queue: Cow<'static, str>,
    pub(crate) due: Option<Due>,
    pub(super) job: &'static str,
    pub(crate) id: JobId,
    pub(crate) confirms: Option<Durability>,
    pub(crate) envelope: Vec<u8>,
}

#[cfg(test)]
impl Ready {
    pub(crate) fn of_envelope(
        client: Client,
        queue: &'static str,
        due: Option<Due>,
        envelope: Vec<u8>,
    ) -> Self {
        let (queue, id) = (queue.into(), JobId::fresh());
        Self { client, queue, due, job: "test", id, confirms: None, envelope }
    }
}

impl Ready {
    pub(super) async fn send(self, runtime: runtime::Id) -> Result<JobId, Error> {
        let sent = match self.due {
            None => self.client.push(runtime, &self.queue, self.envelope, self.confirms).await,
            Some(due) => {
                let queue = &self.client.queue(&self.queue);
                let envelope = &self.envelope;
                let schedule = |connection, within| async move {
                    queue.schedule(&connection, &[(due, envelope.as_slice())], within).await
                };
                self.client.until_sent(queue, self.confirms, schedule).await
            }
        };
        match sent {
            Ok(()) => Ok(self.id),
            Err(fault) => {
                let (job, queue, fault) = (self.job, &self.queue, fault.at(self.client.address()));
                let doing = |id: &JobId| format!("enqueue job {job} {id} on the queue {queue}");
                Err(fault.into_error_of(self.id, doing))
            }
        }
    }
}
