//! Changes of jobs in place, made by a person.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::budget::waiting_again;
use super::cancel::{CANCELLED, cancelled};
use super::job::{JobInfo, Stands};
use super::{Doing, Inspect};
use crate::encryption::is_sealed;
use crate::envelope::{Envelope, JobId, Rewrite, describe, edit_args, keeps};
use crate::error::{Cause, Error, Refusal};
use crate::guarded::guarded;
use crate::hooks::EventKind;
use crate::job::Definition;
use crate::job_state::JobState;
use crate::kept::KeptRecord;
use crate::priority::Priority;
use crate::registry::Registry;
use crate::relay::Note;
use crate::store::{Connection, Duty, Edited, Fault, From, Keeping, Queue, server_time};
use crate::time::{day, local_unix_ms, millis};

/// So many jobs are changed by one call.
const MOST: usize = 100;

/// What is done to a job by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// It runs again: one attempt more than it had. What kept it from that is taken out: its crashes, and a time until which it may be tried
    /// that is over.
    Retry,
    /// It runs again as a new job would, from its first attempt.
    Reset,
    /// It is gone, with its record.
    Delete,
    /// It does not run, and its record says that it was cancelled. A running body is dropped within a second, or told and waited for, as its
    /// type says (`on_cancel`); what blocks a thread is always told. One that succeeds all the same is done.
    Cancel,
    /// It is the next to run of its queue.
    Promote,
    /// It runs at a time, or after one.
    Reschedule(When),
    /// It has another priority from now on, and waits behind those that have it already. Of jobs that wait or are scheduled.
    SetPriority(Priority),
    /// It goes to another queue: to the end of its list, or where it is scheduled to the same time there.
    MoveTo(String),
    /// Its arguments and what is noted beside them change; an ended job runs again with them.
    Edit(Edit),
}

/// When a job is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum When {
    /// So long from now, by the server's clock.
    In(Duration),
    /// At this time.
    At(SystemTime),
}

/// A change of what a job carries. All that is not named keeps its bytes. Where the program links the job type, its arguments must fit it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    args: Vec<(String, String)>,
    tags: Option<Vec<String>>,
}

impl Edit {
    /// Changes nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an argument by its name, or one deeper by its path (`to.city`), to a value in JSON.
    #[must_use]
    pub fn arg(mut self, path: impl Into<String>, json: impl Into<String>) -> Self {
        self.args.push((path.into(), json.into()));
        self
    }

    /// Sets its tags.
    #[must_use]
    pub fn tags<I: IntoIterator<Item = S>, S: Into<String>>(mut self, tags: I) -> Self {
        self.tags = Some(tags.into_iter().map(Into::into).collect());
        self
    }
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Changed {
    /// It is done.
    Done,
    /// The job is not there any more: it has started, or somebody else changed it.
    Missing,
    /// The job is there, but not as it was seen: it failed again.
    Changed,
    /// It is unique and would run again, and another job holds its key.
    Conflict,
}

impl Inspect {
    /// Does something to jobs as they were seen, at most 100, one after the other: each is changed once, however many ask, and only if it
    /// still stands where it stood with the same bytes, or the same time.
    ///
    /// A running job can be cancelled and no more: else its answer is [`Changed::Missing`].
    ///
    /// # Errors
    /// [`Error::Config`] for more than 100 jobs, for jobs of another queue, for an edit that does not fit, and for another queue that
    /// is on another node of a cluster; [`Error::Refused`] for an edit that makes a payload larger than
    /// [`max_payload`](crate::ClientBuilder::max_payload): nothing is changed then. [`Error::Unanswered`] where the answer was lost, or only
    /// some are changed.
    pub async fn change(&self, jobs: &[JobInfo], action: &Action) -> Result<Vec<Changed>, Error> {
        let edited = Box::pin(self.change_all(jobs, action)).await?;
        let changed = edited.into_iter().map(|edited| match edited {
            Edited::Done => Changed::Done,
            Edited::Missing => Changed::Missing,
            Edited::Changed => Changed::Changed,
            Edited::Conflict { .. } => Changed::Conflict,
        });
        Ok(changed.collect())
    }

