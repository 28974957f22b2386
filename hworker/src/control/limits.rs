//! Limits while jobs run: set, no longer set, paused and resumed; and what is in force.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::Control;
use crate::error::{Error, Problems};
use crate::limit::{Rate, is_written_key, written_key};
use crate::pause::Pause;
use crate::store::{Connection, Fault, Queue, server_time};
use crate::time::millis;

/// The name under which a queue's own limit is kept.
const OF_QUEUE: &str = "*";

const NOT_TOLD: &str = "no worker of the queue {queue} has told of a limit `{name}` so far: mend the name, start a worker first, or say which \
     kind it is: `{name}=` is one with a key, `{name}@` one of each worker";

const NO_KEY: &str = "`{name}` on the queue {queue} has no key, and how many may wait is said of each key, or of the whole queue: \
     `.queue_limit()`";

/// Steers a limit of a queue; [`Control::limit`], [`Control::job`] and [`Control::queue_limit`] make one. What is set here holds for all workers
/// at once, wins over what code declares, and lasts until it is unset.
///
/// ```no_run
/// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
/// let mail = client.control("mail");
/// mail.limit("smtp").set(50).await?;
/// mail.limit("smtp").set_rate("100/m".parse().expect("a rate")).await?;
/// // One customer who may send more, and one who waits.
/// mail.limit("tenant").of_key("acme").set(10).await?;
/// mail.limit("tenant").of_key("t7").pause().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct LimitControl {
    control: Control,
    name: String,
    key: Option<String>,
    /// It is that of a job type, whose jobs get it when it is paused if they have none.
    job_type: bool,
}

/// A limit of a queue, as it is in force; [`Control::limits`] gives them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct LimitInfo {
    /// Its name: with `=` behind it where it has a key, `@` where each worker has one, `*` that of the queue; `name=key` of one key.
    pub name: String,
    /// How many jobs may run at once; none where there is no such limit.
    pub at_once: Option<u64>,
    /// How many may start in a time.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "web", schema(value_type = Option<String>))]
    pub rate: Option<Rate>,
    /// How many jobs may wait, where a person set it; what code says of it is known to producers alone.
    pub max_waiting: Option<u64>,
    /// Whether one of them was set by a person, and not by code.
    pub is_set: bool,
    /// Its jobs are not taken.
    pub paused: Option<Pause>,
    /// How many leases hold it now; of one with a key, or one for each worker, in all.
    pub running: u64,
}

// As serde calls it.
#[allow(clippy::ref_option)]
fn as_text<S: serde::Serializer>(rate: &Option<Rate>, serializer: S) -> Result<S::Ok, S::Error> {
    rate.map(|rate| rate.to_string()).serialize(serializer)
}

impl Control {
    /// Steers the limit of this name, as in `concurrency(limit = 20, name = "db")`; one without a name is called as its job type. It may be
    /// written as in [`LimitInfo::name`] too.
    #[must_use]
    pub fn limit(&self, name: &str) -> LimitControl {
        LimitControl { control: self.clone(), name: name.to_owned(), key: None, job_type: false }
    }

    /// Steers all jobs of a type: above all to [`pause`](LimitControl::pause) them, which they need no limit for.
    ///
    /// A worker that runs one of them while the pause begins lets it end. One that has some of them, not started, may start them still.
    #[must_use]
    pub fn job(&self, name: &str) -> LimitControl {
        LimitControl { job_type: true, ..self.limit(name) }
    }

    /// Steers how many jobs of this queue run at once, and how many start in a time, over all workers. It counts what is taken from then
    /// on. A queue that is spread over shards has none.
    #[must_use]
    pub fn queue_limit(&self) -> LimitControl {
        self.limit(OF_QUEUE)
    }

    /// The limits of the queue, by their names.
    ///
    /// # Errors
    /// [`Error::Config`] for a name of the queue that is none; else where the server cannot be asked.
    pub async fn limits(&self) -> Result<Vec<LimitInfo>, Error> {
        let mut limits: BTreeMap<String, LimitInfo> = BTreeMap::new();
        for shard in self.shards()? {
            let asked = async {
                let on = self.client.connection(&shard).await?;
                of_shard(&shard, &on).await
            };
            let doing = format!("look into the limits of the queue {}", self.name);
            for limit in asked.await.map_err(|fault| fault.into_error(doing))? {
                limits
                    .entry(limit.name.clone())
                    .and_modify(|known| known.running += limit.running)
                    .or_insert(limit);
            }
        }
        Ok(limits.into_values().collect())
    }
}

impl LimitControl {
    /// The same limit for one value of its key alone.
    #[must_use]
    pub fn of_key(&self, key: &str) -> Self {
        Self { key: Some(written_key(key)), ..self.clone() }
    }

