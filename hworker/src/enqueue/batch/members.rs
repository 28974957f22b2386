//! How members get into a batch.

use std::time::Duration;

use super::super::bulk::{chunks, full};
use super::super::ready::Ready;
use crate::client::Client;
use crate::error::{Cause, Error, Fate, Refusal};
use crate::join::join_all;
use crate::relay::{self, Given, Says, Where};
use crate::store::{Connection, Fault, FaultKind, Member, NoRoom, NumbersFor, Pushed, Queue};

/// So many get their numbers at once.
const AT_ONCE: usize = 8_000;

/// So often is asked for numbers, where others give up what gets them.
const TRIES: usize = 3;

/// The batch to which members are added.
#[derive(Clone, Copy)]
pub(super) struct Adding<'a> {
    pub(super) client: &'a Client,
    pub(super) batch: &'a str,
    /// The number of the member that adds them, `c` in a callback, or nothing.
    pub(super) by: &'a str,
}

/// Why not all are in.
enum Stopped {
    Fault(Fault),
    /// A job has no room, by its place.
    Full(usize, NoRoom),
    Refused(String),
}

/// Members that were not all added.
pub(super) struct Unadded {
    pub(super) error: Error,
    pub(super) none_is_in: bool,
}

/// Why a batch takes no members, in words.
pub(super) fn refusal(word: &str) -> &'static str {
    match word {
        "gone" => "there is no such batch any more",
        "finished" => "it is finished",
        "cancelled" => "it is cancelled",
        "callback" => "its own callbacks add nothing to it",
        "sealed" => "it is sealed; only its members add to it",
        "ended" => "the member that adds them has ended",
        "large" => "a batch has at most 10000000 members",
        "deep" => "sixteen batches are above it, and no more may be",
        _ => "it takes none",
    }
}