    async fn change_all(&self, jobs: &[JobInfo], action: &Action) -> Result<Vec<Edited>, Error> {
        self.check()?;
        let to = self.checked(jobs, action)?;
        let mut done = Vec::with_capacity(jobs.len());
        for job in jobs {
            match Box::pin(self.change_one(job, action, to.as_ref())).await {
                Ok(edited) => done.push(edited),
                Err(fault) => {
                    let some = done.contains(&Edited::Done);
                    let fault = if some { fault.half_done() } else { fault };
                    return Err(self.error(Doing::Change("change jobs of"), fault));
                }
            }
        }
        if let (Some(to), true) = (to, done.contains(&Edited::Done)) {
            // As beside an enqueue: a refusal only keeps it out of the list of queues.
            let _ = self.client.register_queues(&[&to.name], None).await;
        }
        Ok(done)
    }

    /// Does something to a job by its id, wherever it is.
    ///
    /// # Errors
    /// [`Error::NotFound`] where it is not there, runs, or went on meanwhile; [`Error::Conflict`] where it is unique and is to run again, and
    /// another job holds its key; else as [`change`](Self::change).
    pub async fn change_by_id(&self, id: &JobId, action: &Action) -> Result<(), Error> {
        // It may go on between the look and the change.
        for _ in 0..3 {
            let Some(job) = self.find(id).await? else { break };
            match self.change_all(std::slice::from_ref(&job), action).await?.pop() {
                Some(Edited::Done) => return Ok(()),
                Some(Edited::Conflict { id: holder, stands }) => {
                    let doing = format!("let the job {id} run again");
                    let state = stands.map(JobState::of_standing);
                    return Err(Error::Conflict { doing, id: holder, state });
                }
                _ => {}
            }
            if job.state == JobState::Running {
                break;
            }
        }
        self.or_not_found(false, &format!("a job {id} that is not running"))
    }

    /// Cancels a job by its id, whether it waits, is delayed or runs, and says in which of these states it was met. Its record says that it was
    /// cancelled, and it is never retried. See [`Action::Cancel`] for one that runs.
    ///
    /// ```no_run
    /// # async fn demo(client: hworker::Client, id: hworker::JobId) -> Result<(), hworker::Error> {
    /// client.inspect("mail").cancel(&id).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] where no such job is on the queue, or it has ended; else as [`change`](Self::change).
    pub async fn cancel(&self, id: &JobId) -> Result<JobState, Error> {
        // It may go on between the look and the order.
        for _ in 0..3 {
            let Some(job) = self.find(id).await? else { break };
            let state = job.state;
            if self.change(std::slice::from_ref(&job), &Action::Cancel).await? == [Changed::Done] {
                return Ok(state);
            }
            if state.ended().is_some() || state == JobState::Broken {
                break;
            }
        }
        Err(Error::NotFound { what: format!("a job {id} on {} that has not ended", self.name) })
    }

    /// The queue to which they go, if it is another; else what is wrong.
    fn checked(&self, jobs: &[JobInfo], action: &Action) -> Result<Option<Queue>, Error> {
        if jobs.len() > MOST {
            let why = format!("at most {MOST} jobs are changed at once, not {}", jobs.len());
            return Err(Error::config(why));
        }
        if let Some(job) = jobs.iter().find(|job| job.queue != self.name) {
            let why = format!("a job of the queue {} is not on {}", job.queue, self.name);
            return Err(Error::config(why));
        }
        if let Action::Edit(edit) = action {
            self.check_edit(jobs, edit)?;
        }
        let Action::MoveTo(name) = action else { return Ok(None) };
        if let Some(job) = jobs.iter().find(|job| job.guard.list.by_id) {
            return Err(Error::config(format!(
                "{} is unique on its queue: delete it, and enqueue it on the other",
                named(job)
            )));
        }
        crate::keys::check_queue(name).map_err(Error::config)?;
        let to = self.client.shards(name, self.client.limits()).swap_remove(0);
        if self.client.address().is_cluster() && self.shards.iter().any(|own| own.slot != to.slot) {
            return Err(Error::config(format!(
                "the queue {name} has another slot of the cluster than {}, and no script reaches both; enqueue the job there, and \
                 delete it here",
                self.name
            )));
        }
        Ok(Some(to))
    }