    /// What is known of it: a limit of this name in each form in which it is declared or set, or of the one key. Nothing where there is none.
    ///
    /// # Errors
    /// As [`Control::limits`].
    pub async fn info(&self) -> Result<Vec<LimitInfo>, Error> {
        let mut known = self.control.limits().await?;
        match &self.key {
            Some(key) => {
                let name = format!("{}={key}", self.name.trim_end_matches('='));
                known.retain(|limit| limit.name == name);
            }
            None => known.retain(|limit| {
                limit.name.trim_end_matches(['=', '@']) == self.name || limit.name == self.name
            }),
        }
        Ok(known)
    }

    /// So many jobs may run at once. Where that is more than before, what may start now starts within 200 ms; where it is less, what runs
    /// goes on.
    ///
    /// # Errors
    /// [`Error::Config`] for 0, which is a [`pause`](Self::pause), for a name that is none, or of which no worker has told so far;
    /// [`Error::Unanswered`] where the answer was lost; else where the server cannot be asked.
    pub async fn set(&self, at_once: u32) -> Result<(), Error> {
        if at_once == 0 {
            let why = "a limit is at least 1; to let nothing start, `.pause()` it";
            return Err(Error::Config(Problems(vec![why.into()])));
        }
        self.change("set", &[("set", at_once.to_string())]).await.map(drop)
    }

    /// So many jobs may start in a time.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub async fn set_rate(&self, rate: Rate) -> Result<(), Error> {
        self.change("set", &[("set_rate", rate.kept())]).await.map(drop)
    }

    /// So many jobs may wait, of each key, of this key or, for the limit of a queue, in all: an enqueue of one more is
    /// [`Error::Full`](crate::Error::Full). The jobs that wait already stay.
    ///
    /// Of a queue delayed jobs count too, and producers learn of it within 2 s of their first enqueue. Enqueues of the same moment may go
    /// beyond it together, as may producers in other languages, retries and recovered jobs.
    ///
    /// # Errors
    /// As [`set`](Self::set); [`Error::Config`] also for a limit that has no key.
    pub async fn set_max_waiting(&self, jobs: u32) -> Result<(), Error> {
        if jobs == 0 {
            let why = "at least one job may wait; an enqueue that is to be refused is not made";
            return Err(Error::Config(Problems(vec![why.into()])));
        }
        self.change("set", &[("max", jobs.to_string())]).await.map(drop)
    }

    /// What code declares holds again, or nothing. False where nothing was set.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub async fn unset(&self) -> Result<bool, Error> {
        let nothing = ["set", "set_rate", "max"].map(|field| (field, String::new()));
        Ok(self.change("unset", &nothing).await? > 0)
    }

    /// Holds its jobs up: workers take none. What runs goes on, enqueues go on, and nothing is lost or counted.
    ///
    /// # Errors
    /// As [`set`](Self::set), but for any name; [`Error::Config`] for a whole queue, for which there is [`Control::pause`].
    pub async fn pause(&self) -> Result<(), Error> {
        self.is_no_queue()?;
        self.change("pause", &[("paused", "0".into())]).await.map(drop)
    }

    /// The same for so long, by the server's clock.
    ///
    /// # Errors
    /// As [`pause`](Self::pause); [`Error::Config`] for no time at all.
    pub async fn pause_for(&self, duration: Duration) -> Result<(), Error> {
        self.is_no_queue()?;
        if duration.is_zero() {
            let why = "a pause of no time is none; write how long, or `.pause()`";
            return Err(Error::Config(Problems(vec![why.into()])));
        }
        let ms = millis(duration).clamp(1, 1 << 52);
        self.change("pause", &[("paused", ms.to_string())]).await.map(drop)
    }

    /// Workers take its jobs again. False where it was not paused.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub async fn resume(&self) -> Result<bool, Error> {
        Ok(self.change("resume", &[("paused", String::new())]).await? > 0)
    }

    fn is_no_queue(&self) -> Result<(), Error> {
        if self.name != OF_QUEUE {
            return Ok(());
        }
        let queue = &self.control.name;
        let why = format!(
            "to hold up all jobs of the queue {queue}, pause the queue: `.control(\"{queue}\").pause()`"
        );
        Err(Error::Config(Problems(vec![why])))
    }

    /// Gives how many of the fields were set before.
    async fn change(&self, what: &str, fields: &[(&str, String)]) -> Result<u64, Error> {
        let shards = self.control.shards()?;
        self.check(shards.len())?;
        let mut were_set = 0;
        for shard in shards {
            let asked = async {
                let on = self.control.client.connection(&shard).await?;
                let names = self.names(&shard, &on, fields).await?;
                let counts_waiting = |name: &String| name.contains('=') || name == OF_QUEUE;
                if fields.iter().any(|(field, value)| *field == "max" && !value.is_empty())
                    && !names.iter().all(counts_waiting)
                {
                    return Ok(Some(NO_KEY));
                }
                for name in &names {
                    let job_type = if self.job_type { &*self.name } else { "" };
                    were_set += shard.set_limit(&on, name, job_type, fields).await?;
                }
                Ok(names.is_empty().then_some(NOT_TOLD))
            };
            let doing =
                || format!("{what} the limit {} of the queue {}", self.name, self.control.name);
            let wrong =
                asked.await.map_err(|fault| self.control.client.not_done(&doing(), fault))?;
            if let Some(why) = wrong {
                let (name, queue) = (&self.name, &self.control.name);
                let why = why.replace("{name}", name).replace("{queue}", queue);
                return Err(Error::Config(Problems(vec![why])));
            }
        }
        Ok(were_set)
    }

    /// Under which names the server keeps what is changed. A pause of a name holds in each of its forms, and a worker need not have told of
    /// it.
    async fn names(
        &self,
        shard: &Queue,
        on: &Connection,
        fields: &[(&str, String)],
    ) -> Result<Vec<String>, Fault> {
        let one = match &self.key {
            Some(key) => Some(format!("{}={key}", self.name.trim_end_matches('='))),
            None => self.name.contains(['=', '@', '*']).then(|| self.name.clone()),
        };
        let is_pause = fields.iter().all(|(field, value)| *field == "paused" && !value.is_empty());
        let is_lifted = fields.iter().all(|(_, value)| value.is_empty());
        let forms = match one {
            Some(one) if is_pause || is_lifted || !one.contains('=') || one.ends_with('=') => {
                return Ok(vec![one]);
            }
            Some(one) => vec![one],
            None if is_pause => return Ok(vec![self.name.clone()]),
            None => ["", "=", "@"].map(|mark| [&*self.name, mark].concat()).to_vec(),
        };
        if is_lifted {
            return Ok(forms);
        }
        let known = shard.limits_in_force(on).await?;
        let is_known = |form: &String| {
            let all = form.split_once('=').map(|(name, _)| [name, "="].concat());
            let all = all.as_ref().unwrap_or(form);
            known.iter().any(|(field, _)| field.strip_prefix("limit:") == Some(all))
        };
        Ok(forms.into_iter().find(is_known).into_iter().collect())
    }

    fn check(&self, shards: usize) -> Result<(), Error> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
        // As `limits` gives it, it may have a key behind it.
        let (bare, key) = self.name.split_once('=').unwrap_or((&self.name, ""));
        let bare = bare.trim_end_matches('@');
        let of_queue = self.name == OF_QUEUE && self.key.is_none();
        let is_sound = (1..=200).contains(&bare.len()) && bare.chars().all(is_name);
        let is_key = key.is_empty() || self.key.is_none() && is_written_key(key);
        let is_sound = is_sound && is_key;
        if !is_sound && !of_queue {
            let why = format!("`{}` is no name of a limit or a job type", self.name);
            return Err(Error::Config(Problems(vec![why])));
        }
        if self.key.as_deref() == Some("") {
            let why = "a key that is empty is none that can be set apart";
            return Err(Error::Config(Problems(vec![why.into()])));
        }
        if of_queue && shards > 1 {
            let why = format!(
                "the queue {} has {shards} shards, which count apart: give its job types a limit",
                self.control.name
            );
            return Err(Error::Config(Problems(vec![why])));
        }
        Ok(())
    }
}

