//! The settings of a worker.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::defaults::{
    AGING, BROKEN_LIMIT, CRASH_LIMIT, DEAD_AFTER, FAILED_BYTES, FAILED_FOR, FAILED_LIMIT,
    KEEP_DONE, MAX_PAYLOAD, SHUTDOWN_GRACE, SLOTS_PER_CORE, UNKNOWN_FOR,
};
use super::{Environment, Kept, Limits, check_max_payload, host_name, number, program_name};
use crate::durability::Durability;
use crate::envelope::CRASHES;
use crate::error::Problems;
use crate::keys::{check_name, check_queue, of_tag, with_tag};
use crate::time::{millis, parse_duration};

/// More records or payloads are never kept. The server takes no length beyond 64 bits, and Lua spells none beyond 53.
const KEPT_AT_MOST: usize = u32::MAX as usize;

/// The largest weight of a queue.
const HEAVIEST: u32 = 1000;

/// Lua counts no further.
const BYTES_AT_MOST: u64 = 1 << 53;

/// What a queue gets of the slots while others want them too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// Those of a lower rank, which is a higher number, get slots only while no job of this queue waits for one.
    pub(crate) rank: usize,
    /// Among those of its rank.
    pub(crate) weight: u32,
}

impl Default for Share {
    fn default() -> Self {
        Self { rank: 0, weight: 1 }
    }
}

/// A queue to be served, its share of the slots, and how many of its jobs may run at once where that is less than the worker's slots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct QueueSetting {
    pub(crate) name: String,
    pub(crate) share: Share,
    pub(crate) limit: Option<usize>,
    /// No job type need name it: its jobs are enqueued with `.queue(..)`.
    pub(crate) extra: bool,
    /// It is not served, whatever else is.
    pub(crate) excluded: bool,
}

impl QueueSetting {
    /// All other queues, also those that come later.
    pub(crate) const EVERY: &str = "*";

    pub(crate) fn is_every(&self) -> bool {
        self.name == Self::EVERY
    }
}

/// A text that no log shows.
#[derive(Clone)]
pub(crate) struct Secret(#[cfg_attr(not(feature = "web"), allow(dead_code))] pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("•••")
    }
}

/// The settings of a worker, checked.
#[derive(Debug, Clone)]
pub(crate) struct WorkerConfig {
    pub(crate) queues: Vec<QueueSetting>,
    /// Every queue that a registered job names besides: none is named but those that are added.
    pub(crate) all_queues: bool,
    pub(crate) concurrency: usize,
    pub(crate) shutdown_grace: Duration,
    pub(crate) dead_after: Duration,
    pub(crate) unknown_for: Duration,
    pub(crate) crash_limit: usize,
    pub(crate) cancel_on_disconnect: bool,
    pub(crate) prefetch: bool,
    /// Longest time that jobs of a priority are passed over by those before them.
    pub(crate) aging: Duration,
    /// So often the worker logs what there is on its queues.
    pub(crate) log_every: Option<Duration>,
    pub(crate) durability: Durability,
    pub(crate) name: String,
    /// It also runs the jobs of its queues that are for workers with one of these.
    pub(crate) tags: Vec<String>,
    /// Of the program.
    pub(crate) app: String,
    /// Where probes are answered; only the feature `health` reads it.
    #[cfg_attr(not(feature = "health"), allow(dead_code))]
    pub(crate) health: Option<SocketAddr>,
    /// Where the page for operators is served, and the token that it asks for; only the feature `web` reads them.
    #[cfg_attr(not(feature = "web"), allow(dead_code))]
    pub(crate) web: Option<SocketAddr>,
    #[cfg_attr(not(feature = "web"), allow(dead_code))]
    pub(crate) web_token: Option<Secret>,
    pub(crate) limits: Limits,
}

