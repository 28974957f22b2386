//! The names of everything in Redis. No other module spells a key.

use std::fmt::Display;

use crate::limit::List;
use crate::priority::Priority;

/// What all keys of a client have in common.
#[derive(Debug, Clone)]
pub(crate) struct KeySpace {
    pub(crate) prefix: String,
    /// Names stand in braces, so that all keys of a queue are in one slot.
    pub(crate) cluster: bool,
}

impl KeySpace {
    /// A key that belongs to all queues together: `queues`, `jobs`, `audit`, `deploys`. With its one dash it is no key of a queue.
    pub(crate) fn meta(&self, what: &str) -> String {
        let tag = if self.cluster { format!("{{{what}}}") } else { what.to_owned() };
        format!("{}-meta:{tag}", self.prefix)
    }

    /// The key of a lock of this name.
    pub(crate) fn lock(&self, name: &str) -> String {
        let name = if self.cluster { format!("{{{name}}}") } else { name.to_owned() };
        format!("{}-lock-{name}", self.prefix)
    }

    /// The keys of a batch.
    pub(crate) fn batch(&self, id: &str) -> [String; 5] {
        let id = if self.cluster { format!("{{{id}}}") } else { id.to_owned() };
        let batch = format!("{}-batch-{id}", self.prefix);
        ["", ":done", ":bad", ":fails", ":adds"].map(|what| [&batch, what].concat())
    }

    /// A pattern for `SCAN` that the lists of all queues match.
    pub(crate) fn lists(&self) -> String {
        format!("{}-jobs-*", self.prefix)
    }

    /// The queue whose list has this key, the number of the shard, and which of its lists it is: `None` for the plain one.
    pub(crate) fn queue_of_list<'a>(&self, key: &'a str) -> Option<(&'a str, usize, Option<List>)> {
        let name = key.strip_prefix(&self.prefix)?.strip_prefix("-jobs-")?;
        let (name, list) = match name.split_once(':') {
            Some((name, list)) => (name, Some(List::parse(list).filter(|list| !list.is_plain())?)),
            None => (name, None),
        };
        let name = if self.cluster { name.strip_prefix('{')?.strip_suffix('}')? } else { name };
        let (name, shard) = name.split_once('#').unwrap_or((name, "0."));
        let shard = shard.split_once('.')?.0.parse().ok()?;
        is_queue(name).then_some((name, shard, list))
    }
}

/// The keys of one queue, or of one shard of a queue.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: Box<str>,
    queue: Box<str>,
    pub(crate) jobs: String,
    pub(crate) scheduled: String,
    pub(crate) timer: String,
    pub(crate) bell: String,
    /// Ended jobs, by the outcome.
    ended: [String; OUTCOMES.len()],
    pub(crate) record: String,
    pub(crate) groups: String,
    pub(crate) broken: String,
    pub(crate) parked: String,
    pub(crate) workers: String,
    pub(crate) token: String,
    pub(crate) stat: String,
    pub(crate) chart: String,
    /// What all keys of kept results begin with: behind it stands an id.
    pub(crate) kept: String,
}

/// The keys of one worker in one queue.
#[derive(Debug, Clone)]
pub(crate) struct WorkerKeys {
    /// The worker.
    pub(crate) id: String,
    pub(crate) progress: String,
    pub(crate) inbox: String,
    pub(crate) record: String,
}

/// How a job of which there is a record has ended; it is also the word in the names of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Failed,
    Cancelled,
    Expired,
    Done,
}

/// In the order of [`Ended`].
const OUTCOMES: [&str; 4] = ["failed", "cancelled", "expired", "done"];

impl Ended {
    pub(crate) const ALL: [Self; 4] = [Self::Failed, Self::Cancelled, Self::Expired, Self::Done];

    pub(crate) fn name(self) -> &'static str {
        OUTCOMES[self as usize]
    }
}

/// Every word that stands between the prefix and the queue.
const KINDS: [&str; 22] = [
    "jobs",
    "progress",
    "inbox",
    "scheduled",
    "timer",
    "bell",
    "failed",
    "cancelled",
    "expired",
    "done",
    "record",
    "groups",
    "broken",
    "parked",
    "workers",
    "worker",
    "token",
    "stat",
    "chart",
    "job",
    "live",
    "log",
];