async fn of_shard(shard: &Queue, on: &Connection) -> Result<Vec<LimitInfo>, Fault> {
    let now = server_time(on).await?;
    let mut limits: BTreeMap<String, LimitInfo> = BTreeMap::new();
    for (field, value) in shard.limits_in_force(on).await? {
        let Some((what, name)) = field.split_once(':') else { continue };
        if !["limit", "args", "set", "rate", "set_rate", "max", "paused"].contains(&what) {
            continue;
        }
        let limit = limits.entry(name.to_owned()).or_insert_with(|| LimitInfo {
            name: name.to_owned(),
            at_once: None,
            rate: None,
            max_waiting: None,
            is_set: false,
            paused: None,
            running: 0,
        });
        match what {
            "set" => (limit.at_once, limit.is_set) = (value.parse().ok(), true),
            "set_rate" => (limit.rate, limit.is_set) = (Rate::of_kept(&value), true),
            "max" => (limit.max_waiting, limit.is_set) = (value.parse().ok(), true),
            "limit" | "args" => limit.at_once = limit.at_once.or(value.parse().ok()),
            "rate" => limit.rate = limit.rate.or(Rate::of_kept(&value)),
            _ => {
                let pause = Pause::until(value.parse().unwrap_or(0));
                limit.paused =
                    Some(pause).filter(|pause| pause.until.is_none_or(|until| until > now));
            }
        }
    }
    let names: Vec<&str> = limits.keys().map(String::as_str).collect();
    let running = shard.holds(on, &names).await?;
    for (limit, running) in limits.values_mut().zip(running) {
        limit.running = running;
    }
    Ok(limits.into_values().collect())
}