impl Adding<'_> {
    /// Adds members under a name: what was added under it before is not added again.
    pub(super) async fn add(&self, name: &str, jobs: &[Ready]) -> Result<(), Unadded> {
        if let Some(error) = full(jobs).await {
            return Err(Unadded { error, none_is_in: true });
        }
        let mut fates = vec![Fate::NotEnqueued; jobs.len()];
        let mut stopped = Ok(());
        let all: Vec<_> = (0..jobs.len()).collect();
        for (part, places) in all.chunks(AT_ONCE).enumerate() {
            stopped = self.add_some(format!("{name}.{part}"), jobs, places, &mut fates).await;
            if stopped.is_err() {
                break;
            }
        }
        let Err(why) = stopped else { return Ok(()) };
        let none_is_in = fates.iter().all(|fate| *fate == Fate::NotEnqueued);
        let doing = format!("add members to the batch {}", self.batch);
        let (error, cause) = match why {
            Stopped::Fault(fault) => {
                let fault = fault.at(self.client.address());
                (fault.clone().into_error(doing), fault.into_cause())
            }
            Stopped::Refused(word) => {
                return Err(Unadded { error: refused(doing, &word), none_is_in });
            }
            Stopped::Full(place, no_room) => {
                let full = || match jobs.get(place) {
                    Some(job) => job.full(no_room, job.key()),
                    None => Error::config("a job has no room"),
                };
                (full(), Cause::new(full()))
            }
        };
        let error = if none_is_in {
            error
        } else {
            let jobs = jobs.iter().map(|job| job.id.clone()).zip(fates).collect();
            Error::Bulk { jobs, source: cause }
        };
        Err(Unadded { error, none_is_in })
    }

    /// Adds those at these places, under one name.
    async fn add_some(
        &self,
        name: String,
        jobs: &[Ready],
        places: &[usize],
        fates: &mut [Fate],
    ) -> Result<(), Stopped> {
        for _ in 0..TRIES {
            let says = plan(jobs, places);
            let labels: Vec<_> = says.parts.iter().map(|part| &*part.label).collect();
            let (count, text) = (places.len() as u64, says.text());
            let add = NumbersFor { by: self.by, name: &name, count, says: &text, labels: &labels };
            let given = relay::numbers(self.client, self.batch, &add).await;
            let (first, given, is_in, text, stop) = match given.map_err(Stopped::Fault)? {
                Given::Gone => return Err(Stopped::Refused("gone".into())),
                Given::Refused(why) => return Err(Stopped::Refused(why)),
                Given::Numbers { first, count, is_in, says, stop, .. } => {
                    (first, count, is_in, says, stop)
                }
            };
            if is_in {
                for place in places {
                    fates[*place] = Fate::Enqueued;
                }
                // What was given up of it is added under a name of its own.
                let left = relay::given_up(&text).into_iter();
                let left = left.filter_map(|number| number.checked_sub(first));
                let left = left.filter_map(|at| places.get(at as usize).copied());
                let left: Vec<_> = left.collect();
                for place in &left {
                    fates[*place] = Fate::NotEnqueued;
                }
                if left.is_empty() {
                    return Ok(());
                }
                return Box::pin(self.add_some(format!("{name}~"), jobs, &left, fates)).await;
            }
            let says = Says::parse(&text).filter(|_| given == count);
            let pushed = match &says {
                Some(says) => self.push_all(first, says, &stop, jobs, places, fates).await,
                // Another run of the same body had others to add, and they are not in yet.
                None => Ok(false),
            };
            match pushed {
                Ok(true) => {
                    // Whoever looks after the batch does it where this fails.
                    let _ = relay::added(self.client, self.batch, &name).await;
                    return Ok(());
                }
                Ok(false) => {
                    let left = relay::give_up(self.client, self.batch, &name, first, &text);
                    left.await.map_err(Stopped::Fault)?;
                }
                Err(why) => {
                    let _ = relay::give_up(self.client, self.batch, &name, first, &text).await;
                    return Err(why);
                }
            }
        }
        Err(Stopped::Fault(Fault::not_sent("they were given up again and again")))
    }

    /// Pushes them to their queues. False where some were given up before.
    async fn push_all(
        &self,
        first: u64,
        says: &Says,
        stop: &str,
        jobs: &[Ready],
        places: &[usize],
        fates: &mut [Fate],
    ) -> Result<bool, Stopped> {
        let (mut are_in, mut stopped) = (true, Ok(()));
        let parts: Vec<_> = says.parts.iter().enumerate().collect();
        for some in parts.chunks(8) {
            let pushes = some.iter().map(|(part, to)| {
                let field = says.field(*part);
                async move { self.push(first, to, &field, stop, jobs, places).await }
            });
            for ((_, to), pushed) in some.iter().zip(join_all(pushes).await) {
                let places = to.places().filter_map(|at| places.get(at as usize).copied());
                let places: Vec<_> = places.collect();
                let fate = match &pushed {
                    Ok(Pushed::In) => Fate::Enqueued,
                    Err(fault) if fault.kind == FaultKind::NotDurable => Fate::NotDurable,
                    Err(fault) if fault.sent => Fate::Uncertain,
                    Ok(_) | Err(_) => Fate::NotEnqueued,
                };
                for place in &places {
                    fates[*place] = fate;
                }
                match pushed {
                    Ok(Pushed::In) => {}
                    Ok(Pushed::Void) => are_in = false,
                    Ok(Pushed::Full(no_room)) => {
                        let place = places.get(no_room.which).copied().unwrap_or_default();
                        stopped = stopped.and(Err(Stopped::Full(place, no_room)));
                    }
                    Err(fault) => stopped = stopped.and(Err(Stopped::Fault(fault))),
                }
            }
            if stopped.is_err() {
                break;
            }
        }
        stopped.map(|()| are_in)
    }

    /// Pushes those of one queue.
    async fn push(
        &self,
        first: u64,
        to: &Where,
        field: &str,
        stop: &str,
        jobs: &[Ready],
        places: &[usize],
    ) -> Result<Pushed, Fault> {
        let queue = Queue::of_label(self.client.key_space(), &to.label, self.client.limits());
        if stop == "paused" {
            let on = self.client.connection(&queue).await?;
            queue.stop_batch(&on, self.batch, stop, Some(10_000)).await?;
        }
        let members = to.places().filter_map(|at| Some((at, jobs.get(*places.get(at as usize)?)?)));
        let members: Vec<_> = members
            .map(|(at, job)| (job, job.as_part(&format!("b.{}.{}", self.batch, first + at))))
            .map(|(job, envelope)| (job, job.place.list.to_string(), terms(job), envelope))
            .collect();
        let confirms = members.first().and_then(|(job, ..)| job.confirms);
        let all: Vec<_> = members
            .iter()
            .map(|(job, list, terms, envelope)| Member {
                list,
                terms,
                due: job.due,
                front: job.place.front,
                envelope,
            })
            .collect();
        let push = async |on: Connection, within: Duration| {
            let pushed = queue.push_members(&on, self.batch, field, &all, within);
            let both = tokio::join!(biased; pushed, on.confirm(1));
            both.1.and(both.0)
        };
        self.client.until_answered(&queue, confirms, push).await
    }
}

/// A batch takes nothing more.
pub(super) fn refused(doing: String, word: &str) -> Error {
    let why = Refusal::Stands(refusal(word).to_owned());
    Error::Refused { doing, source: Cause::new(why) }
}

/// As `push_once` takes it: of one that runs later, how many of its key run at once.
fn terms(job: &Ready) -> String {
    match (job.due, job.place.at_once) {
        (None, _) => job.place.terms.clone(),
        (Some(_), Some(at_once)) => at_once.to_string(),
        (Some(_), None) => String::new(),
    }
}

/// Where they go.
fn plan(jobs: &[Ready], places: &[usize]) -> Says {
    let jobs = places.iter().filter_map(|place| jobs.get(*place));
    let part = |chunk: &super::super::bulk::Chunk<'_>| {
        Where::of(&chunk.queue.label, chunk.jobs.iter().map(|place| *place as u64))
    };
    Says::new(chunks(jobs).iter().map(part).collect())
}
