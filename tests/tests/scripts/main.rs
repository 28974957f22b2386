//! The scripts against the server of the model, which `tests/model` has checked the whole protocol with: the same calls must
//! have the same answers and leave the same in every structure, after every step.

mod broadcast;
mod relay;
mod staged;

use std::collections::HashMap;

use hworker_model::server::{Edit, End, HUSK, Id, Job, Known, Lease, Seen, Server};
use hworker_model::{Allowed, Answered, Call, Model};
use hworker_tests::{SCRIPTS, TestServer};
use proptest::prelude::*;
use proptest::sample::Index;
use redis::{Connection, Value};

const QUEUE: &str = "default";

/// Calls that no test waits for; with `PROPTEST_CASES` there can be more.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// A real server, and what it is to hold.
struct Both {
    model: Server,
    redis: Connection,
    /// The names of the leases, by their number less one.
    leases: Vec<String>,
    /// Times that have passed already, each later than those before it.
    due: u64,
    /// How many failed jobs run again, less those that were deleted: the first are counted as ended, the others are not.
    edited: i64,
}

fn key(kind: &str) -> String {
    format!("hworker-{kind}-{QUEUE}")
}

fn of_worker(kind: &str, id: Id) -> String {
    format!("hworker-{kind}-{QUEUE}:w.{id}")
}

/// What the keys of kept results begin with.
fn kept() -> String {
    key("job") + ":"
}

fn keys_of_settle(id: Id) -> [String; 17] {
    [
        of_worker("progress", id),
        key("jobs"),
        key("scheduled"),
        key("bell"),
        key("broken"),
        key("stat"),
        key("stat") + ":20260101",
        of_worker("worker", id),
        key("parked"),
        key("token"),
        key("record"),
        key("groups"),
        key("failed"),
        key("cancelled"),
        key("expired"),
        key("done"),
        kept(),
    ]
}