/// Settings as given so far: by the program, then by the environment.
#[derive(Debug, Default, Clone)]
pub(crate) struct WorkerSettings {
    pub(crate) queues: Option<Vec<QueueSetting>>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) shutdown_grace: Option<Duration>,
    pub(crate) dead_after: Option<Duration>,
    pub(crate) failed_limit: Option<usize>,
    pub(crate) failed_for: Option<Duration>,
    pub(crate) failed_bytes: Option<usize>,
    pub(crate) keep_done: Option<usize>,
    pub(crate) broken_limit: Option<usize>,
    pub(crate) broken_for: Option<Duration>,
    pub(crate) unknown_for: Option<Duration>,
    pub(crate) crash_limit: Option<usize>,
    pub(crate) max_payload: Option<usize>,
    pub(crate) cancel_on_disconnect: Option<bool>,
    pub(crate) prefetch: Option<bool>,
    pub(crate) aging: Option<Duration>,
    pub(crate) log_every: Option<Duration>,
    pub(crate) durability: Option<Durability>,
    pub(crate) name: Option<String>,
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) answers_to_name: Option<bool>,
    pub(crate) app: Option<String>,
    pub(crate) health: Option<SocketAddr>,
    pub(crate) web: Option<SocketAddr>,
    pub(crate) web_token: Option<Secret>,
}

impl WorkerSettings {
    /// Fills what is open from the environment and the defaults; every problem goes to `problems`.
    pub(crate) fn resolve(self, problems: &mut Problems) -> WorkerConfig {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let slots = cores * SLOTS_PER_CORE;
        let kept = |limit: usize| limit.min(KEPT_AT_MOST);
        let given = self.queues.unwrap_or_default();
        let said = |problems: &mut _| Environment { problems }.read("HWORKER_QUEUES", queues);
        let (queues, all_queues) = queues_in_all(given, said, problems);
        let mut env = Environment { problems };
        let name = env.text(self.name, "HWORKER_NAME", host_name());
        let mut tags = env.or(self.tags, "HWORKER_TAGS", |text| Ok(tags(text)), Vec::new());
        if env.boolean(self.answers_to_name, "HWORKER_ANSWERS_TO_NAME", false) {
            tags.push(name.clone());
        }
        tags.sort_unstable();
        tags.dedup();
        let config = WorkerConfig {
            queues,
            all_queues,
            concurrency: env.number(self.concurrency, "HWORKER_CONCURRENCY", slots),
            shutdown_grace: env.duration(
                self.shutdown_grace,
                "HWORKER_SHUTDOWN_GRACE",
                SHUTDOWN_GRACE,
            ),
            dead_after: env.duration(self.dead_after, "HWORKER_DEAD_AFTER", DEAD_AFTER),
            unknown_for: env.duration(self.unknown_for, "HWORKER_UNKNOWN_FOR", UNKNOWN_FOR),
            crash_limit: env.number(self.crash_limit, "HWORKER_CRASH_LIMIT", CRASH_LIMIT),
            cancel_on_disconnect: env.boolean(
                self.cancel_on_disconnect,
                "HWORKER_CANCEL_ON_DISCONNECT",
                false,
            ),
            prefetch: env.boolean(self.prefetch, "HWORKER_PREFETCH", true),
            aging: env.or(self.aging, "HWORKER_AGING", duration_or_off, AGING),
            log_every: env.or(
                self.log_every.map(Some),
                "HWORKER_LOG_EVERY",
                |text| duration_or_off(text).map(Some),
                None,
            ),
            durability: env.durability(self.durability, "HWORKER_SETTLE_DURABILITY"),
            name,
            tags,
            app: env.text(self.app, "HWORKER_APP", program_name()),
            health: env.or(self.health.map(Some), "HWORKER_HEALTH", health, None),
            web: env.or(self.web.map(Some), "HWORKER_WEB", web, None),
            web_token: env.or(self.web_token.map(Some), "HWORKER_WEB_TOKEN_FILE", token, None),
            limits: Limits {
                failed: Kept {
                    count: kept(env.bound(self.failed_limit, "HWORKER_FAILED_LIMIT", FAILED_LIMIT))
                        as u64,
                    bytes: (env.bound(self.failed_bytes, "HWORKER_FAILED_BYTES", FAILED_BYTES)
                        as u64)
                        .min(BYTES_AT_MOST),
                    ms: millis(env.or(
                        self.failed_for,
                        "HWORKER_FAILED_FOR",
                        duration_or_off,
                        FAILED_FOR,
                    )),
                },
                done: kept(env.bound(self.keep_done, "HWORKER_KEEP_DONE", KEEP_DONE)),
                broken_for: env
                    .or(
                        self.broken_for.map(Some),
                        "HWORKER_BROKEN_FOR",
                        |text| duration_or_off(text).map(Some),
                        None,
                    )
                    .map(millis),
                broken: kept(env.number(self.broken_limit, "HWORKER_BROKEN_LIMIT", BROKEN_LIMIT)),
                max_payload: env.number(self.max_payload, "HWORKER_MAX_PAYLOAD", MAX_PAYLOAD),
            },
        };
        config.check(problems);
        config
    }
}