impl Keys {
    pub(crate) fn new(space: &KeySpace, queue: &str) -> Self {
        let prefix = &*space.prefix;
        let queue = if space.cluster { format!("{{{queue}}}") } else { queue.to_owned() };
        let key = |kind: &str| format!("{prefix}-{kind}-{queue}");
        Self {
            jobs: key("jobs"),
            scheduled: key("scheduled"),
            timer: key("timer"),
            bell: key("bell"),
            ended: OUTCOMES.map(key),
            record: key("record"),
            groups: key("groups"),
            broken: key("broken"),
            parked: key("parked"),
            workers: key("workers"),
            token: key("token"),
            stat: key("stat"),
            chart: key("chart"),
            kept: key("job") + ":",
            prefix: prefix.into(),
            queue: queue.into_boxed_str(),
        }
    }

    pub(crate) fn worker(&self, worker: impl Display) -> WorkerKeys {
        let key = |kind: &str| format!("{}-{kind}-{}:{worker}", self.prefix, self.queue);
        WorkerKeys {
            progress: key("progress"),
            inbox: key("inbox"),
            record: key("worker"),
            id: worker.to_string(),
        }
    }

    /// The sorted set of the jobs that ended so.
    pub(crate) fn ended(&self, how: Ended) -> &str {
        &self.ended[how as usize]
    }

    /// The list in which such jobs wait.
    pub(crate) fn list(&self, list: &List) -> String {
        if list.is_plain() { self.jobs.clone() } else { format!("{}:{list}", self.jobs) }
    }

    /// Which keys of a group of lists have jobs.
    pub(crate) fn keys_of(&self, group: &str) -> String {
        [&*self.jobs, ":keys:", group].concat()
    }

    /// What is in force on the queue.
    pub(crate) fn control(&self) -> String {
        [&*self.jobs, ":control"].concat()
    }

    /// What is in force on single keys of limits.
    pub(crate) fn overrides(&self) -> String {
        [&*self.jobs, ":overrides"].concat()
    }

    /// Which leases hold which limits.
    pub(crate) fn held(&self) -> String {
        [&*self.jobs, ":held"].concat()
    }

    /// The jobs that are known by their ids.
    pub(crate) fn ids(&self) -> String {
        [&*self.jobs, ":ids"].concat()
    }

    /// The jobs that each worker runs.
    pub(crate) fn broadcasts(&self) -> String {
        [&*self.jobs, ":broadcast"].concat()
    }

    /// One of them, and which workers have it.
    pub(crate) fn broadcast_of(&self, id: &str) -> String {
        [&*self.jobs, ":broadcast:", id].concat()
    }

    /// What batches are still to be told.
    pub(crate) fn notes(&self) -> String {
        [&*self.jobs, ":notes"].concat()
    }

    /// What no batch took of that.
    pub(crate) fn undelivered(&self) -> String {
        [&*self.jobs, ":undelivered"].concat()
    }

    /// The batches that are to be looked after from here.
    pub(crate) fn batches(&self) -> String {
        [&*self.jobs, ":batches"].concat()
    }

    /// The batches of which no member starts.
    pub(crate) fn stopped(&self) -> String {
        [&*self.jobs, ":stopped"].concat()
    }

    /// What happens to its jobs.
    pub(crate) fn events(&self) -> String {
        [&*self.jobs, ":events"].concat()
    }

    /// The members of a paused batch that were met.
    pub(crate) fn paused_of(&self, batch: &str) -> String {
        [&*self.jobs, ":paused:", batch].concat()
    }

    /// The jobs of a bulk that come all or none.
    pub(crate) fn staged(&self, bulk: &str) -> String {
        [&*self.jobs, ":staged:", bulk].concat()
    }

    /// The cron entries.
    #[cfg(feature = "cron")]
    pub(crate) fn cron(&self) -> String {
        [&*self.jobs, ":cron"].concat()
    }

    /// What programs declare in their code.
    pub(crate) fn tables(&self) -> String {
        [&*self.jobs, ":tables"].concat()
    }

