//! Bulks of which all jobs come or none: they are put aside, and come when all are there.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use super::chunk::chunks;
use super::send::send;
use crate::client::Client;
use crate::durability::Durability;
use crate::enqueue::ready::Ready;
use crate::envelope::JobId;
use crate::error::{Cause, Error, Refusal};
use crate::fresh_uuid::v7;
use crate::store::{Connection, FaultKind, Queue, SCRIPT_BYTES, SCRIPT_JOBS, Staged};
use crate::time::since_1970;

const NOT_ALONE: &str = "a bulk of which all jobs come or none has no job that could be refused alone, or is to be ahead of others: none that is \
                         unique, has an id of its own or `.front()`, and none of a type with `max_waiting` or `when_full` for its keys";

const ONE_QUEUE: &str = "a bulk of which all jobs come or none is for one queue, by one client, and for one shard of it";

/// The one queue to which all jobs of a bulk go.
#[derive(Default)]
pub(super) struct OneQueue(Option<To>);

#[derive(Clone)]
struct To {
    client: Client,
    name: Cow<'static, str>,
    queue: Queue,
    confirms: Option<Durability>,
}

impl OneQueue {
    /// Whether a job can be one of them.
    pub(super) fn check(&mut self, job: &Ready) -> Result<(), Error> {
        let place = &job.place;
        let could_be_refused = !(place.terms.is_empty() || place.terms.ends_with(" - wait"));
        if place.lock.is_some() || place.front || could_be_refused {
            return Err(Error::config(NOT_ALONE));
        }
        let to = self.0.get_or_insert_with(|| To {
            client: job.client.clone(),
            name: job.queue.clone(),
            queue: job.client.queue_of(&job.queue, &place.list, None),
            confirms: None,
        });
        let shard = job.client.shard_of(&job.queue, &place.list, None);
        let is_there = to.client.identity() == job.client.identity()
            && to.name == job.queue
            && shard.is_none_or(|shard| shard.label == to.queue.label);
        if !is_there {
            return Err(Error::config(ONE_QUEUE));
        }
        to.confirms = to.confirms.or(job.confirms);
        Ok(())
    }
}

/// Enqueues all of these jobs, or none.
pub(super) async fn send_whole(jobs: Vec<Ready>) -> Result<Vec<JobId>, Error> {
    let mut one_queue = OneQueue::default();
    let check = |(index, job)| Some((index, one_queue.check(job).err()?));
    let wrong: Vec<_> = jobs.iter().enumerate().filter_map(check).collect();
    if !wrong.is_empty() {
        return Err(Error::Invalid { jobs: wrong });
    }
    // One call has all of them come anyway.
    let in_one_call = chunks(&jobs).len() <= 1;
    let Some(mut staging) = Staging::of(&one_queue).filter(|_| !in_one_call) else {
        return send(jobs).await;
    };
    if let Err(error) = staging.add(&jobs).await {
        staging.give_up().await;
        return Err(error);
    }
    staging.commit().await?;
    Ok(jobs.into_iter().map(|job| job.id).collect())
}

/// Jobs that are put aside.
pub(super) struct Staging {
    bulk: String,
    to: To,
    /// How many are.
    count: usize,
}

impl Staging {
    /// None yet.
    pub(super) fn of(one_queue: &OneQueue) -> Option<Self> {
        let to = one_queue.0.clone()?;
        Some(Self { bulk: v7(since_1970(SystemTime::now())).simple().to_string(), to, count: 0 })
    }

    fn doing(&self) -> String {
        format!(
            "enqueue a bulk of {} jobs or more on the queue {}, all or none",
            self.count, self.to.name
        )
    }

    /// Puts these aside behind the others, and gives how many are.
    pub(super) async fn add(&mut self, jobs: &[Ready]) -> Result<u64, Error> {
        let mut rest = jobs;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |job: &&Ready| {
                bytes += job.envelope.len();
                bytes <= SCRIPT_BYTES
            };
            let fitting = rest.iter().take(SCRIPT_JOBS).take_while(fits).count().max(1);
            let (portion, others) = rest.split_at(fitting);
            self.stage(portion).await?;
            rest = others;
        }
        Ok(self.count as u64)
    }

    async fn stage(&mut self, jobs: &[Ready]) -> Result<(), Error> {
        let To { client, queue, .. } = &self.to;
        let to = (&*self.bulk, self.count);
        let stage = async |on: Connection, within: Duration| {
            let jobs = jobs.iter().map(|job| Staged {
                list: &job.place.list,
                due: job.due,
                at_once: job.place.at_once,
                envelope: &job.envelope,
            });
            queue.stage(&on, to, jobs, within).await
        };
        match client.until_answered(queue, None, stage).await {
            Ok(true) => {}
            Ok(false) => return Err(self.gone()),
            // Whether these were put aside is no matter: they will never come.
            Err(fault) => {
                let fault = fault.certainly_not_done().at(client.address());
                return Err(fault.into_error(self.doing()));
            }
        }
        self.count += jobs.len();
        Ok(())
    }

    /// Has them come, and gives how many they are.
    pub(super) async fn commit(self) -> Result<u64, Error> {
        let To { client, name, queue, confirms } = &self.to;
        let of = (&*self.bulk, self.count);
        if let Some(no_room) = client.no_room(name, self.count, true).await {
            self.give_up().await;
            let (waiting, max_waiting) = (no_room.waiting, no_room.most);
            return Err(Error::Full { doing: self.doing(), key: None, waiting, max_waiting });
        }
        // Moves none: an error behind the commit would say that they do not come.
        let commit = async |on: Connection, within: Duration| {
            let committed = queue.commit(&on, of, 0, within);
            let both = tokio::join!(biased; committed, on.confirm(1));
            both.1.and(both.0)
        };
        let mut unsafe_yet = None;
        match client.until_answered(queue, *confirms, commit).await {
            Ok(Some(_)) => {}
            Ok(None) => return Err(self.gone()),
            Err(fault) if fault.kind == FaultKind::NotDurable => unsafe_yet = Some(fault),
            Err(fault) => {
                if !fault.sent {
                    self.give_up().await;
                }
                return Err(fault.at(client.address()).into_error_of_change(self.doing()));
            }
        }
        // From here on they come, whoever moves them: where this is given up, a worker goes on.
        let go_on = async |on: Connection, within: Duration| {
            queue.commit(&on, of, SCRIPT_JOBS, within).await
        };
        while let Ok(Some(1..)) = client.until_answered(queue, None, go_on).await {}
        match unsafe_yet {
            None => Ok(self.count as u64),
            Some(fault) => Err(Error::Stopped {
                enqueued: self.count as u64,
                jobs: Vec::new(),
                index: None,
                source: fault.at(client.address()).into_cause(),
            }),
        }
    }

    /// Takes them away again, if that is possible at once; else they go by themselves.
    pub(super) async fn give_up(&self) {
        if let Ok(on) = self.to.client.connection(&self.to.queue).await {
            let _ = self.to.queue.unstage(&on, &self.bulk).await;
        }
    }

    fn gone(&self) -> Error {
        let why = "what the server had of them is gone: it keeps that for an hour, or somebody removed it";
        Error::Refused { doing: self.doing(), source: Cause::new(Refusal::Stands(why.to_owned())) }
    }
}
