//! A job that only has to be sent.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::runtime;

use crate::client::Client;
use crate::durability::Durability;
use crate::envelope::JobId;
use crate::error::{Cause, Error, Refusal};
use crate::hooks::{EventKind, Events};
use crate::job::{OfJob, Whereabouts};
use crate::job_state::JobState;
use crate::limit::List;
use crate::store::{Answer, Connection, Due, Each, NoRoom, Submission, Word};
use crate::unique::{KeyLock, Receipt, Submitted};

/// What a member of a batch says of it takes so many bytes at most.
const OF_BYTES: usize = r#","of":"b.0190a6c2f3d47b8e9a1b2c3d4e5f6071.9999999""#.len();

pub(super) const NOT_UNIQUE: &str = "a member of a batch is not unique and has no id of its own: another job may hold its key, and the batch would never end";

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
    /// What it holds, where it is known by its id.
    pub(crate) lock: Option<Box<KeyLock>>,
    /// It is for each worker, and waits beside the lists.
    pub(crate) each: Option<Each>,
}

impl Place {
    /// By what its shard is chosen, where it has no limit.
    pub(super) fn whose<'a>(&'a self, id: &'a JobId) -> Option<&'a str> {
        let lock = self.lock.as_ref()?;
        Some(if lock.held_by.is_empty() { id.as_str() } else { &lock.held_by[1..] })
    }
}

/// A job encoded and checked.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) client: Client,
    pub(crate) queue: Cow<'static, str>,
    pub(crate) place: Place,
    pub(crate) due: Option<Due>,
    /// The name of its type.
    pub(super) job: Cow<'static, str>,
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
        Self { client, queue, place, due, job: "test".into(), id, confirms: None, envelope }
    }
}

/// A job that is enqueued, or the one that was kept in its place.
pub(super) struct Placed {
    pub(super) receipt: Receipt,
    pub(super) shard: Arc<str>,
    client: Client,
}

impl Placed {
    /// What its enqueue gives.
    pub(super) fn handle<H: OfJob>(self) -> H {
        let Self { receipt, shard, client } = self;
        H::of(receipt.id, || Whereabouts { shard: (*shard).into(), client: Box::new(client) })
    }

    /// Whether it is there because of this enqueue.
    fn is_new(&self) -> bool {
        !matches!(self.receipt.submitted, Submitted::Exists(_) | Submitted::Moved)
    }

    pub(super) fn new(id: JobId, shard: Arc<str>, client: Client) -> Self {
        Self { receipt: Receipt { id, submitted: Submitted::New }, shard, client }
    }
}

impl Ready {
    /// The same once more.
    #[cfg(feature = "testing")]
    pub(super) fn again(&self) -> Self {
        Self {
            client: self.client.clone(),
            queue: self.queue.clone(),
            place: self.place.clone(),
            job: self.job.clone(),
            id: self.id.clone(),
            envelope: self.envelope.clone(),
            ..*self
        }
    }

    pub(super) async fn send(self, runtime: runtime::Id) -> Result<Placed, Error> {
        #[cfg(feature = "testing")]
        let this = match self.sent().await {
            Ok(sent) => sent,
            Err(placed) => return Ok(placed),
        };
        #[cfg(not(feature = "testing"))]
        let this = self;
        this.send_to_server(runtime).await
    }

    /// The same, whoever else keeps it.
    pub(super) async fn send_to_server(self, runtime: runtime::Id) -> Result<Placed, Error> {
        if self.client.writes_events() == Events::All {
            return Box::pin(self.send_and_tell(runtime)).await;
        }
        self.put(runtime).await
    }

    /// Sends it, and tells of it those who read events.
    async fn send_and_tell(self, runtime: runtime::Id) -> Result<Placed, Error> {
        let (queue, job) = (self.queue.clone(), self.job.clone());
        let placed = self.put(runtime).await?;
        if placed.is_new() {
            let shards = placed.client.shards(&queue, placed.client.limits());
            if let Some(shard) = shards.iter().find(|shard| shard.label == placed.shard) {
                let enqueued = (&*job, placed.receipt.id.as_str());
                placed.client.tell(shard, EventKind::Enqueued, [enqueued]).await;
            }
        }
        Ok(placed)
    }