impl WorkerConfig {
    /// How safe settlements have to be. Two round trips that wait may be under way, and a third call behind them.
    pub(crate) fn settles(&self) -> Durability {
        self.durability.within(self.durability.time().min(Duration::from_secs(2)))
    }

    fn check(&self, problems: &mut Problems) {
        check_max_payload(self.limits.max_payload, problems);
        let mut wrong = |problem: String| problems.0.push(problem);
        if self.concurrency == 0 {
            wrong("concurrency is 0; a worker needs at least one slot".into());
        }
        if self.concurrency > Semaphore::MAX_PERMITS {
            let (slots, most) = (self.concurrency, Semaphore::MAX_PERMITS);
            wrong(format!("concurrency is {slots}; a worker has at most {most} slots"));
        }
        if self.dead_after < Duration::from_secs(2) {
            wrong(format!(
                "dead_after is {:?}; it must be at least 2s, since a worker is heard of every 1.5s",
                self.dead_after
            ));
        }
        if self.cancel_on_disconnect && self.dead_after < Duration::from_secs(4) {
            wrong(format!(
                "dead_after is {:?}; with cancel_on_disconnect it must be at least 4s, since bodies are stopped 1s before that \
                 and a worker is heard of every 1.5s",
                self.dead_after
            ));
        }
        if self.crash_limit == 0 {
            wrong(
                "crash_limit is 0; write 1 to fail a job at the first death of its worker".into(),
            );
        }
        if self.crash_limit > CRASHES {
            let limit = self.crash_limit;
            wrong(format!(
                "crash_limit is {limit}; it is at most {CRASHES}, since a job remembers no more"
            ));
        }
        if self.log_every.is_some_and(|every| every < Duration::from_secs(1)) {
            wrong(
                "log_every is below 1s; a worker logs what there is at most once a second".into(),
            );
        }
        check_name("worker", &self.name).unwrap_or_else(&mut wrong);
        check_name("program", &self.app).unwrap_or_else(&mut wrong);
        for tag in &self.tags {
            check_name("tag", tag).unwrap_or_else(&mut wrong);
        }
        for queue in &self.queues {
            let QueueSetting { name, limit, share, extra, excluded } = queue;
            if !queue.is_every() {
                check_queue(name).unwrap_or_else(&mut wrong);
            }
            if *excluded && (limit.is_some() || *extra || share.weight != 1) {
                wrong(format!(
                    "the queue `{name}` is left out, and has slots or a weight; write `!{name}` alone"
                ));
            }
            if queue.is_every() && (*extra || *excluded) {
                wrong("`*` is every queue; it has no `+` and no `!`".into());
            }
            if !(1..=HEAVIEST).contains(&share.weight) {
                wrong(format!(
                    "the queue `{name}` has the weight {}; it is 1 to {HEAVIEST}",
                    share.weight
                ));
            }
            if *limit == Some(0) {
                wrong(format!(
                    "the queue `{name}` has 0 slots; leave it out, or give it at least one"
                ));
            }
            if let Some(slots) = limit.filter(|slots| *slots > Semaphore::MAX_PERMITS) {
                let most = Semaphore::MAX_PERMITS;
                wrong(format!("the queue `{name}` has {slots} slots; it may have at most {most}"));
            }
        }
    }