    /// Who holds which key.
    pub(crate) fn unique(&self) -> String {
        [&*self.jobs, ":unique"].concat()
    }

    /// Where workers wait while the queue is paused.
    pub(crate) fn gate(&self) -> String {
        [&*self.jobs, ":gate"].concat()
    }

    /// The keys of the queue alone, each with the type that it has.
    pub(crate) fn typed(&self) -> Vec<(String, &'static str)> {
        let [failed, cancelled, expired, done] = &self.ended;
        let mut typed = vec![
            (&self.scheduled, "zset"),
            (&self.timer, "string"),
            (&self.bell, "list"),
            (failed, "zset"),
            (cancelled, "zset"),
            (expired, "zset"),
            (done, "zset"),
            (&self.record, "hash"),
            (&self.groups, "hash"),
            (&self.broken, "hash"),
            (&self.parked, "zset"),
            (&self.workers, "zset"),
            (&self.token, "string"),
            (&self.stat, "hash"),
        ];
        let lists = Priority::ALL.map(|priority| self.list(&priority.into()));
        typed.extend(lists.iter().map(|list| (list, "list")));
        let beside = [
            ("lists", "zset"),
            ("control", "hash"),
            ("overrides", "hash"),
            ("held", "zset"),
            ("ids", "hash"),
            ("unique", "hash"),
            ("broadcast", "hash"),
            ("notes", "hash"),
            ("undelivered", "list"),
            ("batches", "zset"),
            ("events", "stream"),
            ("stopped", "hash"),
            ("cron", "hash"),
            ("tables", "hash"),
            ("timers", "zset"),
            ("rates", "zset"),
            ("gate", "list"),
        ];
        let beside = beside.map(|(what, wanted)| (format!("{}:{what}", self.jobs), wanted));
        typed.into_iter().map(|(key, wanted)| (key.clone(), wanted)).chain(beside).collect()
    }

    /// What a script needs that writes or drops records, in this order.
    pub(crate) fn records(&self) -> [&str; 6] {
        let [failed, cancelled, expired, done] = &self.ended;
        [&self.record, &self.groups, failed, cancelled, expired, done]
    }

    /// The same, and what all kept results begin with: what a script needs that ends jobs.
    pub(crate) fn ends(&self) -> [&str; 7] {
        let [record, groups, failed, cancelled, expired, done] = self.records();
        [record, groups, failed, cancelled, expired, done, &self.kept]
    }

    /// The kept result of a job.
    pub(crate) fn kept_of(&self, id: &str) -> String {
        [&*self.kept, id].concat()
    }

    /// What the body of a job reports.
    pub(crate) fn live_of(&self, id: &str) -> String {
        format!("{}-live-{}:{id}", self.prefix, self.queue)
    }

    /// The lines that it logs.
    pub(crate) fn log_of(&self, id: &str) -> String {
        format!("{}-log-{}:{id}", self.prefix, self.queue)
    }

    /// The statistics of one day, `YYYYMMDD`.
    pub(crate) fn stat_of(&self, day: &str) -> String {
        [&*self.stat, ":", day].concat()
    }

    /// A pattern for `SCAN` that all keys of the queue match; others may match too, see [`Keys::owns`].
    pub(crate) fn pattern(&self) -> String {
        format!("{}-*-{}*", self.prefix, self.queue)
    }

    /// Whether a key belongs to this queue and not to another whose name looks alike. A prefix has no dash, so
    /// the split is unambiguous.
    pub(crate) fn owns(&self, key: &str) -> bool {
        let parts = key
            .strip_prefix(&*self.prefix)
            .and_then(|rest| rest.strip_prefix('-'))
            .and_then(|rest| rest.split_once('-'));
        parts.is_some_and(|(kind, queue)| {
            let rest = queue.strip_prefix(&*self.queue);
            KINDS.contains(&kind)
                && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        })
    }
}

/// Whether a worker's label is well formed: `[A-Za-z0-9._-]{1,100}`.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=100).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Whether a queue is well formed: as a label, and where only workers with a tag serve it, that tag behind an `@`.
pub(crate) fn is_queue(name: &str) -> bool {
    let (queue, tag) = of_tag(name);
    is_name(queue) && tag.is_none_or(is_name)
}