    async fn put(self, runtime: runtime::Id) -> Result<Placed, Error> {
        if self.place.lock.is_some() {
            return Box::pin(self.submit_by_id()).await;
        }
        if let Some(each) = self.place.each {
            return Box::pin(self.broadcast(each)).await;
        }
        if let Some(no_room) = self.client.no_room(&self.queue, 1, false).await {
            return Err(self.full(no_room, None));
        }
        let Place { list, at_once, terms, front, .. } = &self.place;
        let sent = match self.due {
            None if *front || list.has_limits() => {
                let queue = &self.client.queue_of(&self.queue, list, None);
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
                    Ok(None) => Ok(Arc::clone(&queue.label)),
                    Err(fault) => Err(fault),
                }
            }
            None => {
                let to = (&*self.queue, list.priority);
                self.client.push(runtime, to, self.envelope, self.confirms).await
            }
            Some(due) => {
                let queue = &self.client.queue_of(&self.queue, list, None);
                let envelope = &self.envelope;
                let schedule = |connection, within| async move {
                    queue.schedule(&connection, &[(due, *at_once, &**envelope)], within).await
                };
                let sent = self.client.until_sent(queue, self.confirms, schedule).await;
                sent.map(|()| Arc::clone(&queue.label))
            }
        };
        match sent {
            Ok(shard) => Ok(Placed::new(self.id, shard, self.client)),
            Err(fault) => {
                let (job, queue, fault) = (&self.job, &self.queue, fault.at(self.client.address()));
                let doing = |id: &JobId| format!("enqueue job {job} {id} on the queue {queue}");
                Err(fault.into_error_of(self.id, doing))
            }
        }
    }

    /// Its envelope, which says to which batch it belongs, and as what.
    pub(super) fn as_part(&self, of: &str) -> Vec<u8> {
        // An envelope is one object, written by `encode`.
        let object = self.envelope.strip_suffix(b"}").unwrap_or(&self.envelope);
        [object, br#","of":""#, of.as_bytes(), br#""}"#].concat()
    }

    /// Whether it can belong to a batch, whatever its number.
    pub(super) fn check_member(&self) -> Result<(), Error> {
        let bytes = self.envelope.len() + OF_BYTES;
        check_size(&self.client, bytes, (&self.job, &self.id, &self.queue))
    }

    /// Sends it, and says what became of it.
    pub(super) async fn submit(self, runtime: runtime::Id) -> Result<Receipt, Error> {
        Ok(self.send(runtime).await?.receipt)
    }

    /// Of a job that is known by its id.
    async fn submit_by_id(self) -> Result<Placed, Error> {
        if let Some(no_room) = self.client.no_room(&self.queue, 1, false).await {
            return Err(self.full(no_room, None));
        }
        let Some(job) = self.submission() else { return Err(Error::config("it has no id")) };
        let queue =
            &self.client.queue_of(&self.queue, &self.place.list, self.place.whose(&self.id));
        let submit = |connection: Connection, within| async move {
            let submitted = queue.submit(&connection, std::slice::from_ref(&job), within);
            let both = tokio::join!(biased; submitted, connection.confirm(1));
            both.1.and(both.0)
        };
        match self.client.until_sent(queue, self.confirms, submit).await {
            Ok(Err(no_room)) => Err(self.full(no_room, self.key())),
            Ok(Ok(mut answers)) => match answers.pop() {
                Some(answer) => {
                    let (receipt, shard) = (self.receipt(answer)?, Arc::clone(&queue.label));
                    Ok(Placed { receipt, shard, client: self.client })
                }
                None => Err(Error::Protocol { operation: "submit", detail: "no answer".into() }),
            },
            Err(fault) => {
                let fault = fault.at(self.client.address());
                Err(fault.into_error_of(self.id.clone(), |_| self.doing()))
            }
        }
    }

    /// As the server is to take it in, where it is known by its id.
    pub(super) fn submission(&self) -> Option<Submission<'_>> {
        let Place { list, terms, front, lock, .. } = &self.place;
        let lock = lock.as_ref()?;
        let (front, due, id) = (*front, self.due, &self.id);
        Some(Submission { list, id, front, due, lock, terms, envelope: &self.envelope })
    }

    /// What became of it.
    pub(super) fn receipt(&self, answer: Answer) -> Result<Receipt, Error> {
        let state = answer.stands.map(JobState::of_standing);
        let (own, other) = (self.id.clone(), JobId::from(answer.id));
        let (id, submitted) = match answer.word {
            Word::New => (own, Submitted::New),
            Word::Exists => (other, Submitted::Exists(state)),
            Word::Replaced => (own, Submitted::Replaced(other)),
            Word::Moved => (other, Submitted::Moved),
            Word::Follows => (own, Submitted::Follows(other)),
            Word::Refused => {
                return Err(Error::Conflict { doing: self.doing(), id: other, state });
            }
        };
        Ok(Receipt { id, submitted })
    }

    pub(super) fn doing(&self) -> String {
        format!("enqueue job {} {} on the queue {}", self.job, self.id, self.queue)
    }

    /// As the server keeps it.
    pub(super) fn key(&self) -> Option<String> {
        self.place.list.key().map(|(_, key)| key.to_owned())
    }

    /// So many wait, of its key or on its queue, and no more may.
    pub(super) fn full(&self, no_room: NoRoom, key: Option<String>) -> Error {
        Error::Full {
            doing: self.doing(),
            key,
            waiting: no_room.waiting,
            max_waiting: no_room.most,
        }
    }
}

/// Whether an envelope of so many bytes may be sent.
pub(super) fn check_size(
    client: &Client,
    bytes: usize,
    (job, id, queue): (&str, &JobId, &str),
) -> Result<(), Error> {
    let limit = client.max_payload();
    if bytes <= limit {
        return Ok(());
    }
    let why = format!("its envelope has {bytes} bytes, more than max_payload ({limit})");
    let doing = format!("enqueue job {job} {id} on the queue {queue}");
    Err(Error::Refused { doing, source: Cause::new(Refusal::TooLarge(why)) })
}