    /// An edit is held to what an enqueue is: its arguments fit the job type, if the program links it, and its envelope is not too large.
    fn check_edit(&self, jobs: &[JobInfo], edit: &Edit) -> Result<(), Error> {
        let (linked, limit) = (Registry::collect(), self.client.max_payload());
        let linked = linked.by_name();
        for job in jobs {
            let edited = edited(job, edit, limit).map_err(Error::config)?;
            let definition = job.job.as_deref().and_then(|name| linked.get(name));
            if let Some(definition) = definition.filter(|_| !edit.args.is_empty()) {
                fits(definition, job, edit, &edited).map_err(Error::config)?;
            }
            // What is too large already may become smaller.
            if edited.len() > limit.max(job.payload().len()) {
                let doing = format!("edit {}", named(job));
                let bytes = edited.len();
                let why = format!(
                    "its envelope would have {bytes} bytes, more than max_payload ({limit})"
                );
                return Err(Error::Refused { doing, source: Cause::new(Refusal::TooLarge(why)) });
            }
        }
        Ok(())
    }

    async fn change_one(
        &self,
        job: &JobInfo,
        action: &Action,
        to: Option<&Queue>,
    ) -> Result<Edited, Fault> {
        let Some(shard) = self.shards.get(job.guard.shard) else { return Ok(Edited::Missing) };
        let shard = &shard.clone().at(job.guard.list.clone());
        let on = self.client.connection_to_inspect(shard).await?;
        let now = server_time(&on).await.map_err(Fault::certainly_not_done)?;
        // What is deleted need not be read, and may have lost its record.
        let whole = match action {
            Action::Delete => None,
            _ => self.whole(shard, &on, job).await.map_err(Fault::certainly_not_done)?,
        };
        let Some(job) = whole.as_ref().map_or(Some(job), |read| read.as_ref()) else {
            return Ok(Edited::Missing);
        };
        if let (Action::Cancel, Stands::Running(worker, Some(lease))) = (action, &job.guard.stands)
        {
            let ordered = shard.cancel(&on, &shard.keys.worker(worker), lease).await?;
            return Ok(if ordered { Edited::Done } else { Edited::Missing });
        }
        let limit = self.client.max_payload();
        let Some(duty) = duty(job, action, now, limit) else { return Ok(Edited::Missing) };
        let duty = ready(job, duty, now);
        let payload = job.payload();
        let from = |before: u64| match &job.guard.stands {
            Stands::Waiting(_) => Some(From::Waiting { payload, before }),
            Stands::Sorted(score) if job.state == JobState::Parked => {
                Some(From::Parked { payload, token: *score })
            }
            Stands::Sorted(score) => {
                Some(From::Scheduled { payload, due: *score, at_once: job.guard.at_once })
            }
            Stands::Ended(place) => {
                Some(From::Ended { ended: job.state.ended()?, place, holds: job.holds.as_ref() })
            }
            Stands::Broken => Some(From::Broken { payload }),
            Stands::Running(..) => None,
        };
        let before = if let Stands::Waiting(before) = job.guard.stands { before } else { 0 };
        let Some(seen) = from(before) else { return Ok(Edited::Missing) };
        // What goes on keeps its priority and its limits.
        let list = job.guard.list.at(match action {
            Action::SetPriority(priority) => *priority,
            _ => job.priority,
        });
        let (day, to) = (day(now), &to.unwrap_or(shard).clone().at(list));
        let id = job.id.as_ref();
        let keeping = keeping(job, &duty, now);
        let note = note(job, &duty);
        let todo = (&duty, &keeping, note.as_deref());
        let mut edited = shard.edit(&on, &day, (id, seen), to, todo).await?;
        if edited == Edited::Missing && job.state == JobState::Waiting {
            // It may only have moved far since it was seen.
            let again = waiting_again(shard, &on, job).await.map_err(Fault::certainly_not_done)?;
            if let Some(seen) = again.and_then(from) {
                edited = shard.edit(&on, &day, (id, seen), to, todo).await?;
            }
        }
        if let (Edited::Done, Duty::Cancel { job, id, .. }) = (&edited, &duty) {
            self.client.tell(shard, EventKind::Cancelled, [(&**job, &**id)]).await;
        }
        Ok(edited)
    }