/// The queue, and the tag of the workers that serve it, where not all do.
pub(crate) fn of_tag(name: &str) -> (&str, Option<&str>) {
    name.split_once('@').map_or((name, None), |(queue, tag)| (queue, Some(tag)))
}

/// The queue on which jobs wait for workers with a tag.
pub(crate) fn with_tag(queue: &str, tag: &str) -> String {
    format!("{queue}@{tag}")
}

/// Says what is wrong with the name of a queue, if anything is.
pub(crate) fn check_queue(name: &str) -> Result<(), String> {
    is_queue(name).then_some(()).ok_or_else(|| {
        format!(
            "the queue's name `{name}` is not of the form [A-Za-z0-9._-]{{1,100}}, with the tag of its workers behind an `@` if it has one"
        )
    })
}

/// Says what is wrong with the name of a worker, if anything is.
pub(crate) fn check_name(whose: &str, name: &str) -> Result<(), String> {
    is_name(name).then_some(()).ok_or_else(|| {
        format!("the {whose}'s name `{name}` is not of the form [A-Za-z0-9._-]{{1,100}}")
    })
}

/// Whether a prefix is well formed: as a name, but without a dash, so that no two prefixes can share a key.
pub(crate) fn is_prefix(prefix: &str) -> bool {
    is_name(prefix) && !prefix.contains('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_owns_its_keys_and_no_others() {
        let space = KeySpace { prefix: "hworker".into(), cluster: false };
        let keys = Keys::new(&space, "mail");
        for key in ["hworker-jobs-mail", "hworker-progress-mail:w.1", "hworker-stat-mail:20261121"]
        {
            assert!(keys.owns(key), "{key}");
        }
        for key in [
            "hworker-jobs-mail2",
            "hworker-jobs-bulk-mail",
            "hworker2-jobs-mail",
            "hworker-jobs-mail-x",
            "hworker-jobs-mail#1.2",
            "hworker-jobs-{mail}",
            "hworker-cache-mail",
            "mail",
        ] {
            assert!(!keys.owns(key), "{key}");
        }
    }

    #[test]
    fn the_registry_is_no_key_of_a_queue_and_lists_name_theirs() {
        for (cluster, registry, list, shard) in [
            (false, "hworker-meta:queues", "hworker-jobs-a-b", "hworker-jobs-a-b#1.2"),
            (true, "hworker-meta:{queues}", "hworker-jobs-{a-b}", "hworker-jobs-{a-b#1.2}"),
        ] {
            let space = KeySpace { prefix: "hworker".into(), cluster };
            assert_eq!(space.meta("queues"), registry);
            assert!(!Keys::new(&space, "queues").owns(registry));
            let found = [list, shard].map(|key| space.queue_of_list(key));
            assert_eq!(found, [Some(("a-b", 0, None)), Some(("a-b", 1, None))]);
            for beside in ["high", "low+db+mail=a:b"] {
                let found = format!("{shard}:{beside}");
                assert_eq!(space.queue_of_list(&found), Some(("a-b", 1, List::parse(beside))));
            }
            for other in [registry, "hworker-jobs-", "hworker-jobs-a b", "hworker2-jobs-a"] {
                assert_eq!(space.queue_of_list(other), None, "{other}");
            }
            for other in ["gate", "held", "", "keys:+mail="] {
                let other = format!("{list}:{other}");
                assert_eq!(space.queue_of_list(&other), None, "{other}");
            }
        }
    }

    #[test]
    fn in_a_cluster_a_queue_stands_in_braces() {
        let space = KeySpace { prefix: "hworker".into(), cluster: true };
        let keys = Keys::new(&space, "mail");
        assert_eq!(keys.jobs, "hworker-jobs-{mail}");
        assert_eq!(keys.worker("w.1").progress, "hworker-progress-{mail}:w.1");
        assert!(keys.owns("hworker-progress-{mail}:w.1") && keys.owns("hworker-jobs-{mail}"));
        assert!(!keys.owns("hworker-jobs-{mail#1.2}") && !keys.owns("hworker-jobs-mail"));
    }
}
