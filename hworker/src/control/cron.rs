//! Cron entries while jobs run: set, removed, paused, resumed, run at once, and their history.

use serde::Serialize;

use super::{Control, in_a_runtime};
use crate::calendar::{CatchUp, Overlap};
use crate::cron::{Entry, Schedule, check_entry, entry_of, run_now};
use crate::envelope::JobId;
use crate::error::Error;
use crate::job_state::JobState;
use crate::keys::check_queue;
use crate::store::{Connection, Fault, KnownEntry, Ordered, Queue, Stand, Word, server_time};

/// Steers a cron entry of a queue; [`Control::cron`] makes one. What is set here holds until it is removed, whatever code declares.
///
/// ```no_run
/// # #[hworker::job] async fn report(customer: u64) { let _ = customer; }
/// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
/// let nightly = client.control("default").cron("nightly");
/// nightly.upsert(report::with(12).cron("0 2 * * *").timezone("Europe/Berlin")).await?;
/// nightly.run_now().await?;
/// nightly.pause().await?;
/// nightly.remove().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct CronControl {
    control: Control,
    name: String,
}

/// An entry may come due between a look and an order; then the order is given again.
const LATE: u32 = 5;

/// A cron entry, as it is in force.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct CronInfo {
    /// Its name.
    pub name: String,
    /// The type of its jobs.
    pub job: String,
    /// Its expression, where it has one.
    pub cron: Option<String>,
    /// Its interval in milliseconds, where it has one.
    pub every_ms: Option<u64>,
    /// The zone of its times; UTC without.
    pub timezone: Option<String>,
    /// Days of the week on which it does not run.
    pub skip_days: Option<String>,
    /// It does not run before.
    pub start: Option<String>,
    /// It does not run after.
    pub end: Option<String>,
    /// How many runs it has in all.
    pub count: Option<u32>,
    /// By how much its runs may be later than written, in milliseconds.
    pub splay_ms: Option<u64>,
    /// What is done about runs that are missed.
    pub catch_up: CatchUp,
    /// What is done while the run before goes on.
    pub overlap: Overlap,
    /// When it is due next, in milliseconds since 1970 by the server's clock; none where it is over, or never came.
    pub next: Option<u64>,
    /// Since when it is paused, in the same.
    pub paused: Option<u64>,
    /// How many runs it had.
    pub fired: u64,
    /// Whether a person, or code that runs, set it; else the code of a program declares it.
    pub is_set: bool,
    /// What this version cannot read of it.
    pub problem: Option<String>,
}

/// A run of a cron entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct CronRun {
    /// When it was due, in milliseconds since 1970.
    pub due: u64,
    /// The id of its job.
    #[cfg_attr(feature = "web", schema(value_type = String))]
    pub id: JobId,
    /// What became of it: `done`, `failed`, `cancelled`, `expired`, `broken` or `deleted`; while its job lives how that stands, `waiting`,
    /// `scheduled`, `parked` or `running`; `skipped` where the run before went on, `missed` where nobody was there, `replaced` where a later
    /// one took its place.
    pub state: String,
}

impl Control {
    /// Steers the cron entry of this name: 1 to 150 bytes, no control characters and no `#`. One that an attribute declares has the name that
    /// stands there, or that of its job type.
    #[must_use]
    pub fn cron(&self, name: &str) -> CronControl {
        CronControl { control: self.clone(), name: name.to_owned() }
    }

    /// The cron entries of the queue, by their names.
    ///
    /// # Errors
    /// [`Error::Config`] for a name of the queue that is none; else where the server cannot be asked.
    pub async fn crons(&self) -> Result<Vec<CronInfo>, Error> {
        let shard = self.first_shard()?;
        let read = async {
            let on = self.client.connection_to_inspect(&shard).await?;
            shard.entries(&on).await
        };
        let entries = read.await.map_err(|fault| self.error("list the cron entries of", fault))?;
        Ok(entries.into_iter().filter_map(|(name, known)| CronInfo::of(name, &known)).collect())
    }

    /// Where its entries stand.
    fn first_shard(&self) -> Result<Queue, Error> {
        in_a_runtime()?;
        check_queue(&self.name).map_err(Error::config)?;
        let mut shards = self.client.shards(&self.name, self.client.limits());
        Ok(shards.swap_remove(0))
    }
}

impl CronInfo {
    fn of(name: String, known: &KnownEntry) -> Option<Self> {
        let text = known.text()?;
        let (mut job, mut when, mut problem) =
            (String::new(), crate::calendar::Timing::default(), None);
        match Entry::read(text) {
            Ok(entry) => (job, when) = (entry.job, entry.when),
            Err(why) => problem = Some(why),
        }
        Some(Self {
            name,
            job,
            cron: when.cron,
            every_ms: when.every,
            timezone: when.timezone,
            skip_days: when.skip_days,
            start: when.start,
            end: when.end,
            count: when.count,
            splay_ms: when.splay,
            catch_up: when.catch_up,
            overlap: when.overlap,
            next: known.next,
            paused: known.paused,
            fired: known.fired,
            is_set: known.set.is_some(),
            problem,
        })
    }
}