    /// What is said of a queue, or of every queue that is not named. What is said of a queue holds for its jobs with a tag, too.
    pub(crate) fn queue(&self, name: &str) -> Option<&QueueSetting> {
        let named = |name: &str| self.queues.iter().find(|setting| setting.name == name);
        let every = || self.queues.iter().find(|setting| setting.is_every());
        named(name).or_else(|| named(of_tag(name).0)).or_else(every)
    }

    /// A queue, and those of its jobs that are for workers with a tag of this one.
    pub(crate) fn with_tags(&self, queue: &str) -> Vec<String> {
        let tags = if of_tag(queue).1.is_none() { &*self.tags } else { &[] };
        let tagged = tags.iter().map(|tag| with_tag(queue, tag));
        std::iter::once(queue.to_owned()).chain(tagged).collect()
    }

    /// Whether it serves every queue that there is.
    pub(crate) fn serves_every(&self) -> bool {
        self.queues.iter().any(QueueSetting::is_every)
    }

    /// Whether it does not serve a queue though it serves every one: it is left out, or for workers with another tag.
    pub(crate) fn excludes(&self, queue: &str) -> bool {
        let (name, tag) = of_tag(queue);
        let is_out =
            |setting: &QueueSetting| setting.excluded && [queue, name].contains(&&*setting.name);
        let is_named = self.queues.iter().any(|setting| !setting.excluded && setting.name == queue);
        let is_ours = tag.is_none_or(|tag| is_named || self.tags.iter().any(|own| own == tag));
        !is_ours || self.queues.iter().any(is_out)
    }
}

/// The queues that the program names, or where it only adds to the others, those of `HWORKER_QUEUES` as well: each once. And
/// whether all of them are added to others.
fn queues_in_all(
    given: Vec<QueueSetting>,
    said: impl FnOnce(&mut Problems) -> Option<Vec<QueueSetting>>,
    problems: &mut Problems,
) -> (Vec<QueueSetting>, bool) {
    let adds = |queues: &[QueueSetting]| queues.iter().all(|queue| queue.extra || queue.excluded);
    let others = adds(&given).then(|| said(problems)).flatten().unwrap_or_default();
    let only_added = adds(&given) && adds(&others);
    let mut all: Vec<QueueSetting> = Vec::with_capacity(others.len() + given.len());
    for queue in others.into_iter().chain(given) {
        let Some(known) = all.iter_mut().find(|known| known.name == queue.name) else {
            all.push(queue);
            continue;
        };
        known.extra |= queue.extra;
        known.excluded |= queue.excluded;
        if queue.share != Share::default() {
            known.share = queue.share;
        }
        match (known.limit, queue.limit) {
            (Some(one), Some(other)) if one != other => problems.0.push(format!(
                "the queue `{}` is named twice, with {one} and with {other} slots; name it once",
                queue.name
            )),
            (one, other) => known.limit = one.or(other),
        }
    }
    (all, only_added)
}

/// Reads `critical*6,default*3,reports=2,+urgent`, `critical>default`, `*,!reports`: names, each with its weight and its own number of slots
/// where they are written, with a plus where no job type names it, and an exclamation mark where it is left out. Behind a `>` all have a
/// lower rank.
pub(crate) fn queues(text: &str) -> Result<Vec<QueueSetting>, String> {
    let mut queues = Vec::new();
    for (rank, rows) in text.split('>').enumerate() {
        let parts = rows.split(',').map(str::trim).filter(|part| !part.is_empty());
        for part in parts {
            queues.push(queue(part, rank)?);
        }
        if text.contains('>') && queues.last().is_none_or(|last| last.share.rank != rank) {
            return Err("before and behind a `>` there is a queue, as in `critical>default`".into());
        }
    }
    Ok(queues)
}