fn envelope(job: Job) -> String {
    if job == HUSK {
        return "-".to_owned();
    }
    format!(r#"{{"id":"j{job}","job":"act","args":{{}}}}"#)
}

fn job(envelope: &str) -> Job {
    if envelope == "-" {
        return HUSK;
    }
    let number = envelope.strip_prefix(r#"{"id":"j"#).and_then(|rest| rest.split('"').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{envelope}"))
}

fn text(value: &Value) -> String {
    redis::from_redis_value(value.clone()).expect("a text or a number")
}

fn list(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => values.iter().map(text).collect(),
        other => panic!("not a list: {other:?}"),
    }
}

fn size(text: &str) -> usize {
    text.parse().expect("a number")
}

impl Both {
    fn new(server: &TestServer) -> Self {
        let client = redis::Client::open(server.url()).expect("a URL");
        let mut redis = client.get_connection().expect("a connection");
        // A server of this test's own.
        let _: () = redis::cmd("FLUSHDB").query(&mut redis).expect("emptied");
        Self { model: Server::default(), redis, leases: Vec::new(), due: 0, edited: 0 }
    }

    fn ask<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        command.query(&mut self.redis).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    fn script(&mut self, name: &str, keys: &[String], args: &[String]) -> Value {
        let reply = self.try_script(name, keys, args);
        reply.unwrap_or_else(|error| panic!("{name} {args:?}: {error}"))
    }

    fn try_script(
        &mut self,
        name: &str,
        keys: &[String],
        args: &[String],
    ) -> redis::RedisResult<Value> {
        let script = SCRIPTS.iter().find(|(other, _)| *other == name).expect("a script");
        let script = redis::Script::new(script.1);
        let mut call = script.prepare_invoke();
        for key in keys {
            call.key(key);
        }
        for arg in args {
            call.arg(arg);
        }
        call.invoke(&mut self.redis)
    }

    fn lease(&self, lease: Lease) -> String {
        self.leases[usize::from(lease) - 1].clone()
    }

    /// Leases that were handed out just now; they must be younger than all others.
    fn new_leases(&mut self, first: u64, count: usize) {
        let last = self.leases.last().map_or(0, |name| size(name) as u64);
        assert!(first > last, "{first} after {last}");
        self.leases.extend((first..).take(count).map(|token| token.to_string()));
    }

    /// Makes a call to both, and holds the one against the other.
    fn call(&mut self, call: &Call) {
        let expected = self.model.call(call);
        let answered = self.real(call);
        assert_eq!(answered, expected, "{call:?}");
        self.compare(call);
    }

    fn real(&mut self, call: &Call) -> Answered {
        match call {
            Call::Enqueue { job } => {
                let _: u64 = self.ask(&["LPUSH", &key("jobs"), &envelope(*job)]);
                Answered::Done
            }
            Call::Schedule { job } => {
                self.due += 1;
                let args = ["at".to_owned(), (1_000 + self.due).to_string(), envelope(*job)];
                self.script("schedule", &[key("scheduled"), key("bell")], &args);
                Answered::Done
            }
            Call::Promote { want } => {
                let args = [want.to_string(), "4000000".to_owned(), "1".to_owned()];
                let keys = [key("scheduled"), key("jobs"), key("token"), key("bell")];
                let reply = self.script("promote", &keys, &args);
                Answered::Count(size(&list(&reply)[0]))
            }
            Call::Reconcile { id, first } => self.reconcile(*id, *first),
            Call::Heartbeat { id } => self.heartbeat(*id),
            Call::Reserve { id, session, want } => self.reserve(*id, *session, *want),
            Call::Settle { id, lease, job, end } => self.settle(*id, *lease, *job, *end),
            Call::Recover { id, unchanged, chunk } => self.recover(*id, *unchanged, chunk),
            Call::TakeParked { id, session, token } => self.take_parked(*id, *session, *token),
            Call::BreakParked { token } => {
                let day = key("stat") + ":20260101";
                let keys = ["parked", "broken", "stat", "day", "jobs", "bell"];
                let keys = keys.map(|kind| if kind == "day" { day.clone() } else { key(kind) });
                let keys = [&keys[..], &[kept()]].concat();
                let lease = self.lease(*token);
                let args = ["1000", "1000", &lease, "why", "", "", "", ""].map(str::to_owned);
                Answered::Held(list(&self.script("break_parked", &keys, &args)) == ["ok", "1"])
            }
            Call::ReturnInbox { id } => {
                let (inbox, jobs) = (of_worker("inbox", *id), key("jobs"));
                let back = ["LMOVE", &inbox, &jobs, "LEFT", "RIGHT"];
                while self.ask::<Option<String>>(&back).is_some() {}
                Answered::Done
            }
            Call::Edit { seen, edit } => self.edit(*seen, *edit),
            Call::Retire { id } => {
                let keys = [
                    of_worker("worker", *id),
                    of_worker("progress", *id),
                    of_worker("inbox", *id),
                    key("jobs"),
                    key("timer"),
                    key("workers"),
                ];
                let reply = self.script("retire", &keys, &[format!("w.{id}")]);
                Answered::Count(size(&text(&reply)))
            }
            Call::Revoke { id, lease } => {
                let keys = [of_worker("progress", *id), key("jobs"), of_worker("worker", *id)];
                let reply = self.script("revoke", &keys, &[self.lease(*lease)]);
                Answered::Held(text(&reply) == "ok")
            }
            Call::Bury { id } => {
                let keys = [
                    key("workers"),
                    of_worker("worker", *id),
                    of_worker("progress", *id),
                    of_worker("inbox", *id),
                ];
                // Not before its day is over.
                let early = self.script("bury", &keys, &[format!("w.{id}"), "86400".to_owned()]);
                assert_eq!(text(&early), "kept");
                let reply = self.script("bury", &keys, &[format!("w.{id}"), "0".to_owned()]);
                Answered::Held(text(&reply) == "ok")
            }
            Call::HandOver { id } => {
                let inbox = of_worker("inbox", *id);
                let moved: Option<String> =
                    self.ask(&["LMOVE", &key("jobs"), &inbox, "RIGHT", "LEFT"]);
                Answered::Held(moved.is_some())
            }
        }
    }

    fn reconcile(&mut self, id: Id, first: bool) -> Answered {
        let keys = [
            key("workers"),
            of_worker("worker", id),
            of_worker("progress", id),
            of_worker("inbox", id),
            key("token"),
            key("jobs"),
        ];
        let before = self.leases.len();
        let which = if first { "first" } else { "again" };
        let args = [format!("w.{id}"), which.into(), "name".into(), "w".into()];
        let reply = list(&self.script("reconcile", &keys, &args));
        if reply[0] == "void" {
            return Answered::Void;
        }
        let mut tokens: Vec<_> = reply[3..].to_vec();
        tokens.sort_by_key(|name| size(name));
        for name in &tokens {
            if !self.leases.contains(name) {
                self.new_leases(size(name) as u64, 1);
            }
        }
        assert!(self.leases.len() - before <= tokens.len());
        let held = self.progress(id);
        let leases = tokens.iter().map(|name| {
            let lease = self.number(name);
            (lease, held[&lease])
        });
        Answered::Session(reply[1].parse().expect("a session"), leases.collect())
    }

    fn heartbeat(&mut self, id: Id) -> Answered {
        let keys = [
            key("workers"),
            of_worker("worker", id),
            of_worker("progress", id),
            of_worker("inbox", id),
            key("timer"),
            key("scheduled"),
            key("jobs"),
            key("parked"),
            key("token"),
            key("bell"),
        ];
        let args =
            ["4000", "60000", "1", "0", "900000", "0", "app", "", "15000", "0", "0", "0", "0", "0"]
                .map(str::to_owned);
        let args = [&[format!("w.{id}")], &args[..]].concat();
        let reply = list(&self.script("heartbeat", &keys, &args));
        if reply[0] == "void" {
            return Answered::Void;
        }
        Answered::Beat(size(&reply[2]), size(&reply[3]), size(&reply[4]))
    }

    fn reserve(&mut self, id: Id, session: u8, want: usize) -> Answered {
        let keys = [
            of_worker("worker", id),
            of_worker("inbox", id),
            of_worker("progress", id),
            key("token"),
            key("broken"),
            key("stat"),
            key("jobs"),
            key("parked"),
            key("bell"),
        ];
        let args = [session.to_string(), want.to_string(), "4000000".into(), "1000".into()];
        let args = [&args[..], &["10".to_owned(), want.to_string()]].concat();
        // Every other call settles too, a lease that nobody holds.
        let reply = if want.is_multiple_of(2) {
            list(&self.script("reserve", &keys, &args))
        } else {
            let acks = "1000 1000 ack j 1 nobody's 0 ack k 1 nobody's 0";
            let acks: Vec<_> = acks.split(' ').map(str::to_owned).collect();
            let [settled, reserved] = self.settle_and_reserve(id, &acks, 2, &args);
            assert_eq!(settled, ["0", "0"]);
            reserved
        };
        match reply[0].as_str() {
            "void" => return Answered::Void,
            "stale" => return Answered::Stale,
            _ => {}
        }
        let jobs = &reply[4..];
        if !jobs.is_empty() {
            self.new_leases(reply[3].parse().expect("a token"), jobs.len());
        }
        let first = self.leases.len() - jobs.len() + 1;
        let jobs = jobs.iter().zip(first..).map(|(payload, lease)| (lease as Lease, job(payload)));
        Answered::Jobs(jobs.collect())
    }

    fn take_parked(&mut self, id: Id, session: u8, token: Lease) -> Answered {
        let progress = of_worker("progress", id);
        let worker = of_worker("worker", id);
        let keys = [worker, progress.clone(), key("parked"), key("token"), key("jobs")];
        let args = [session.to_string(), self.lease(token)];
        let reply = list(&self.script("take_parked", &keys, &args));
        match reply[0].as_str() {
            "void" => Answered::Void,
            "stale" => Answered::Stale,
            _ if reply[1].is_empty() => Answered::Jobs(Vec::new()),
            _ => {
                self.new_leases(reply[1].parse().expect("a token"), 1);
                let payload: String = self.ask(&["HGET", &progress, &reply[1]]);
                Answered::Jobs(vec![(self.leases.len() as Lease, job(&payload))])
            }
        }
    }

    fn edit(&mut self, seen: Seen, edit: Edit) -> Answered {
        let kinds = "jobs scheduled bell broken stat day parked token record groups failed \
                     cancelled expired done jobs scheduled token";
        let kinds = kinds.split(' ');
        let keys: Vec<_> = kinds
            .map(|kind| if kind == "day" { key("stat") + ":20260101" } else { key(kind) })
            .chain([kept()])
            .collect();
        let (state, bytes, place, job) = match seen {
            Seen::Waiting { job, before } => ("waiting", envelope(job), before.to_string(), job),
            Seen::Failed(job) => {
                let member = format!("- j{job} j{job}");
                let ended: Option<String> = self.ask(&["ZSCORE", &key("failed"), &member]);
                ("failed", member, ended.unwrap_or_default(), job)
            }
        };
        let mut args = [state, &bytes, &place, "-", "1000", "1000"].map(str::to_owned).to_vec();
        let side = match edit {
            Edit::Delete => None,
            Edit::Promote => Some("RPUSH"),
            Edit::Retry => Some("LPUSH"),
        };
        if let Some(side) = side {
            let (duty, side) = ("push".to_owned(), side.to_owned());
            args.extend([duty, side, String::new(), String::new(), envelope(job)]);
        }
        let reply = self.script("edit", &keys, &args);
        let done = list(&reply) == ["done"];
        self.edited += match edit {
            _ if !done => 0,
            Edit::Delete => -1,
            Edit::Promote => 0,
            Edit::Retry => 1,
        };
        Answered::Held(done)
    }

    /// Parked jobs by their tokens, which count with the leases.
    fn parked(&mut self) -> Vec<(String, Job)> {
        let parked: Vec<String> = self.ask(&["ZRANGE", &key("parked"), "0", "-1", "WITHSCORES"]);
        parked.chunks(2).map(|pair| (pair[1].clone(), job(&pair[0]))).collect()
    }

    fn settle(&mut self, id: Id, lease: Lease, job: Job, end: End) -> Answered {
        let lease = self.lease(lease);
        if let End::Release { later } = end {
            let (progress, record) = (of_worker("progress", id), of_worker("worker", id));
            let keys = [progress, key("jobs"), key("scheduled"), key("bell"), record];
            let delay = if later { "1" } else { "0" };
            // The bytes as they are, or given anew.
            let payload = if job.is_multiple_of(2) { String::new() } else { envelope(job) };
            let reply = self.script("release", &keys, &[lease, delay.into(), payload]);
            return Answered::Held(text(&reply) == "1");
        }
        let keys = keys_of_settle(id);
        let mut args: Vec<String> = ["1000", "1000"].map(str::to_owned).to_vec();
        let name = format!("j{job}");
        match end {
            End::Ack => {
                // As the first of one token, or by its name.
                let tokens = u8::from(job.is_multiple_of(2)).to_string();
                args.extend(["ack".into(), name, "1".into(), lease, tokens]);
            }
            End::Fail => {
                let id = format!("j{job}");
                let record = ["record", "failed", &id, "-", "1000", "100000", "{}", ""];
                args.extend(ends(&name, lease, &record));
            }
            End::Husk => args.extend(ends("", lease, &["husk", "no envelope"])),
            End::Break => args.extend(ends("", lease, &["break", "cannot be read"])),
            End::Park => {
                // The bytes as they are, or given anew.
                let bytes = if job.is_multiple_of(2) { String::new() } else { envelope(job) };
                args.extend(ends("", lease, &["park", &bytes]));
            }
            End::Retry { later } => {
                let delay = u8::from(later).to_string();
                args.extend(ends(&name, lease, &["retry", &delay, &envelope(job)]));
            }
            End::Release { .. } => {}
        }
        let reply = if matches!(end, End::Ack) && job.is_multiple_of(3) {
            // And reserves, under a session that never was.
            let ask = ["0", "1", "4000000", "1000", "10", "1"].map(str::to_owned);
            let [settled, reserved] = self.settle_and_reserve(id, &args, 1, &ask);
            assert!(reserved == ["stale"] || reserved == ["void"], "{reserved:?}");
            settled
        } else {
            list(&self.script("settle", &keys, &args))
        };
        if end == End::Park && reply == ["ok"] {
            let token = self.parked().pop().expect("it is parked").0;
            self.new_leases(token.parse().expect("a token"), 1);
        }
        Answered::Held(reply == ["ok"] || reply == ["1"])
    }

    /// Both in one call, the first with so many operations: what each of them answers.
    fn settle_and_reserve(
        &mut self,
        id: Id,
        settle: &[String],
        operations: usize,
        reserve: &[String],
    ) -> [Vec<String>; 2] {
        let keys = [&keys_of_settle(id)[..10], &[of_worker("inbox", id)]].concat();
        let reply = self.script("settle_and_reserve", &keys, &[settle, reserve].concat());
        let mut reserved = list(&reply);
        let settled = reserved.split_off(reserved.len() - operations);
        [settled, reserved]
    }

    fn recover(&mut self, id: Id, unchanged: bool, chunk: &[(Lease, Job)]) -> Answered {
        let keys = [
            key("workers"),
            of_worker("worker", id),
            of_worker("progress", id),
            of_worker("inbox", id),
            key("jobs"),
            key("stat"),
            key("stat") + ":20260101",
        ];
        let worker = format!("w.{id}");
        let heard: Option<String> = self.ask(&["ZSCORE", &key("workers"), &worker]);
        let seen = heard.filter(|_| unchanged).unwrap_or_else(|| "17".to_owned());
        let mut args = [&worker, &seen, "1000"].map(str::to_owned).to_vec();
        for (lease, job) in chunk {
            args.extend([self.lease(*lease), envelope(*job)]);
        }
        let reply = list(&self.script("recover", &keys, &args));
        if reply[0] == "alive" {
            return Answered::Alive;
        }
        Answered::Given(size(&reply[1]), size(&reply[2]), size(&reply[4]))
    }

    fn number(&self, name: &str) -> Lease {
        let index = self.leases.iter().position(|other| other == name);
        index.map_or_else(
            || panic!("the lease {name} was never handed out"),
            |index| index as Lease + 1,
        )
    }

    fn progress(&mut self, id: Id) -> HashMap<Lease, Job> {
        let held: HashMap<String, String> = self.ask(&["HGETALL", &of_worker("progress", id)]);
        held.iter().map(|(lease, payload)| (self.number(lease), job(payload))).collect()
    }

    fn jobs_in(&mut self, key: &str) -> Vec<Job> {
        let payloads: Vec<String> = self.ask(&["LRANGE", key, "0", "-1"]);
        payloads.iter().map(|payload| job(payload)).collect()
    }

    /// Every structure of the one holds what that of the other holds.
    fn compare(&mut self, after: &Call) {
        assert_eq!(self.jobs_in(&key("jobs")), self.model.jobs, "the list after {after:?}");
        let scheduled: Vec<String> = self.ask(&["ZRANGE", &key("scheduled"), "0", "-1"]);
        let mut real: Vec<_> = scheduled.iter().map(|payload| job(payload)).collect();
        let mut expected = self.model.scheduled.clone();
        real.sort_unstable();
        expected.sort_unstable();
        assert_eq!(real, expected, "the scheduled jobs after {after:?}");
        // What was put there with a delay is due, in the order in which it came.
        for (place, job) in self.model.scheduled.clone().into_iter().enumerate() {
            let due = place.to_string();
            let _: u64 = self.ask(&["ZADD", &key("scheduled"), "XX", &due, &envelope(job)]);
        }
        let parked = self.parked();
        let parked: Vec<_> = parked.iter().map(|(token, job)| (self.number(token), *job)).collect();
        assert_eq!(parked, self.model.parked, "the parked jobs after {after:?}");
        for (id, record) in (0..).zip(self.model.records.clone()) {
            let held: HashMap<_, _> = record.progress.iter().copied().collect();
            assert_eq!(self.progress(id), held, "the leases of {id} after {after:?}");
            assert_eq!(
                self.jobs_in(&of_worker("inbox", id)),
                record.inbox,
                "the inbox of {id} after {after:?}"
            );
            let (session, dead): (Option<u8>, Option<u64>) =
                self.ask(&["HMGET", &of_worker("worker", id), "session", "dead"]);
            let known = match (session, dead) {
                (_, Some(_)) => Known::Dead,
                (Some(_), None) => Known::Alive,
                (None, None) => Known::Missing,
            };
            assert_eq!(known, record.known, "the record of {id} after {after:?}");
            assert_eq!(session.unwrap_or(0), record.session, "the session of {id} after {after:?}");
            let heard: Option<String> = self.ask(&["ZSCORE", &key("workers"), &format!("w.{id}")]);
            assert_eq!(heard.is_some(), record.listed, "the entry of {id} after {after:?}");
        }
        let counters = ["HMGET", &key("stat"), "processed", "failed", "broken", "husks"];
        let counted: Vec<Option<i64>> = self.ask(&counters);
        let [processed, failed, broken, husks] = [0, 1, 2, 3].map(|of| counted[of].unwrap_or(0));
        let expected: i64 = self.model.ended.iter().map(|ended| i64::from(*ended)).sum();
        let settled = processed + failed + broken;
        assert_eq!(settled, expected + self.edited, "settled after {after:?}");
        assert_eq!(husks, i64::from(self.model.husks), "husks after {after:?}");
        let kept: [usize; 3] = [
            self.ask(&["ZCARD", &key("failed")]),
            self.ask(&["HLEN", &key("record")]),
            self.ask(&["HLEN", &key("broken")]),
        ];
        let failed = self.model.failed.len();
        assert_eq!(kept, [failed, failed, broken as usize], "kept after {after:?}");
        for (job, ended) in (0..).zip(&self.model.ended) {
            let places = self.model.places(job) + usize::from(*ended);
            assert_eq!(places, 1, "job {job} is in one place, after {after:?}");
        }
    }
}

/// A call, whose numbers are picked from those that there are when it is made.
#[derive(Debug, Clone)]
struct Step {
    what: u8,
    id: Id,
    pick: Index,
    other: Index,
    flag: bool,
    fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    /// It arrives.
    Arrives,
    /// It never does.
    Lost,
    /// It arrives after so many others.
    Late(usize),
    /// It arrives, and once more after so many others.
    Repeated(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        6 => Just(Fate::Arrives),
        1 => Just(Fate::Lost),
        2 => (1..8usize).prop_map(Fate::Late),
        2 => (0..8usize).prop_map(Fate::Repeated),
    ];
    let picks = (any::<Index>(), any::<Index>());
    (0..31u8, 0..3u8, picks, any::<bool>(), fate).prop_map(
        |(what, id, (pick, other), flag, fate)| Step { what, id, pick, other, flag, fate },
    )
}

impl Step {
    /// The call, as somebody would make it who knows what is there now, or knew it.
    fn call(&self, server: &mut Server, issued: &[(Id, Lease, Job)]) -> Option<Call> {
        let Step { what, id, pick, other, flag, .. } = *self;
        let fresh = server.ended.len() as Job;
        let record = server.records.get(usize::from(id)).cloned().unwrap_or_default();
        let lease = (!issued.is_empty()).then(|| *pick.get(issued));
        let waiting = server.jobs.iter().rev().position(|job| *job != HUSK);
        let call = match what {
            0..4 => Call::Enqueue { job: fresh },
            4 => Call::Schedule { job: fresh },
            5 => Call::Promote { want: 1 + other.index(3) },
            6 => Call::Reconcile { id, first: true },
            7 => Call::Reconcile { id, first: false },
            8 => Call::Heartbeat { id },
            9..13 => {
                let session = if flag { record.session } else { record.session.saturating_sub(1) };
                Call::Reserve { id, session, want: other.index(4) }
            }
            13..18 => {
                let (id, lease, job) = lease?;
                let ends = [
                    End::Ack,
                    End::Ack,
                    End::Fail,
                    End::Break,
                    End::Park,
                    End::Retry { later: flag },
                    End::Release { later: flag },
                ];
                let end = match *other.get(&ends) {
                    // A body has to run to ask for a delay; two without an id would be one among the scheduled ones.
                    End::Release { later } => End::Release { later: later && job != HUSK },
                    _ if job == HUSK => End::Husk,
                    end => end,
                };
                Call::Settle { id, lease, job, end }
            }
            18..20 => {
                let mut chunk = record.progress.clone();
                chunk.truncate(other.index(3));
                chunk.reverse();
                Call::Recover { id, unchanged: flag, chunk }
            }
            20 if flag => Call::Retire { id },
            20 => Call::ReturnInbox { id },
            21 => {
                let (id, lease, _) = lease?;
                Call::Revoke { id, lease }
            }
            22 => Call::Bury { id },
            // One that is parked, or was under that number.
            23..25 => {
                let token = server.parked.first().map(|(token, _)| *token);
                let token = token.or(lease.map(|(_, lease, _)| lease))?;
                let session = if flag { record.session } else { record.session.saturating_sub(1) };
                if what == 23 {
                    Call::TakeParked { id, session, token }
                } else {
                    Call::BreakParked { token }
                }
            }
            28 => Call::Edit { seen: Seen::Failed(*server.failed.first()?), edit: Edit::Retry },
            29 | 30 => {
                let before = waiting?;
                let job = server.jobs[server.jobs.len() - 1 - before];
                let edit = if flag { Edit::Delete } else { Edit::Promote };
                Call::Edit { seen: Seen::Waiting { job, before: before as u8 }, edit }
            }
            _ => Call::HandOver { id },
        };
        if matches!(call, Call::Enqueue { .. } | Call::Schedule { .. }) {
            server.ended.push(0);
        }
        Some(call)
    }
}

/// Calls in an order that nobody would make them in, some late, some twice, some never.
fn any_calls(server: &TestServer, steps: &[Step]) {
    let mut both = Both::new(server);
    both.model.records.resize_with(3, Default::default);
    let mut issued = Vec::new();
    let mut under_way: Vec<(usize, Call)> = Vec::new();
    for (now, step) in steps.iter().enumerate() {
        let (due, later): (Vec<_>, Vec<_>) = under_way.drain(..).partition(|(due, _)| *due <= now);
        under_way = later;
        for (_, call) in due {
            both.call(&call);
        }
        let Some(call) = step.call(&mut both.model, &issued) else { continue };
        // Whoever enqueues does so once; what never arrives was never accepted.
        let enqueues = matches!(call, Call::Enqueue { .. } | Call::Schedule { .. });
        let fate = if enqueues { Fate::Arrives } else { step.fate };
        match fate {
            Fate::Lost => continue,
            Fate::Late(steps) => under_way.push((now + steps, call)),
            Fate::Arrives => both.call(&call),
            Fate::Repeated(steps) => {
                both.call(&call);
                under_way.push((now + steps, call));
            }
        }
        for (id, record) in (0..).zip(&both.model.records) {
            for (lease, job) in &record.progress {
                if !issued.contains(&(id, *lease, *job)) {
                    issued.push((id, *lease, *job));
                }
            }
        }
        if both.leases.len() > 200 {
            return;
        }
    }
}

/// A way through the model: whatever its processes do, with its faults, is done to the real server too.
fn as_the_model(server: &TestServer, picks: &[(u8, Index)]) {
    let model = Model::new(5, 8, Allowed::ALL).retries(3).edits(6).deploy();
    let mut both = Both::new(server);
    let mut state = model.begin();
    both.model.records.resize_with(2, Default::default);
    for (luck, pick) in picks {
        let mut actions = Vec::new();
        model.possible(&state, &mut actions);
        let (faults, moves): (Vec<_>, Vec<_>) = actions.into_iter().partition(|it| it.is_fault());
        let choices = if *luck < 20 && !faults.is_empty() { &faults } else { &moves };
        if choices.is_empty() {
            return;
        }
        state.log_calls();
        state = model.after(&state, *pick.get(choices));
        both.model.records.resize_with(state.server().records.len(), Default::default);
        both.model.ended.resize(state.server().ended.len(), 0);
        for call in state.take_calls() {
            both.call(&call);
        }
        assert_eq!(both.model.jobs, state.server().jobs);
        if both.leases.len() > 200 {
            return;
        }
    }
}

#[test]
fn any_calls_in_any_order() {
    let server = TestServer::start();
    proptest!(config(150), |(steps in prop::collection::vec(step(), 1..120))| {
        any_calls(&server, &steps);
    });
}

#[test]
fn what_the_model_does() {
    let server = TestServer::start();
    let picks = prop::collection::vec((any::<u8>(), any::<Index>()), 50..300);
    proptest!(config(100), |(picks in picks)| {
        as_the_model(&server, &picks);
    });
}

/// The end of a lease by one duty.
fn ends(job: &str, lease: String, duty: &[&str]) -> Vec<String> {
    let mut args: Vec<String> = vec!["end".into(), job.into(), lease, "1".into()];
    args.extend(duty.iter().map(|&argument| argument.to_owned()));
    args
}

#[test]
fn an_end_carries_out_all_its_duties_or_none() {
    // An end with two duties: both are carried out, once; sent again it is stale and nothing changes. With a duty that there is not, nothing
    // at all is done.
    let server = TestServer::start();
    let mut both = Both::new(&server);
    let progress = of_worker("progress", 1);
    let settle = |both: &mut Both, duties: &[&str]| {
        let args = ["1000", "1000", "end", "j", "7"].iter().chain(duties);
        let args: Vec<_> = args.map(|&argument| argument.to_owned()).collect();
        both.try_script("settle", &keys_of_settle(1), &args)
    };
    let record = ["record", "failed", "id", "-", "1000", "100000", "a record", "a sample"];
    let _: u64 = both.ask(&["HSET", &progress, "7", "{}"]);
    assert!(settle(&mut both, &[&["2"], &record[..], &["no duty"]].concat()).is_err());
    let held: u64 = both.ask(&["HLEN", &progress]);
    assert_eq!(held, 1, "nothing was done");
    for answer in ["ok", "stale"] {
        let duties = [&["2"], &record[..], &["retry", "0", "again"]].concat();
        assert_eq!(list(&settle(&mut both, &duties).expect("a reply")), [answer]);
        let lengths = [["ZCARD", &key("failed")], ["LLEN", &key("jobs")]];
        let lengths = lengths.map(|length| both.ask::<u64>(&length));
        assert_eq!(lengths, [1, 1]);
    }
    // What is kept of it is written with its end, for its time, and only if it was held.
    let keep = ["keep", "id", "60000", "the end"];
    let key = kept() + "id";
    for (answer, is_there) in [("stale", 0), ("ok", 1)] {
        let duties = [&["2"], &record[..], &keep].concat();
        assert_eq!(list(&settle(&mut both, &duties).expect("a reply")), [answer]);
        assert_eq!(both.ask::<u64>(&["EXISTS", &key]), is_there, "{answer}");
        let _: u64 = both.ask(&["HSET", &progress, "7", "{}"]);
    }
    let left: i64 = both.ask(&["PTTL", &key]);
    assert!((1..=60_000).contains(&left), "{left}");
}

#[test]
fn an_ack_ends_rows_of_leases_and_single_ones() {
    let server = TestServer::start();
    let mut both = Both::new(&server);
    let progress = of_worker("progress", 1);
    for lease in ["1763805600000009", "1763805600000010", "1763805600000011", "20", "x", "x.1"] {
        let _: u64 = both.ask(&["HSET", &progress, lease, "{}"]);
    }
    // Of the first row one is not held; the last is a name.
    let ack = ["1000", "1000", "ack", "j", "3"];
    let rows = ["1763805600000010", "3", "20", "1", "x", "0"];
    let args = [&ack[..], &rows[..]].concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let reply = list(&both.script("settle", &keys_of_settle(1), &args));
    assert_eq!(reply, ["4"]);
    let mut left: Vec<String> = both.ask(&["HKEYS", &progress]);
    left.sort_unstable();
    assert_eq!(left, ["1763805600000009", "x.1"]);
    let counted: u64 = both.ask(&["HGET", &key("stat"), "processed"]);
    assert_eq!(counted, 4);
    // The counters of a day expire.
    let expires_in: i64 = both.ask(&["TTL", &keys_of_settle(1)[6]]);
    assert!((1..=1000).contains(&expires_in), "{expires_in}");
}

#[test]
fn an_end_needs_no_more_than_its_own_structures() {
    // Each key that `settle` and `release` touch is of another type in turn -> what needs it is refused with nothing done, all else is done;
    // counters begin anew, and it is said which.
    let server = TestServer::start();
    let mut both = Both::new(&server);
    let [progress, jobs, scheduled, bell, broken, stat, day, _, parked, _, _, _, failed, ..] =
        keys_of_settle(1);
    let settle = |both: &mut Both, end: &str| {
        let _: u64 = both.ask(&["HSET", &progress, "1", "{}"]);
        let args = format!("1000 1000 {end}");
        let args: Vec<_> = args.split(' ').map(str::to_owned).collect();
        both.try_script("settle", &keys_of_settle(1), &args).map(|reply| list(&reply))
    };
    let release = |both: &mut Both, delay: &str| {
        let _: u64 = both.ask(&["HSET", &progress, "1", "{}"]);
        let record = of_worker("worker", 1);
        let keys = [&progress, &jobs, &scheduled, &bell, &record].map(String::clone);
        both.try_script("release", &keys, &["1", delay, ""].map(str::to_owned))
            .map(|reply| text(&reply))
    };
    let ends = [
        ("ack j 1 1 1", None),
        ("end j 1 1 retry 0 {}", Some(vec![&jobs])),
        ("end j 1 1 retry 9 {}", Some(vec![&scheduled, &bell])),
        ("end j 1 1 record failed id - 1000 100000 {} sample", Some(vec![&failed])),
        ("end  1 1 break why", Some(vec![&broken, &parked])),
        ("end  1 1 park {}", Some(vec![&parked])),
    ];
    for wrong in [&jobs, &scheduled, &bell, &failed, &broken, &parked] {
        let _: u64 = both.ask(&["DEL", wrong]);
        let _: String = both.ask(&["SET", wrong, "somebody else's"]);
        for (end, needs) in &ends {
            let refused = needs.as_ref().is_some_and(|needs| needs.contains(&wrong));
            let reply = settle(&mut both, end);
            assert_eq!(reply.is_err(), refused, "{end} without {wrong}: {reply:?}");
            assert_eq!(both.ask::<u64>(&["HDEL", &progress, "1"]), u64::from(refused), "{end}");
        }
        for (delay, needs) in [("0", vec![&jobs]), ("9", vec![&scheduled, &bell])] {
            let reply = release(&mut both, delay);
            assert_eq!(
                reply.is_err(),
                needs.contains(&wrong),
                "{delay} without {wrong}: {reply:?}"
            );
        }
        let _: u64 = both.ask(&["DEL", wrong]);
    }
    // The token, which is a string.
    let token = key("token");
    let _: u64 = both.ask(&["DEL", &token]);
    let _: u64 = both.ask(&["HSET", &token, "somebody", "else's"]);
    assert!(settle(&mut both, "end  1 1 park {}").is_err());
    assert_eq!(both.ask::<u64>(&["HDEL", &progress, "1"]), 1, "it is held still");
    let _: u64 = both.ask(&["DEL", &token]);
    let _: u64 = both.ask(&["DEL", &stat]);
    let _: String = both.ask(&["SET", &stat, "somebody else's"]);
    let _: u64 =
        both.ask(&["HSET", &day, "processed", "9223372036854775807", "processed:j", "1.5"]);
    let reply = settle(&mut both, "ack j 1 1 1").expect("settled");
    assert_eq!(reply[0], "1");
    for figure in
        [format!("{stat} processed"), format!("{day} processed"), format!("{day} processed:j")]
    {
        assert!(reply[1].starts_with("anew ") && reply[1].contains(&figure), "{reply:?}");
    }
    for key in [&stat, &day] {
        let counted: Vec<u64> = both.ask(&["HMGET", key, "processed", "processed:j"]);
        assert_eq!(counted, [1, 1], "{key}");
    }
    assert_eq!(settle(&mut both, "ack j 1 1 1").expect("settled"), ["1"], "said once");
}

#[test]
fn events_are_told_of_what_was_held() {
    // Two acks of which one is held, with what is told of them -> told, as of which one is unsure; none is held -> nothing; all are -> none is unsure. A
    // stream of another type -> the ends stand, and the reply says why.
    let server = TestServer::start();
    let mut both = Both::new(&server);
    let (progress, events) = (of_worker("progress", 1), key("jobs") + ":events");
    let mut settle = |held: &[&str]| {
        for lease in held {
            let _: u64 = both.ask(&["HSET", &progress, lease, "{}"]);
        }
        let args = "1000 1000 ack j 1 1 2 end j 7 1 retry 0 {} events w.1 100 2 a b";
        let args: Vec<_> = args.split(' ').map(str::to_owned).collect();
        let reply = list(&both.script("settle", &keys_of_settle(1), &args));
        if both.ask::<String>(&["TYPE", &events]) == "string" {
            return (reply, Vec::new());
        }
        let told: Vec<(String, Vec<String>)> = both.ask(&["XRANGE", &events, "-", "+"]);
        (reply, told.into_iter().map(|(_, fields)| fields.join(" ")).collect())
    };
    let (reply, told) = settle(&["1"]);
    assert_eq!((reply[0].as_str(), reply[1].as_str(), reply.len()), ("1", "stale", 2));
    assert_eq!(told, ["w w.1 u 2 e a", "w w.1 u 2 e b"]);
    assert_eq!(settle(&[]).1.len(), 2);
    let (_, told) = settle(&["1", "2", "7"]);
    assert_eq!(told[2..], ["w w.1 u 0 e a", "w w.1 u 0 e b"]);
    let wrong = redis::Client::open(server.url()).expect("a URL");
    let mut wrong = wrong.get_connection().expect("a connection");
    let _: () =
        redis::cmd("SET").arg(key("jobs") + ":events").arg("x").query(&mut wrong).expect("set");
    let (reply, _) = settle(&["1", "2", "7"]);
    assert_eq!(reply[..2], ["2", "ok"]);
    assert!(reply[2].starts_with("events WRONGTYPE"), "{reply:?}");
}

#[test]
fn an_inbox_goes_back_by_the_thousand_in_its_order() {
    let server = TestServer::start();
    let mut both = Both::new(&server);
    let (workers, inbox, jobs) = (key("workers"), of_worker("inbox", 1), key("jobs"));
    let _: u64 = both.ask(&["ZADD", &workers, "5", "w.1"]);
    for number in 0..1_001 {
        let _: u64 = both.ask(&["LPUSH", &inbox, &number.to_string()]);
    }
    let mut keys = vec![workers, of_worker("worker", 1), of_worker("progress", 1), inbox];
    keys.extend([jobs.clone(), key("stat"), key("stat") + ":20260101"]);
    let mut recover = || {
        let args = ["w.1", "5", "1000"].map(str::to_owned);
        list(&both.script("recover", &keys, &args))
    };
    let first = recover();
    assert_eq!(first[..5], ["ok", "1000", "0", "1", "1"], "the first declares it dead");
    assert_eq!(recover()[..5], ["ok", "1", "0", "0", "0"]);
    let back: Vec<String> = both.ask(&["LRANGE", &jobs, "0", "-1"]);
    let oldest_right: Vec<_> = (0..1_001).rev().map(|number| number.to_string()).collect();
    assert_eq!(back, oldest_right, "the oldest runs first");
}