impl CronControl {
    /// Sets the entry: makes it, or changes it. It wins over what code declares under this name, until it is [removed](Self::remove). A change takes
    /// effect at once; what was due before is not made up for. Setting it again as it is changes nothing, so a program may do this at
    /// every start.
    ///
    /// # Errors
    /// [`Error::Config`] with all that is wrong: the expression, the zone, the arguments; where the queue has too many entries, 1,000 or
    /// so. [`Error::Unanswered`] where the answer was lost; else where the server cannot be asked.
    pub async fn upsert(&self, schedule: Schedule) -> Result<(), Error> {
        let shard = self.shard()?;
        let (entry, calendar) =
            entry_of(schedule, &self.control.client, &self.control.name, &self.name)?;
        if calendar.is_reboot() {
            return Err(Error::config(
                "`@reboot` is for entries in code; `.run_now()` has one run at once",
            ));
        }
        let text = entry.text()?;
        let set = async {
            let on = self.control.client.connection(&shard).await?;
            for _ in 0..LATE {
                let next = calendar.next_after(server_time(&on).await?);
                let Some(next) = next else { return Ok(None) };
                match shard.order_entry(&on, "set", &self.name, Some(next), &text).await? {
                    Ordered::Late => {}
                    ordered => return Ok(Some(ordered)),
                }
            }
            Ok(Some(Ordered::Late))
        };
        let ordered = set.await.map_err(|fault| self.error("set", fault))?;
        // Listed from now on. A refusal only keeps it out of the list.
        let _ = self.control.client.register_queues(&[&self.control.name], None).await;
        match ordered {
            None => Err(Error::config("the entry never comes: its `end` is over")),
            Some(Ordered::Full) => Err(Error::config(format!(
                "the queue {} has too many cron entries",
                self.control.name
            ))),
            Some(Ordered::Late) => Err(self.too_late()),
            Some(_) => Ok(()),
        }
    }

    /// Pauses the entry until it is resumed; runs whose time comes meanwhile are left out. It stays paused over deploys. False where it
    /// was paused, which is no error.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is no such entry; [`Error::Unanswered`] where the answer was lost; else where the server cannot be
    /// asked.
    pub async fn pause(&self) -> Result<bool, Error> {
        self.order("pause", |_| None).await
    }

