//! A job that only has to be sent.

use std::borrow::Cow;

use tokio::runtime;

use crate::client::Client;
use crate::durability::Durability;
use crate::envelope::JobId;
use crate::error::Error;
use crate::limit::List;
use crate::store::{Connection, Due, NoRoom};

/// Where in its queue a job waits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Place {
    pub(crate) list: List,
    /// How many jobs of its key run at once, where its arguments say so.
    pub(crate) at_once: Option<u32>,
    /// What `push` is told of it, see [`terms`](crate::limit::terms).
    pub(crate) terms: String,
    /// Ahead of the others of its list.
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
        if let Some(no_room) = self.client.no_room(&self.queue, 1, false).await {
            return Err(self.full(no_room, None));
        }
        let Place { list, at_once, terms, front } = &self.place;
        let sent = match self.due {
            None if *front || list.has_limits() => {
                let queue = &self.client.queue_of(&self.queue, list);
                let (name, how) = (&*list.to_string(), if *front { "RPUSH" } else { "LPUSH" });
                let push = |connection: Connection, within| {
                    let placed = [(name, &**terms, &*self.envelope)];
                    async move {
                        let pushed = queue.push_each(&connection, placed.into_iter(), how, within);
                        let both = tokio::join!(biased; pushed, connection.confirm(1));
                        both.1.and(both.0)
                    }
                };
                match self.client.until_sent(queue, self.confirms, push).await {
                    Ok(Some(no_room)) => return Err(self.full(no_room, self.key())),
                    Ok(None) => Ok(()),
                    Err(fault) => Err(fault),
                }
            }
            None => {
                let to = (&*self.queue, list.priority);
                self.client.push(runtime, to, self.envelope, self.confirms).await
            }
            Some(due) => {
                let queue = &self.client.queue_of(&self.queue, list);
                let envelope = &self.envelope;
                let schedule = |connection, within| async move {
                    queue.schedule(&connection, &[(due, *at_once, &**envelope)], within).await
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

    /// As the server keeps it.
    pub(super) fn key(&self) -> Option<String> {
        self.place.list.key().map(|(_, key)| key.to_owned())
    }

    /// So many wait, of its key or on its queue, and no more may.
    pub(super) fn full(&self, no_room: NoRoom, key: Option<String>) -> Error {
        let doing = format!("enqueue job {} {} on the queue {}", self.job, self.id, self.queue);
        Error::Full { doing, key, waiting: no_room.waiting, max_waiting: no_room.most }
    }
}