fn queue(part: &str, rank: usize) -> Result<QueueSetting, String> {
    let (name, limit) = match part.split_once('=') {
        None => (part, None),
        Some((name, limit)) => (name.trim(), Some(number(limit.trim())?)),
    };
    let (sign, name) = match name.split_at_checked(1) {
        Some((sign @ ("+" | "!"), rest)) => (sign, rest.trim()),
        _ => ("", name),
    };
    let (name, weight) = match name.rsplit_once('*') {
        // Every queue, without a weight.
        Some(("", "")) | None => (name, None),
        Some((name, weight)) => (name.trim(), Some(number(weight.trim())?)),
    };
    Ok(QueueSetting {
        name: name.to_owned(),
        share: Share {
            rank,
            weight: weight.map_or(1, |weight| u32::try_from(weight).unwrap_or(u32::MAX)),
        },
        limit,
        extra: sign == "+",
        excluded: sign == "!",
    })
}

/// Reads `gpu, eu`.
fn tags(text: &str) -> Vec<String> {
    let tags = text.split(',').map(str::trim).filter(|tag| !tag.is_empty());
    tags.map(str::to_owned).collect()
}

/// A duration, or `off` for no bound.
fn duration_or_off(text: &str) -> Result<Duration, String> {
    if text == "off" { Ok(Duration::MAX) } else { parse_duration(text) }
}

fn health(text: &str) -> Result<Option<SocketAddr>, String> {
    let address = text.parse().map_err(|_| {
        format!("`{text}` is no address; write `127.0.0.1:8080`, or `0.0.0.0:8080` for all who can reach the machine")
    })?;
    if !cfg!(feature = "health") {
        return Err("this program is built without hworker's feature `health`".into());
    }
    Ok(Some(address))
}

fn web(text: &str) -> Result<Option<SocketAddr>, String> {
    let address = text.parse().map_err(|_| {
        format!("`{text}` is no address; write `127.0.0.1:7700`, or `0.0.0.0:7700` and HWORKER_WEB_TOKEN_FILE")
    })?;
    if !cfg!(feature = "web") {
        return Err("this program is built without hworker's feature `web`".into());
    }
    Ok(Some(address))
}