    /// Resumes the entry, from its next time on. False where it was not paused, which is no error.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn resume(&self) -> Result<bool, Error> {
        self.order("resume", KnownEntry::text).await
    }

    /// Removes what was set: an entry that code declares is again as it says there. Its jobs that wait or run go on.
    ///
    /// # Errors
    /// As [`pause`](Self::pause); [`Error::Config`] for one that code alone declares: remove it there, or pause it.
    pub async fn remove(&self) -> Result<(), Error> {
        self.order("remove", |known| known.code.as_deref()).await.map(drop)
    }

    /// Starts a run now, paused or not. It does not count for [`count`](Schedule::count), leaves the next time as it is, and obeys
    /// [`overlap`](Schedule::overlap). Gives the id of its job, or nothing where it is left out, as the run before goes on.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn run_now(&self) -> Result<Option<JobId>, Error> {
        let shard = self.shard()?;
        // The entry may be set anew between the look and the run.
        for _ in 0..3 {
            let read = async {
                let on = self.control.client.connection(&shard).await?;
                let known = shard.entry(&on, &self.name).await?;
                Ok((known, server_time(&on).await?, on))
            };
            let (known, now, on) = read.await.map_err(|fault| self.error("run", fault))?;
            let text = known.text().ok_or_else(|| self.missing())?;
            let ran = run_now(&shard, &on, &self.name, text, now).await?;
            let ran = ran.map_err(|fault| self.error("run", fault))?;
            let Some(word) = ran else { continue };
            let id = Entry::id(&self.name, now);
            let is_taken = matches!(word, Word::New | Word::Replaced | Word::Follows);
            return Ok(is_taken.then_some(id));
        }
        Err(self.too_late())
    }

    /// The entry as it is in force, if there is one.
    ///
    /// # Errors
    /// As [`Control::crons`].
    pub async fn info(&self) -> Result<Option<CronInfo>, Error> {
        let known = self.known().await?;
        Ok(CronInfo::of(self.name.clone(), &known))
    }

    /// When it is due, the next so many times, in milliseconds since 1970; of one that is paused, when it would be. Nothing where there is
    /// no such entry.
    ///
    /// # Errors
    /// As [`Control::crons`]; [`Error::Config`] where this version cannot read it.
    pub async fn next(&self, times: usize) -> Result<Vec<u64>, Error> {
        let known = self.known().await?;
        let Some(text) = known.text() else { return Ok(Vec::new()) };
        let entry = Entry::read(text).map_err(Error::config)?;
        let calendar = entry.calendar(&self.control.name, &self.name).map_err(Error::config)?;
        let left =
            entry.when.count.map_or(u64::MAX, |count| u64::from(count).saturating_sub(known.fired));
        let next = match known.next {
            Some(next) if known.paused.is_none() => Some(next),
            _ => {
                let shard = self.shard()?;
                let on = self.control.client.connection_to_inspect(&shard).await;
                let now = match on {
                    Ok(on) => server_time(&on).await,
                    Err(fault) => Err(fault),
                };
                calendar.next_after(now.map_err(|fault| self.error("look at", fault))?)
            }
        };
        let most = times.min(usize::try_from(left).unwrap_or(usize::MAX));
        Ok(std::iter::successors(next, |at| calendar.next_after(*at)).take(most).collect())
    }

    /// Its last runs, at most 60, the newest first.
    ///
    /// # Errors
    /// As [`Control::crons`].
    pub async fn history(&self) -> Result<Vec<CronRun>, Error> {
        let shard = self.shard()?;
        let read = async {
            let on = self.control.client.connection_to_inspect(&shard).await?;
            let known = shard.entry(&on, &self.name).await?;
            let mut runs = Vec::new();
            for line in known.runs.lines().rev() {
                let Some((due, became)) = line.split_once(' ') else { continue };
                let Ok(due) = due.parse() else { continue };
                let id = Entry::id(&self.name, due);
                let state = match became {
                    "submitted" => lives(&shard, &on, &id).await?.to_owned(),
                    word => word.to_owned(),
                };
                runs.push(CronRun { due, id, state });
            }
            Ok(runs)
        };
        read.await.map_err(|fault| self.error("look at", fault))
    }

    async fn known(&self) -> Result<KnownEntry, Error> {
        let shard = self.shard()?;
        let read = async {
            let on = self.control.client.connection_to_inspect(&shard).await?;
            shard.entry(&on, &self.name).await
        };
        read.await.map_err(|fault| self.error("look at", fault))
    }

    /// Gives an order about an entry that is there. `says`: what says when it is due afterwards.
    async fn order(
        &self,
        what: &str,
        says: impl Fn(&KnownEntry) -> Option<&str>,
    ) -> Result<bool, Error> {
        let shard = self.shard()?;
        for _ in 0..LATE {
            let read = async {
                let on = self.control.client.connection(&shard).await?;
                let known = shard.entry(&on, &self.name).await?;
                Ok((known, server_time(&on).await?, on))
            };
            let (known, now, on) = read.await.map_err(|fault| self.error(what, fault))?;
            let next = match says(&known) {
                None => None,
                Some(text) => {
                    // What cannot be read here must not fall silent.
                    let entry = Entry::read(text).map_err(Error::config)?;
                    let calendar = entry.calendar(&self.control.name, &self.name);
                    // What was set is gone with its runs.
                    let counts = !matches!(what, "remove");
                    let is_over = counts
                        && entry.when.count.is_some_and(|count| known.fired >= u64::from(count));
                    calendar.map_err(Error::config)?.next_after(now).filter(|_| !is_over)
                }
            };
            let ordered = shard.order_entry(&on, what, &self.name, next, "").await;
            return match ordered.map_err(|fault| self.error(what, fault))? {
                Ordered::Late => continue,
                Ordered::Done => Ok(true),
                Ordered::Same | Ordered::Full => Ok(false),
                Ordered::Missing => Err(self.missing()),
                Ordered::Declared => Err(Error::config(format!(
                    "the cron entry {} of the queue {} is declared in code, and would be back with the next worker: remove it there, or pause it",
                    self.name, self.control.name
                ))),
            };
        }
        Err(self.too_late())
    }

    /// It came due again and again between the look and the order.
    fn too_late(&self) -> Error {
        Error::Protocol {
            operation: "cron",
            detail: format!("the entry {} was due before each answer", self.name),
        }
    }

    fn missing(&self) -> Error {
        let what = format!("a cron entry {} of the queue {}", self.name, self.control.name);
        Error::NotFound { what }
    }

    fn shard(&self) -> Result<Queue, Error> {
        check_entry(&self.name).map_err(Error::config)?;
        self.control.first_shard()
    }

    fn error(&self, what: &str, fault: Fault) -> Error {
        let doing =
            format!("{what} the cron entry {} of the queue {}", self.name, self.control.name);
        self.control.client.not_done(&doing, fault)
    }
}

/// How the job of a run stands, while it lives.
async fn lives(shard: &Queue, on: &Connection, id: &JobId) -> Result<&'static str, Fault> {
    let Some(standing) = shard.standing(on, id).await? else { return Ok("replaced") };
    Ok(match standing.at {
        Stand::Waits => JobState::Waiting,
        Stand::Scheduled(_) => JobState::Scheduled,
        Stand::Parked(_) => JobState::Parked,
        Stand::Runs { .. } => JobState::Running,
    }
    .name())
}
