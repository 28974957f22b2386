//! A worker's sign of life, and what the server answers to it.

use std::time::Duration;

use super::lease::Lease;
use crate::keys::WorkerKeys;
use crate::store::Script;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::time::millis;

/// A worker is not scaled beyond this.
pub(crate) const MOST_SLOTS: usize = 100_000;

/// What programs declare that no worker told of for so long is not of a living one. A worker tells every 3 s.
pub(super) const TABLE_LIVES_MS: u64 = 15_000;

/// The timer is kept for so long without a heartbeat.
const TIMER_TTL_MS: u64 = 4_000;

/// What `heartbeat` answers.
#[derive(Debug)]
pub(crate) enum Beat {
    Accepted(Box<Heard>),
    /// The worker was declared dead.
    Void,
}

/// What a heartbeat asks.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    /// Leaves out workers that were last heard of longer ago.
    pub(crate) window: Duration,
    /// Of whom keeps the timer alone: does not.
    pub(crate) everyone: bool,
    /// The token of the parked job that this worker looked at last.
    pub(crate) looked: u64,
    /// Jobs that are parked for longer are to be broken.
    pub(crate) unknown_for: Duration,
    /// The worker was told to stop.
    pub(crate) stopping: bool,
    /// What its program declares.
    pub(crate) declares: Declares<'a>,
    /// For how long it has reached the server.
    pub(crate) steady: Duration,
    /// For how long the runtime of its bodies has not run; zero where it runs.
    pub(crate) blocked: Duration,
    /// How often the batches had changed of which no member starts, as it knows them.
    pub(crate) stopped: u64,
}

/// What a program declares in its code, as a heartbeat tells it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declares<'a> {
    pub(crate) app: &'a str,
    /// Of all that it declares; empty where that is nothing.
    pub(crate) hash: &'a str,
    /// It declares limits.
    pub(crate) limits: bool,
    /// It declares cron entries.
    pub(crate) entries: bool,
}

/// What a worker was ordered by a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    /// To take no more jobs.
    pub(crate) quiet: bool,
    /// How many jobs to run at once, instead of what its settings say.
    pub(crate) slots: Option<usize>,
    /// To stop.
    pub(crate) stop: bool,
    /// With this grace, instead of its own.
    pub(crate) grace: Option<Duration>,
}

impl Orders {
    /// As they stand in the record; what is none there is left out.
    fn read(quiet: &str, slots: &str, stop: &str) -> Self {
        Self {
            quiet: quiet == "1",
            slots: slots.parse().ok().filter(|slots| (1..=MOST_SLOTS).contains(slots)),
            stop: !stop.is_empty(),
            grace: stop.parse().ok().map(Duration::from_millis),
        }
    }
}

/// What an accepted heartbeat tells.
#[derive(Debug)]
pub(crate) struct Heard {
    /// The server's time in ms.
    pub(crate) now: u64,
    pub(crate) leases: u64,
    pub(crate) inbox: u64,
    pub(crate) waiting: u64,
    pub(crate) keeps_timer: bool,
    pub(crate) next_due: Option<Duration>,
    /// Parked jobs that this worker has not looked at.
    pub(crate) parked: u64,
    /// Parked jobs that are to be broken.
    pub(crate) overdue: u64,
    /// What it was ordered.
    pub(crate) orders: Orders,
    /// The leases whose jobs it is to end.
    pub(crate) cancelled: Vec<Lease>,
    /// It is to say what its program declares.
    pub(crate) is_to_declare: bool,
    /// The ids of the jobs for each worker that it is to take.
    pub(crate) broadcasts: Vec<String>,
    /// How many notes of batches wait; 0 where this worker does not keep the timer.
    pub(crate) notes: u64,
    /// How often the batches have changed of which no member starts.
    pub(crate) stops_changed: u64,
    /// These, where it did not know them: each batch, and why.
    pub(crate) stops: Vec<(String, String)>,
    /// The batches that it is to look after.
    pub(crate) batches: Vec<String>,
    /// Workers that were last heard of more than 2 s ago or in the future, with that heartbeat as the server has it.
    pub(crate) silent: Vec<(String, String)>,
}

/// The two words of a line.
fn words(line: &str) -> Option<(String, String)> {
    let (one, other) = line.split_once(' ')?;
    Some((one.to_owned(), other.to_owned()))
}

impl Queue {
    /// Says that the worker lives, and asks what is new to it.
    pub(crate) async fn heartbeat(
        &self,
        on: &Connection,
        keys: &WorkerKeys,
        worker: &str,
        asked: &Asked<'_>,
        within: Duration,
    ) -> Result<Beat, Fault> {
        let mut call = Call::new(
            Script::Heartbeat,
            &[
                &self.keys.workers,
                &keys.record,
                &keys.progress,
                &keys.inbox,
                &self.keys.timer,
                &self.keys.scheduled,
                &self.keys.jobs,
                &self.keys.parked,
                &self.keys.token,
                &self.keys.bell,
            ],
        );
        call.arg(worker).number(TIMER_TTL_MS).number(millis(asked.window));
        call.number(u64::from(asked.everyone)).number(asked.looked);
        call.number(millis(asked.unknown_for)).number(u64::from(asked.stopping));
        let declares = &asked.declares;
        call.arg(declares.app).arg(declares.hash).number(TABLE_LIVES_MS);
        call.number(millis(asked.steady));
        call.number(u64::from(declares.limits)).number(u64::from(declares.entries));
        call.number(millis(asked.blocked)).number(asked.stopped);
        let mut reply = on.run(&call, within).await?;
        match reply.text()?.as_str() {
            "ok" => {}
            "void" => return Ok(Beat::Void),
            word => return Err(reply.unknown(word)),
        }
        Ok(Beat::Accepted(Box::new(Heard {
            now: reply.count()?,
            leases: reply.count()?,
            inbox: reply.count()?,
            waiting: reply.count()?,
            keeps_timer: reply.count()? == 1,
            next_due: u64::try_from(reply.number()?).ok().map(Duration::from_millis),
            parked: reply.count()?,
            overdue: reply.count()?,
            orders: Orders::read(&reply.text()?, &reply.text()?, &reply.text()?),
            cancelled: reply.text()?.lines().map(Lease::parse).collect(),
            is_to_declare: reply.count()? == 1,
            broadcasts: reply.text()?.lines().map(str::to_owned).collect(),
            notes: reply.count()?,
            stops_changed: reply.text()?.parse().unwrap_or(0),
            stops: reply.text()?.lines().filter_map(words).collect(),
            batches: reply.text()?.lines().map(str::to_owned).collect(),
            silent: reply.rest(Reply::pair)?,
        })))
    }
}
