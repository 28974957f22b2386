//! A job that only has to be sent.

use std::borrow::Cow;

use tokio::runtime;

use crate::client::Client;
use crate::durability::Durability;
use crate::envelope::JobId;
use crate::error::Error;
use crate::priority::Priority;
use crate::store::{Connection, Due};

/// Where in its queue a job waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Place {
    pub(crate) priority: Priority,
    /// Ahead of the others of its priority.
    pub(crate) front: bool,
}

/// A job encoded and checked.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) client: Client,
    pub(crate) queue: Cow<'static, str>,
    pub(crate) place: Place,
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
        let place = Place::default();
        Self { client, queue, place, due, job: "test", id, confirms: None, envelope }
    }
}

impl Ready {
    pub(super) async fn send(self, runtime: runtime::Id) -> Result<JobId, Error> {
        let Place { priority, front } = self.place;
        let sent = match self.due {
            None if front => {
                let queue = &self.client.queue(&self.queue).at(priority);
                let envelope = &[self.envelope];
                let push = |connection: Connection, within| async move {
                    let pushed = queue.enqueue_in_front(&connection, envelope, within);
                    let (pushed, confirmed) = tokio::join!(biased; pushed, connection.confirm(1));
                    pushed.and(confirmed)
                };
                self.client.until_sent(queue, self.confirms, push).await
            }
            None => {
                let to = (&*self.queue, priority);
                self.client.push(runtime, to, self.envelope, self.confirms).await
            }
            Some(due) => {
                let queue = &self.client.queue(&self.queue).at(priority);
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