    /// An ended job of which not all was read, with its whole record. `Some(None)` where that is gone.
    async fn whole(
        &self,
        shard: &Queue,
        on: &Connection,
        job: &JobInfo,
    ) -> Result<Option<Option<JobInfo>>, Fault> {
        let Stands::Ended(place) = &job.guard.stands else { return Ok(None) };
        let Some([_, _, name]) = place.parts().filter(|_| job.payload().is_empty()) else {
            return Ok(None);
        };
        let record = shard.record(on, name).await?;
        let read = record.map(|record| {
            let (number, bytes) = (job.guard.shard, record.len() as u64);
            JobInfo::of_record(&job.queue, job.state, number, place, bytes, Some(&record))
        });
        Ok(Some(read))
    }
}

/// What an action has done to a job. `None` where it cannot: there is no envelope to run, or it is running.
fn duty(job: &JobInfo, action: &Action, now: u64, limit: usize) -> Option<Duty> {
    let is_waiting = job.state == JobState::Waiting;
    let due = match job.guard.stands {
        Stands::Sorted(due) if job.state == JobState::Scheduled => Some(due),
        _ => None,
    };
    // Broken ones go as they are, if nothing else is to be done to them.
    let envelope = |reset: bool| match job.state {
        JobState::Broken | JobState::Waiting | JobState::Scheduled | JobState::Parked => {
            Some(job.payload().to_vec())
        }
        _ => again(job, reset, now),
    };
    match action {
        Action::Delete => Some(Duty::Nothing),
        Action::Cancel if job.state.ended().is_some() || job.state == JobState::Broken => None,
        Action::Cancel => cancelled(job, now),
        Action::Retry | Action::Reset => {
            let envelope = match action {
                Action::Reset if job.state != JobState::Broken => again(job, true, now)?,
                _ => envelope(false)?,
            };
            Some(Duty::Push { front: is_waiting, envelope })
        }
        Action::Promote => Some(Duty::Push { front: true, envelope: envelope(false)? }),
        Action::Reschedule(when) => {
            let due = match when {
                When::In(delay) => now.saturating_add(millis(*delay)),
                When::At(time) => local_unix_ms(*time),
            };
            Some(Duty::At { due: due.min(1 << 53), envelope: envelope(false)? })
        }
        Action::SetPriority(priority) => {
            let mut rewrite = Rewrite::of(job.payload())?;
            rewrite.set("priority", priority);
            let envelope = rewrite.to_bytes();
            match due {
                Some(due) => Some(Duty::At { due, envelope }),
                None => is_waiting.then_some(Duty::Push { front: false, envelope }),
            }
        }
        Action::MoveTo(_) => Some(match due {
            Some(due) => Duty::At { due, envelope: envelope(false)? },
            None => Duty::Push { front: false, envelope: envelope(false)? },
        }),
        Action::Edit(edit) => {
            let envelope = edited(job, edit, limit).ok()?;
            Some(match due {
                _ if is_waiting => Duty::Stay(envelope),
                Some(due) => Duty::At { due, envelope },
                None if job.state.ended().is_some() => {
                    let edited =
                        JobInfo::of_payload("", job.state, None, envelope, job.guard.clone());
                    Duty::Push { front: false, envelope: again(&edited, false, now)? }
                }
                None => Duty::Push { front: false, envelope },
            })
        }
    }
}

/// What becomes of what is kept of its end, where its result is.
fn keeping(job: &JobInfo, duty: &Duty, now: u64) -> Keeping {
    let Some((id, ms)) = keeps(job.payload()) else { return Keeping::Nothing };
    let has_ended = job.state.ended().is_some() || job.state == JobState::Broken;
    let kept = |what| KeptRecord::new(JobState::Cancelled, now).because("cancelled", what);
    let kept = match duty {
        Duty::Push { .. } | Duty::At { .. } if has_ended => return Keeping::Forget(id),
        Duty::Cancel { .. } => kept(CANCELLED),
        Duty::Nothing if !has_ended => kept("somebody deleted it"),
        _ => return Keeping::Nothing,
    };
    kept.into_kept(id.as_str(), ms).map_or(Keeping::Nothing, Keeping::Keep)
}

/// What its batch is to be told: it does not run.
fn note(job: &JobInfo, duty: &Duty) -> Option<String> {
    match duty {
        Duty::Cancel { .. } => Note::of_payload(job.payload(), "cancelled"),
        Duty::Nothing if job.state.ended().is_none() && job.state != JobState::Broken => {
            Note::of_payload(job.payload(), "deleted")
        }
        _ => None,
    }
}

/// The same duty with an envelope that says since when its job waits, where that changes.
fn ready(job: &JobInfo, duty: Duty, now: u64) -> Duty {
    let at = |envelope: Vec<u8>, time: u64| match Rewrite::of(&envelope) {
        Some(mut rewrite) => {
            rewrite.set("ready_at", &time);
            rewrite.to_bytes()
        }
        // What is no envelope goes as it is.
        None => envelope,
    };
    match duty {
        Duty::At { due, envelope } => {
            let envelope = expires_later(envelope, due);
            Duty::At { due, envelope: at(envelope, due) }
        }
        Duty::Push { front, envelope }
            if !matches!(job.state, JobState::Waiting | JobState::Broken) =>
        {
            Duty::Push { front, envelope: at(envelope, now) }
        }
        duty => duty,
    }
}

/// An envelope that expires as long after this time as it did after the one at which it was due.
fn expires_later(envelope: Vec<u8>, due: u64) -> Vec<u8> {
    let shifted = Envelope::decode(&envelope).ok().and_then(|old| {
        let left = old.expires_at?.checked_sub(old.waits_since())?;
        let mut rewrite = Rewrite::of(&envelope)?;
        rewrite.set("expires_at", &due.saturating_add(left));
        Some(rewrite.to_bytes())
    });
    shifted.unwrap_or(envelope)
}

/// The envelope of a job that runs again.
fn again(job: &JobInfo, reset: bool, now: u64) -> Option<Vec<u8>> {
    let envelope = Envelope::decode(job.payload()).ok()?;
    let mut rewrite = Rewrite::of(job.payload())?;
    rewrite.remove("crashes");
    if envelope.retry_until.is_some_and(|until| until < now) {
        rewrite.remove("retry_until");
    }
    rewrite.remove("expires_at");
    rewrite.count("requeues");
    if reset {
        rewrite.remove("errors");
        rewrite.set("attempt", &1);
    } else {
        rewrite.set("attempt", &envelope.attempt.saturating_add(1));
    }
    Some(rewrite.to_bytes())
}

fn named(job: &JobInfo) -> String {
    format!("the job {}", job.id.as_ref().map_or("without an id", JobId::as_str))
}

/// The envelope with the edit, and as its workers would write it: with as many of its errors as there is room for. Else what does not fit.
fn edited(job: &JobInfo, edit: &Edit, limit: usize) -> Result<Vec<u8>, String> {
    let mut rewrite =
        Rewrite::of(job.payload()).ok_or_else(|| format!("{} has no envelope", named(job)))?;
    if !edit.args.is_empty() {
        if is_sealed(job.args()) {
            return Err(format!("the arguments of {} are encrypted", named(job)));
        }
        let mut args = job.args().to_owned();
        for (path, json) in &edit.args {
            args = edit_args(&args, path, json)?;
        }
        rewrite.set_json("args", args)?;
    }
    if let Some(tags) = &edit.tags {
        crate::envelope::check_tags(tags)?;
        rewrite.set("tags", tags);
    }
    Ok(rewrite.bytes_within(limit))
}

/// Whether edited arguments fit their type, as it upgrades them; else what is wrong, without their values.
fn fits(definition: &Definition, job: &JobInfo, edit: &Edit, edited: &[u8]) -> Result<(), String> {
    let envelope = Envelope::decode(edited)?;
    let (version, args) = (envelope.args_version(), envelope.args());
    if version > definition.version {
        // Nobody here knows what they are to be.
        return Ok(());
    }
    // The implementation of a type may panic.
    let mut fits = Err("their type panics".to_owned());
    guarded(|| {
        let upgraded = definition.upgraded(version, args).unwrap_or_else(|| Ok(args.to_owned()));
        let decode = |args: String| (definition.decode)(&args).map_err(|error| describe(&error));
        fits = upgraded.and_then(decode);
    });
    fits.map_err(|why| {
        let paths: Vec<_> = edit.args.iter().map(|(path, _)| path.as_str()).collect();
        let (paths, job) = (paths.join("`, `"), named(job));
        format!(
            "the arguments of {job} would not fit `{}` with this `{paths}`: {why}",
            definition.name
        )
    })
}