/// The token in a file.
fn token(file: &str) -> Result<Option<Secret>, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("`{file}` cannot be read: {error}"))?;
    match text.trim() {
        "" => Err(format!("`{file}` has no token in it")),
        token => Ok(Some(Secret(token.to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str, limit: Option<usize>, extra: bool) -> QueueSetting {
        QueueSetting { name: name.to_owned(), limit, extra, ..QueueSetting::default() }
    }

    #[test]
    fn a_queue_that_is_named_twice_is_one() {
        let mut problems = Problems(Vec::new());
        let named = vec![
            queue("mail", None, false),
            queue("reports", None, false),
            queue("reports", Some(2), false),
            queue("urgent", Some(3), true),
            queue("urgent", None, false),
        ];
        let (all, only_added) = queues_in_all(named, |_| None, &mut problems);
        let expected = [
            queue("mail", None, false),
            queue("reports", Some(2), false),
            queue("urgent", Some(3), true),
        ];
        assert_eq!((all.as_slice(), problems.0.len()), (&expected[..], 0), "{problems:?}");
        assert!(!only_added);

        let twice = vec![queue("a", Some(1), false), queue("a", Some(2), false)];
        queues_in_all(twice, |_| None, &mut problems);
        assert_eq!(
            problems.0,
            ["the queue `a` is named twice, with 1 and with 2 slots; name it once"]
        );
    }

    #[test]
    fn queues_that_are_added_go_with_those_of_the_environment() {
        let mut problems = Problems(Vec::new());
        let mut all = |given: &[&str], said: &str| {
            let queues = |names: &str| queues(names).expect("queues");
            let given = queues(&given.join(","));
            let said = Some(queues(said)).filter(|said| !said.is_empty());
            let (all, only_added) = queues_in_all(given, |_| said, &mut problems);
            (all.into_iter().map(|queue| queue.name).collect::<Vec<_>>().join(","), only_added)
        };
        assert_eq!(all(&[], ""), (String::new(), true));
        assert_eq!(all(&["+urgent"], ""), ("urgent".into(), true));
        assert_eq!(all(&["+urgent"], "mail"), ("mail,urgent".into(), false));
        assert_eq!(all(&["+urgent"], "+mail"), ("mail,urgent".into(), true));
        assert_eq!(all(&["+urgent"], "urgent"), ("urgent".into(), false), "that one alone");
        assert_eq!(all(&[], "urgent,+urgent"), ("urgent".into(), false));
        assert_eq!(all(&["reports", "+urgent"], "mail"), ("reports,urgent".into(), false));
    }

    #[test]
    fn what_may_stand_in_hworker_queues() {
        let one = |text: &str| {
            let queues = queues(text).expect(text);
            let shown = queues.iter().map(|queue| {
                let Share { rank, weight } = queue.share;
                let limit = queue.limit.map_or(0, |limit| limit);
                let sign = if queue.extra {
                    "+"
                } else if queue.excluded {
                    "!"
                } else {
                    ""
                };
                format!("{sign}{} {rank} {weight} {limit}", queue.name)
            });
            shown.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(one("critical*6, default*3"), "critical 0 6 0, default 0 3 0");
        assert_eq!(one("a>b,c*2=3>+d"), "a 0 1 0, b 1 1 0, c 1 2 3, +d 2 1 0");
        assert_eq!(one("*,!reports"), "* 0 1 0, !reports 0 1 0");
        assert_eq!(one("critical>*=2"), "critical 0 1 0, * 1 1 2");
        assert_eq!(one(" mail , reports = 2 "), "mail 0 1 0, reports 0 1 2");
        for (wrong, why) in [
            ("a>", "before and behind a `>`"),
            (">a", "before and behind a `>`"),
            ("a>>b", "before and behind a `>`"),
            ("a*x", "x"),
            ("a=x", "x"),
        ] {
            let error = queues(wrong).expect_err(wrong);
            assert!(error.contains(why), "{wrong}: {error}");
        }
        let mut problems = Problems(Vec::new());
        for wrong in ["!a=2", "+*", "a*0", "a*1001", "!*"] {
            let settings = WorkerSettings {
                queues: Some(queues(wrong).expect("read")),
                ..WorkerSettings::default()
            };
            settings.resolve(&mut problems);
        }
        assert_eq!(problems.0.len(), 5, "{problems}");
    }

    #[test]
    fn a_worker_serves_what_is_for_its_tags() {
        let mut problems = Problems(Vec::new());
        let settings = WorkerSettings {
            queues: Some(queues("mail=2,*,!reports,+files@eu").expect("queues")),
            tags: Some(vec!["gpu".into(), "gpu".into()]),
            name: Some("web-1".into()),
            answers_to_name: Some(true),
            ..WorkerSettings::default()
        };
        let config = settings.resolve(&mut problems);
        assert!(problems.0.is_empty(), "{problems}");
        assert_eq!(config.with_tags("mail"), ["mail", "mail@gpu", "mail@web-1"]);
        assert_eq!(config.with_tags("mail@eu"), ["mail@eu"]);
        assert_eq!(config.queue("mail@gpu").and_then(|queue| queue.limit), Some(2));
        let excluded = ["mail@gpu", "other", "files@eu", "mail@eu", "reports", "reports@gpu"];
        let excluded = excluded.map(|queue| config.excludes(queue));
        assert_eq!(excluded, [false, false, false, true, true, true]);
        let settings =
            WorkerSettings { tags: Some(vec!["a b".into()]), ..WorkerSettings::default() };
        settings.resolve(&mut problems);
        assert_eq!(problems.0.len(), 1, "{problems}");
    }

    #[test]
    fn numbers_that_could_not_be_kept_to_are_refused() {
        let mut problems = Problems(Vec::new());
        let settings = WorkerSettings {
            queues: Some(vec![queue("a", Some(usize::MAX), false)]),
            concurrency: Some(usize::MAX),
            crash_limit: Some(33),
            failed_limit: Some(usize::MAX),
            ..WorkerSettings::default()
        };
        let config = settings.resolve(&mut problems);
        assert_eq!(config.limits.failed.count, u64::from(u32::MAX));
        let problems = problems.to_string();
        for what in ["concurrency is", "crash_limit is 33; it is at most 32", "the queue `a` has"] {
            assert!(problems.contains(what), "{problems}");
        }
    }
}
