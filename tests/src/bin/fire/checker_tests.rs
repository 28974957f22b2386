//! Each rule of the checker finds the violation that it is there for, made by hand; and stories in which all is well have none.

use std::collections::BTreeMap;

use hworker::{Action, JobState};

use crate::aof::Command;
use crate::checker::Checker;
use crate::diary::{Note, Outcome, What};
use crate::faults::Kind;
use crate::strikes::SECOND;
use crate::tally::Job;
use crate::verdict::AtTheEnd;

/// A story of jobs and workers, told in the words of the server's log and of diaries. It begins at second 100.
struct Story {
    checker: Checker,
    now: u64,
    silent: Option<u32>,
}

fn words(line: &str) -> Command {
    line.split(' ').map(|word| word.replace('_', " ").into_bytes()).collect()
}

fn envelope(n: u32) -> String {
    format!(r#"{{"job":"work","args":{{"n":{n}}}}}"#)
}

const JOBS: &str = "hworker-jobs-default";
const STAT: &str = "hworker-stat-default";

impl Story {
    fn new() -> Self {
        let mut story = Self { checker: Checker::default(), now: 100 * SECOND, silent: None };
        story.checker.plain.wall_is_ahead(0);
        story.beat(1);
        story.beat(2);
        story
    }

    /// Time passes, in which the workers beat that live.
    fn pass(&mut self, seconds: u64) -> &mut Self {
        for _ in 0..seconds {
            self.silence(1);
            for worker in [1, 2] {
                if Some(worker) != self.silent {
                    self.beat(worker);
                }
            }
        }
        self
    }

    /// Time passes, in which one worker does not beat.
    fn without(&mut self, worker: u32, seconds: u64) -> &mut Self {
        self.silent = Some(worker);
        self.pass(seconds)
    }

    /// Time passes.
    fn silence(&mut self, seconds: u64) -> &mut Self {
        self.now += seconds * SECOND;
        self.checker.tick(self.now);
        self
    }

    fn beat(&mut self, worker: u32) -> &mut Self {
        self.beat_of(worker, self.now)
    }

    /// A heartbeat that was accepted at that time is read now.
    fn beat_of(&mut self, worker: u32, at: u64) -> &mut Self {
        let ms = at / 1_000_000;
        self.change(&[&format!("ZADD hworker-workers-default {ms} w{worker}.x")])
    }

    fn change(&mut self, lines: &[&str]) -> &mut Self {
        let commands: Vec<_> = lines.iter().map(|line| words(line)).collect();
        self.checker.plain.reads_log(self.now);
        self.checker.changed(&commands, self.now);
        self
    }

    fn note(&mut self, process: usize, note: Note) -> &mut Self {
        self.checker.noted(process, note, self.now);
        self
    }

    fn told(&mut self, what: What, n: u32) -> &mut Self {
        let note = Note { at: self.now, ..Note::of(what, n, 1) };
        self.note(99, note)
    }

    fn enqueue(&mut self, n: u32) -> &mut Self {
        self.told(What::Trying, n).push(n).told(What::Accepted, n)
    }

    fn push(&mut self, n: u32) -> &mut Self {
        self.change(&[&format!("LPUSH {JOBS} {}", envelope(n))])
    }

    fn reserve(&mut self, worker: u32, n: u32, token: u64) -> &mut Self {
        let progress = format!("hworker-progress-default:w{worker}.x");
        let pop = format!("RPOP {JOBS} 1");
        self.change(&[&pop, &format!("HSET {progress} {token} {}", envelope(n))])
    }

    fn body(&mut self, worker: u32, n: u32, token: u64, outcome: Outcome) -> &mut Self {
        let what = if outcome == Outcome::None { What::Begin } else { What::End };
        let note = Note { token, outcome, at: self.now, ..Note::of(what, n, 1) };
        self.note(worker as usize, note)
    }

    fn run(&mut self, worker: u32, n: u32, token: u64, outcome: Outcome) -> &mut Self {
        self.body(worker, n, token, Outcome::None).body(worker, n, token, outcome)
    }

    /// Ends the lease with what else the script does.
    fn settle(&mut self, worker: u32, token: u64, rest: &[&str]) -> &mut Self {
        let first = format!("HDEL hworker-progress-default:w{worker}.x {token}");
        let mut lines = vec![first.as_str()];
        lines.extend(rest);
        self.change(&lines)
    }

    fn ack(&mut self, worker: u32, token: u64) -> &mut Self {
        self.settle(worker, token, &[&format!("HINCRBY {STAT} processed 1")])
    }

    fn recover(&mut self, worker: u32, n: u32, token: u64) -> &mut Self {
        let dead = format!("HSETNX hworker-worker-default:w{worker}.x dead 1");
        let back = format!("RPUSH {JOBS} {}", envelope(n));
        self.settle(worker, token, &[&dead, &back, &format!("HINCRBY {STAT} recovered 1")])
    }

    /// A fault that is over at once.
    fn strike(&mut self, kind: Kind, worker: u32) -> &mut Self {
        let strike = self.checker.strike(kind, Some(worker as usize), self.now);
        self.checker.strikes.end(strike, self.now);
        self
    }

    /// Time for everything to be judged, and the end.
    fn rules(&mut self) -> Vec<&'static str> {
        self.pass(30);
        self.checker.look_for_stuck(self.now);
        let counters = |queue| -> BTreeMap<String, i64> {
            self.checker.ledger.counters(queue).map(|(name, n)| (name.to_owned(), n)).collect()
        };
        let end = |queue| AtTheEnd {
            failed: self.checker.ledger.counter(queue, "failed") as u64,
            broken: self.checker.ledger.counter(queue, "broken") as u64,
            counters: counters(queue),
            ..AtTheEnd::default()
        };
        let ends = [end(0), end(1), end(2)];
        self.conclude(&ends)
    }

    fn conclude(&mut self, ends: &[AtTheEnd]) -> Vec<&'static str> {
        self.checker.conclude(ends);
        let mut rules: Vec<_> =
            self.checker.violations().iter().map(|violation| violation.rule).collect();
        rules.dedup();
        rules
    }
}

const NONE: [&str; 0] = [];

#[test]
fn a_job_that_runs_once_is_well() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).run(1, 1, 10, Outcome::Success).pass(1).ack(1, 10);
    assert_eq!(story.rules(), NONE);
    let totals = story.checker.totals();
    assert_eq!((totals.accepted, totals.done, totals.settled, story.checker.begun), (1, 1, 1, 1));
}

#[test]
fn every_way_of_ending_is_well() {
    let mut story = Story::new();
    let again = format!("LPUSH {JOBS} {}", envelope(1));
    let retried = format!("HINCRBY {STAT} retried 1");
    story.enqueue(1).reserve(1, 1, 10).run(1, 1, 10, Outcome::Error).settle(
        1,
        10,
        &[&again, &retried],
    );
    let later = format!("ZADD hworker-scheduled-default 5 {}", envelope(1));
    story.reserve(2, 1, 11).run(2, 1, 11, Outcome::Panic).settle(2, 11, &[&later, &retried]);
    let due = format!("ZREM hworker-scheduled-default {}", envelope(1));
    story.change(&[&due, &again]).reserve(1, 1, 12).run(1, 1, 12, Outcome::Snooze);
    story.settle(1, 12, &[&later]).change(&[&due, &again]);
    let failed = format!("HINCRBY {STAT} failed 1");
    let record = format!("HSETNX hworker-record-default id {}", envelope(1));
    story.reserve(1, 1, 13).run(1, 1, 13, Outcome::Fail).settle(1, 13, &[&record, &failed]);
    let broken = format!("HINCRBY {STAT} broken 1");
    let kept = format!("HSET hworker-broken-default {} why", envelope(2));
    story.enqueue(2).reserve(1, 2, 14).settle(1, 14, &[&kept, &broken]);
    assert_eq!(story.rules(), NONE);
    let totals = story.checker.totals();
    assert_eq!((totals.failed, totals.broken, totals.done), (1, 1, 0));
}

#[test]
fn a_job_waits_in_an_inbox() {
    let mut story = Story::new();
    let inbox = "hworker-inbox-default:w1.x";
    story.enqueue(1).change(&[&format!("LMOVE {JOBS} {inbox} RIGHT LEFT")]);
    let held = format!("HSET hworker-progress-default:w1.x 10 {}", envelope(1));
    story.change(&[&format!("RPOP {inbox} 1000"), &held]);
    story.run(1, 1, 10, Outcome::Success).ack(1, 10);
    assert_eq!(story.rules(), NONE);
    assert_eq!(story.checker.ledger.open(), 0);
}

#[test]
fn a_job_that_leaves_and_arrives_in_two_changes_is_found() {
    let mut story = Story::new();
    story.enqueue(1).change(&[&format!("RPOP {JOBS} 1")]);
    assert_eq!(story.rules()[0], "a job is in one place");
}

#[test]
fn a_job_in_two_places_is_found() {
    let mut story = Story::new();
    story.enqueue(1).change(&[&format!("HSET hworker-progress-default:w1.x 10 {}", envelope(1))]);
    assert_eq!(story.rules()[0], "a job is in one place");
}

#[test]
fn a_settlement_that_is_not_counted_is_found() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).run(1, 1, 10, Outcome::Success).settle(1, 10, &[]);
    assert_eq!(story.rules(), ["counters say what happened"]);
}

#[test]
fn a_stale_settlement_that_counts_is_found() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).run(1, 1, 10, Outcome::Success).ack(1, 10).ack(1, 10);
    assert_eq!(story.rules(), ["counters say what happened"]);
}

#[test]
fn a_stale_retry_that_acts_is_found() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).run(1, 1, 10, Outcome::Success).ack(1, 10);
    let (again, retried) =
        (format!("LPUSH {JOBS} {}", envelope(1)), format!("HINCRBY {STAT} retried 1"));
    story.settle(1, 10, &[&again, &retried]);
    assert!(story.rules().contains(&"what is settled is settled"));
}

#[test]
fn a_second_settlement_is_found() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).run(1, 1, 10, Outcome::Success).ack(1, 10);
    let record = format!("HSETNX hworker-record-default id {}", envelope(1));
    story.settle(1, 10, &[&record, &format!("HINCRBY {STAT} failed 1")]);
    assert_eq!(story.rules(), ["settled once"]);
}

#[test]
fn a_loss_is_found() {
    let mut story = Story::new();
    story.told(What::Trying, 1).told(What::Accepted, 1);
    assert_eq!(story.rules(), ["nothing is lost"]);
    let mut story = Story::new();
    assert_eq!(story.enqueue(1).rules(), ["nothing is lost", "nothing is left"]);
    // Nobody was promised anything.
    let mut story = Story::new();
    assert_eq!(story.told(What::Trying, 1).told(What::Uncertain, 2).rules(), NONE);
    // But what is in, though nobody knew, runs.
    let mut story = Story::new();
    assert_eq!(
        story.told(What::Uncertain, 1).push(1).rules(),
        ["nothing is lost", "nothing is left"]
    );
}

#[test]
fn what_was_refused_and_is_in_is_found() {
    let mut story = Story::new();
    story.told(What::Refused, 1).push(1);
    assert_eq!(story.rules()[0], "refused is refused");
    let mut story = Story::new();
    assert_eq!(story.push(1).rules()[0], "every job was enqueued");
}

#[test]
fn a_recovery_without_a_fault_is_found() {
    let mut story = Story::new();
    story
        .enqueue(1)
        .reserve(1, 1, 10)
        .body(1, 1, 10, Outcome::None)
        .without(1, 6)
        .recover(1, 1, 10);
    story.reserve(2, 1, 11).run(2, 1, 11, Outcome::Success).ack(2, 11);
    assert_eq!(
        story.rules(),
        ["only the silenced are declared dead", "leases end as their bodies do"]
    );
}

#[test]
fn a_recovery_after_a_fault_is_well_and_counted() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).body(1, 1, 10, Outcome::None).strike(Kind::WorkerKill, 1);
    story.without(1, 6).recover(1, 1, 10).pass(1).reserve(2, 1, 11);
    story.run(2, 1, 11, Outcome::Success).ack(2, 11);
    assert_eq!(story.rules(), NONE);
    let strike = story.checker.strikes.iter().next().expect("one");
    assert_eq!((strike.taken_back, strike.second_starts), (1, 1));
    assert_eq!(strike.noticed, Some(106 * SECOND));
    assert_eq!(strike.again, Some(107 * SECOND));
}

#[test]
fn a_fault_does_not_explain_what_comes_long_after_it() {
    let mut story = Story::new();
    story.strike(Kind::Stop, 1).enqueue(1).pass(11).reserve(1, 1, 10);
    story.body(1, 1, 10, Outcome::None).without(1, 5).recover(1, 1, 10);
    story.reserve(2, 1, 11).run(2, 1, 11, Outcome::Success).ack(2, 11);
    assert!(story.rules().contains(&"only the silenced are declared dead"));
}

#[test]
fn a_fault_of_the_server_explains_no_recovery() {
    let mut story = Story::new();
    let strike = story.checker.strike(Kind::ServerKill, None, story.now);
    story.checker.strikes.end(strike, story.now);
    story
        .enqueue(1)
        .reserve(1, 1, 10)
        .body(1, 1, 10, Outcome::None)
        .without(1, 5)
        .recover(1, 1, 10);
    story.reserve(2, 1, 11).run(2, 1, 11, Outcome::Success).ack(2, 11);
    assert!(story.rules().contains(&"only the silenced are declared dead"));
}

#[test]
fn a_second_start_under_one_lease_is_found() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).run(1, 1, 10, Outcome::Success).pass(1);
    story.run(1, 1, 10, Outcome::Success).ack(1, 10);
    assert_eq!(story.rules(), ["one start for a lease"]);
}

#[test]
fn a_start_after_the_end_of_its_lease_is_found() {
    let late = |kind: Option<Kind>| {
        let mut story = Story::new();
        story.enqueue(1).reserve(1, 1, 10).pass(1);
        if let Some(kind) = kind {
            story.strike(kind, 1);
        }
        story.settle(1, 10, &[&format!("RPUSH {JOBS} {}", envelope(1))]);
        story.reserve(2, 1, 11).run(2, 1, 11, Outcome::Success).ack(2, 11);
        story.pass(1).body(1, 1, 10, Outcome::None);
        (story.rules(), story.checker.late_starts)
    };
    let (rules, _) = late(None);
    assert_eq!(rules[0], "no start after the end of a lease");
    assert_eq!(late(Some(Kind::Stop)), (NONE.to_vec(), 1));
}

#[test]
fn a_body_without_a_lease_is_found() {
    let mut story = Story::new();
    story.body(1, 1, 10, Outcome::None);
    assert_eq!(story.rules(), ["a body runs under its lease"]);
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).run(2, 1, 10, Outcome::Success).ack(1, 10);
    assert_eq!(story.rules(), ["a body runs under its lease"]);
    // It may be noted before the log is read.
    let mut story = Story::new();
    story.enqueue(1).run(1, 1, 10, Outcome::Success).reserve(1, 1, 10).pass(1).ack(1, 10);
    assert_eq!(story.rules(), NONE);
}

#[test]
fn a_start_without_a_pulse_is_found() {
    let start = |stopped: bool| {
        let mut story = Story::new();
        story.enqueue(1).reserve(1, 1, 10).silence(5);
        if stopped {
            story.strike(Kind::Stop, 1);
        }
        story.run(1, 1, 10, Outcome::Success).ack(1, 10);
        story.rules()
    };
    assert_eq!(start(false), ["no start without a pulse"]);
    assert_eq!(start(true), NONE);
}

#[test]
fn a_lease_for_the_dead_is_found() {
    let mut story = Story::new();
    story.enqueue(1).strike(Kind::WorkerKill, 1).without(1, 5);
    story.change(&["HSETNX hworker-worker-default:w1.x dead 1"]).reserve(1, 1, 10);
    assert_eq!(story.rules()[0], "the dead get no leases");
}

#[test]
fn a_worker_that_goes_on_after_its_recovery_is_found() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).body(1, 1, 10, Outcome::None).strike(Kind::Stop, 1);
    let back = format!("RPUSH {JOBS} {}", envelope(1));
    story.without(1, 5).settle(1, 10, &[&back, &format!("HINCRBY {STAT} recovered 1")]);
    story.beat(1).reserve(1, 1, 11).run(1, 1, 11, Outcome::Success).ack(1, 11);
    assert_eq!(story.rules(), ["the dead get no leases"]);
}

#[test]
fn a_death_of_one_who_was_heard_of_is_found() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).body(1, 1, 10, Outcome::None).strike(Kind::Stop, 1);
    story.pass(1).recover(1, 1, 10).reserve(2, 1, 11).run(2, 1, 11, Outcome::Success).ack(2, 11);
    assert_eq!(story.rules(), ["only the silent are declared dead"]);
}

#[test]
fn a_heartbeat_counts_from_when_it_was_accepted_and_not_from_when_that_was_read() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).body(1, 1, 10, Outcome::None);
    let accepted = story.now;
    story.strike(Kind::WorkerKill, 1).silence(5).beat_of(1, accepted).beat(2);
    story.recover(1, 1, 10).reserve(2, 1, 11).run(2, 1, 11, Outcome::Success).ack(2, 11);
    assert_eq!(story.rules(), [""; 0]);
}

#[test]
fn a_token_that_does_not_grow_is_found() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).run(1, 1, 10, Outcome::Success).ack(1, 10);
    story.enqueue(2).reserve(1, 2, 9).run(1, 2, 9, Outcome::Success).ack(1, 9);
    assert_eq!(story.rules(), ["tokens grow"]);
}

#[test]
fn a_lease_that_nobody_ends_is_found() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).body(1, 1, 10, Outcome::None).pass(40);
    assert_eq!(story.rules()[0], "no lease is held for ever");
}

#[test]
fn a_lease_of_which_its_worker_does_not_know_is_found() {
    let look = |seconds: u64| {
        let mut story = Story::new();
        story.enqueue(1).reserve(1, 1, 10).pass(seconds);
        story.checker.look_for_stuck(story.now);
        story.checker.violations().len()
    };
    assert_eq!((look(13), look(15)), (0, 1));
}

#[test]
fn an_inbox_that_nobody_empties_is_found() {
    let look = |seconds: u64| {
        let mut story = Story::new();
        story.enqueue(1).change(&[&format!("LMOVE {JOBS} hworker-inbox-default:w1.x RIGHT LEFT")]);
        story.checker.look_for_stuck(story.now);
        for _ in 0..2 {
            story.silence(seconds);
            story.checker.look_for_stuck(story.now);
        }
        story.checker.violations().len()
    };
    assert_eq!((look(35), look(85)), (0, 1));
}

#[test]
fn a_settlement_that_does_not_fit_its_body_is_found() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).run(1, 1, 10, Outcome::Error).ack(1, 10);
    assert_eq!(story.rules(), ["leases end as their bodies do"]);
    let mut story = Story::new();
    let back = format!("RPUSH {JOBS} {}", envelope(1));
    story.enqueue(1).reserve(1, 1, 10).run(1, 1, 10, Outcome::Dropped).settle(1, 10, &[&back]);
    story.reserve(1, 1, 11).run(1, 1, 11, Outcome::Success).ack(1, 11);
    assert_eq!(story.rules(), ["leases end as their bodies do"]);
    // A worker that ends gives back what runs.
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).strike(Kind::Term, 1);
    story.run(1, 1, 10, Outcome::Dropped).settle(1, 10, &[&back]);
    story.reserve(2, 1, 11).run(2, 1, 11, Outcome::Success).ack(2, 11);
    assert_eq!(story.rules(), NONE);
}

#[test]
fn a_job_fails_unrun_only_after_its_crashes() {
    for crashes in [Job::CRASH_LIMIT - 1, Job::CRASH_LIMIT] {
        let mut story = Story::new();
        story.enqueue(1);
        for crash in 0..u32::from(crashes) {
            let worker = 10 + crash;
            story.beat(worker).reserve(worker, 1, 10 + u64::from(crash));
            story.body(worker, 1, 10 + u64::from(crash), Outcome::None);
            story.strike(Kind::WorkerKill, worker).silence(5).recover(
                worker,
                1,
                10 + u64::from(crash),
            );
        }
        let record = format!("HSETNX hworker-record-default id {}", envelope(1));
        story.reserve(1, 1, 50).settle(1, 50, &[&record, &format!("HINCRBY {STAT} failed 1")]);
        let expected: &[&str] =
            if crashes == Job::CRASH_LIMIT { &[] } else { &["leases end as their bodies do"] };
        assert_eq!(story.rules(), expected);
    }
}

#[test]
fn cancel_on_disconnect_gives_back_when_the_server_is_away() {
    for stops in [true, false] {
        let mut story = Story::new();
        if stops {
            story.checker.stops_when_cut(1);
        }
        story.enqueue(1).reserve(1, 1, 10);
        let strike = story.checker.strike(Kind::ServerKill, None, story.now);
        story.checker.strikes.end(strike, story.now);
        let back = format!("RPUSH {JOBS} {}", envelope(1));
        story.run(1, 1, 10, Outcome::Dropped).settle(1, 10, &[&back]);
        story.reserve(2, 1, 11).run(2, 1, 11, Outcome::Success).ack(2, 11);
        assert_eq!(story.rules().is_empty(), stops);
    }
}

#[test]
fn what_the_server_holds_at_the_end_is_compared() {
    let ran = || {
        let mut story = Story::new();
        story.enqueue(1).reserve(1, 1, 10).run(1, 1, 10, Outcome::Success).ack(1, 10);
        let counters = BTreeMap::from([("processed".to_owned(), 1)]);
        (story, AtTheEnd { counters, ..AtTheEnd::default() })
    };
    let (mut story, end) = ran();
    assert_eq!(story.conclude(&[end]), NONE);
    let (mut story, mut end) = ran();
    end.left.push(("hworker-inbox-default:w1.x".into(), 1));
    assert_eq!(story.conclude(&[end]), ["nothing is left"]);
    let (mut story, mut end) = ran();
    end.counters.insert("processed".into(), 2);
    assert_eq!(story.conclude(&[end]), ["counters say what happened"]);
    let (mut story, mut end) = ran();
    end.failed = 1;
    assert_eq!(story.conclude(&[end]), ["counters say what happened"]);
}

#[test]
fn a_machine_that_was_busy_explains_as_a_stop_does() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).body(1, 1, 10, Outcome::None).silence(6).recover(1, 1, 10);
    let busy = Note { at: story.now, ..Note::of(What::Stalled, 0, 6_000) };
    story.note(1, busy).reserve(2, 1, 11).beat(2).run(2, 1, 11, Outcome::Success).ack(2, 11);
    assert_eq!(story.rules(), NONE);
    assert_eq!(story.checker.strikes.iter().next().map(|strike| strike.kind), Some(Kind::Busy));
}

/// A body that knows no lease; `run` is its number in its process.
impl Story {
    fn plain(&mut self, worker: u32, n: u32, run: u32, outcome: Outcome) -> &mut Self {
        let what = if outcome == Outcome::None { What::Begin } else { What::End };
        let note = Note { outcome, at: self.now, ..Note::of(what, n, run) };
        self.note(worker as usize, note)
    }

    fn run_plain(&mut self, worker: u32, n: u32, run: u32, outcome: Outcome) -> &mut Self {
        self.plain(worker, n, run, Outcome::None).plain(worker, n, run, outcome)
    }

    /// The server hands a job to a worker that waits.
    fn hand(&mut self, worker: u32) -> &mut Self {
        self.change(&[&format!("LMOVE {JOBS} hworker-inbox-default:w{worker}.x RIGHT LEFT")])
    }

    fn give_back(&mut self, worker: u32, n: u32, token: u64) -> &mut Self {
        self.settle(worker, token, &[&format!("RPUSH {JOBS} {}", envelope(n))])
    }
}

const UNDER_ITS_LEASE: &str = "a body runs under its lease";
const AT_ONCE: &str = "one body of a job at a time";

#[test]
fn a_plain_body_under_its_lease_is_well() {
    // Noted before the log is read, or after.
    let mut story = Story::new();
    story.enqueue(1).run_plain(1, 1, 7, Outcome::Success).reserve(1, 1, 10).pass(1).ack(1, 10);
    story.enqueue(2).reserve(1, 2, 11).pass(1).run_plain(1, 2, 8, Outcome::Success).ack(1, 11);
    assert_eq!(story.rules(), NONE);
    assert_eq!((story.checker.plain.begun, story.checker.begun), (2, 2));
}

#[test]
fn a_lease_of_which_the_log_is_late_is_that_of_the_earlier_run() {
    let mut story = Story::new();
    story.enqueue(1).run_plain(1, 1, 7, Outcome::Error).silence(1).reserve(1, 1, 10);
    let again = format!("LPUSH {JOBS} {}", envelope(1));
    story.settle(1, 10, &[&again, &format!("HINCRBY {STAT} retried 1")]).reserve(1, 1, 11);
    story.run_plain(1, 1, 8, Outcome::Success).ack(1, 11);
    assert_eq!(story.rules(), NONE);
}

#[test]
fn a_plain_body_without_a_lease_is_found() {
    let mut story = Story::new();
    story.plain(1, 1, 7, Outcome::None);
    assert_eq!(story.rules(), [UNDER_ITS_LEASE]);
    // It waits yet; or is in the inbox; or another holds it.
    for place in 0..3 {
        let mut story = Story::new();
        story.enqueue(1);
        match place {
            0 => &mut story,
            1 => story.hand(2),
            _ => story.reserve(1, 1, 10),
        }
        .plain(2, 1, 7, Outcome::None);
        assert!(story.rules().contains(&UNDER_ITS_LEASE));
    }
    // What its worker gets later is nothing that it had.
    let mut story = Story::new();
    story.enqueue(1).run_plain(1, 1, 7, Outcome::Success).pass(2).reserve(1, 1, 10).ack(1, 10);
    assert!(story.rules().contains(&UNDER_ITS_LEASE));
}

#[test]
fn a_second_plain_body_while_the_first_runs_is_found() {
    // In the same process, under the same lease.
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).plain(1, 1, 7, Outcome::None).pass(1);
    story.run_plain(1, 1, 8, Outcome::Success).pass(1);
    story.plain(1, 1, 7, Outcome::Success).ack(1, 10);
    let rules = story.rules();
    assert!(rules.contains(&UNDER_ITS_LEASE) && rules.contains(&AT_ONCE), "{rules:?}");
    // Elsewhere, since it was given back while it ran: with a fault of the first it is explained.
    let elsewhere = |kind: Option<Kind>| {
        let mut story = Story::new();
        story.enqueue(1).reserve(1, 1, 10).plain(1, 1, 7, Outcome::None).pass(1);
        if let Some(kind) = kind {
            story.strike(kind, 1);
        }
        story.give_back(1, 1, 10).reserve(2, 1, 11).pass(1).plain(2, 1, 3, Outcome::None).pass(1);
        story.plain(1, 1, 7, Outcome::Dropped).plain(2, 1, 3, Outcome::Success).ack(2, 11);
        story.rules()
    };
    let rules = elsewhere(None);
    assert!(rules.contains(&AT_ONCE), "{rules:?}");
    assert!(rules.contains(&"leases end as their bodies do"), "{rules:?}");
    assert_eq!(elsewhere(Some(Kind::Stop)), NONE);
    // One that ends gives back what has ended.
    assert!(elsewhere(Some(Kind::Term)).contains(&AT_ONCE));
}

#[test]
fn a_plain_start_after_the_end_of_its_lease_is_found() {
    // After its settlement.
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).run_plain(1, 1, 7, Outcome::Success).ack(1, 10).pass(1);
    story.plain(1, 1, 8, Outcome::None);
    assert_eq!(story.rules(), [UNDER_ITS_LEASE]);
    // After its lease was lost.
    let late = |kind: Option<Kind>| {
        let mut story = Story::new();
        story.enqueue(1).reserve(1, 1, 10);
        if let Some(kind) = kind {
            story.strike(kind, 1);
        }
        story.give_back(1, 1, 10).reserve(2, 1, 11).pass(1).plain(1, 1, 7, Outcome::None);
        story.plain(1, 1, 7, Outcome::Dropped);
        story.run_plain(2, 1, 4, Outcome::Success).ack(2, 11);
        (story.rules(), story.checker.late_starts)
    };
    let (rules, _) = late(None);
    assert_eq!(rules, ["no start after the end of a lease"]);
    assert_eq!(late(Some(Kind::Stop)), (NONE.to_vec(), 1));
}

#[test]
fn the_ends_of_plain_bodies_are_held_against_those_of_their_leases() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).run_plain(1, 1, 7, Outcome::Error).ack(1, 10);
    assert_eq!(story.rules(), ["leases end as their bodies do"]);
    // Never begun, and done.
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).ack(1, 10);
    assert_eq!(story.rules(), ["leases end as their bodies do"]);
    // One that was given back unbegun and the next of the same worker, all within one look at the log.
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).give_back(1, 1, 10).reserve(1, 1, 11);
    story.run_plain(1, 1, 7, Outcome::Success).ack(1, 11);
    assert_eq!(story.rules(), NONE);
    let again = [format!("LPUSH {JOBS} {}", envelope(1)), format!("HINCRBY {STAT} retried 1")];
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).give_back(1, 1, 10).reserve(1, 1, 11);
    story.settle(1, 11, &[&again[0], &again[1]]).reserve(1, 1, 12);
    story.run_plain(1, 1, 7, Outcome::Error).run_plain(1, 1, 8, Outcome::Success).ack(1, 12);
    assert_eq!(story.rules(), NONE);
    // But there is none for this.
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).give_back(1, 1, 10).reserve(1, 1, 11);
    story.run_plain(1, 1, 7, Outcome::Error).ack(1, 11);
    assert_eq!(story.rules(), ["leases end as their bodies do"]);
}

#[test]
fn a_plain_start_without_a_pulse_is_found() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).silence(5).run_plain(1, 1, 7, Outcome::Success);
    story.ack(1, 10);
    assert_eq!(story.rules(), ["no start without a pulse"]);
}

const HUSK: &str = "LSET hworker-jobs-default -1 -";

impl Story {
    /// An operator deletes the job that is taken next, as the server logs it.
    fn delete(&mut self) -> &mut Self {
        self.change(&[HUSK, &format!("HINCRBY {STAT} husks 1")])
    }

    /// A worker takes a husk, and drops it.
    fn drop_husk(&mut self, token: u64) -> &mut Self {
        let held = format!("HSET hworker-progress-default:w1.x {token} -");
        self.change(&[&format!("RPOP {JOBS} 1"), &held]);
        self.settle(1, token, &[&format!("HINCRBY {STAT} husks -1")])
    }

    fn fail(&mut self, n: u32, token: u64) -> &mut Self {
        let record = format!("HSETNX hworker-record-default id {}", envelope(n));
        let failed = format!("HINCRBY {STAT} failed 1");
        self.reserve(1, n, token).run(1, n, token, Outcome::Fail);
        self.settle(1, token, &[&record, &failed])
    }
}

#[test]
fn what_operators_do_is_well() {
    let mut story = Story::new();
    story.enqueue(1).checker.asked(1, &Action::Delete);
    story.delete().checker.is_done(1, JobState::Waiting, &Action::Delete, 100 * SECOND);
    story.drop_husk(10).enqueue(2);
    let promoted = format!("RPUSH {JOBS} {}", envelope(2));
    story.change(&[HUSK, &format!("HINCRBY {STAT} husks 1"), &promoted]);
    story.fail(2, 11).drop_husk(12);
    let again = format!("LPUSH {JOBS} {}", envelope(2));
    story.change(&["HDEL hworker-record-default id", &again]);
    story.checker.is_done(2, JobState::Failed, &Action::Retry, 100 * SECOND);
    story.reserve(1, 2, 13).run(1, 2, 13, Outcome::Success).ack(1, 13);
    let mut ends = [(); 3].map(|()| AtTheEnd::default());
    let counters = story.checker.ledger.counters(0);
    ends[0].counters = counters.map(|(name, n)| (name.to_owned(), n)).collect();
    assert_eq!(story.conclude(&ends), NONE);
    let totals = story.checker.totals();
    assert_eq!((totals.deleted, totals.run_again, totals.done), (1, 1, 1));
}

#[test]
fn a_deletion_that_nobody_asked_for_is_found() {
    let mut story = Story::new();
    story.enqueue(1).delete().drop_husk(10);
    assert_eq!(story.rules(), ["only what is seen is edited"]);
}

impl Story {
    /// The lease of a job ends with the record that it was cancelled.
    fn cancel(&mut self, n: u32, token: u64) -> &mut Self {
        let outcome = r#"{"outcome":"cancelled","#;
        let record = format!("HSETNX hworker-record-default id {outcome}{}", &envelope(n)[1..]);
        self.settle(1, token, &[&record, &format!("HINCRBY {STAT} cancelled 1")])
    }
}

#[test]
fn a_job_that_begins_after_it_was_cancelled_is_found() {
    let mut story = Story::new();
    story.enqueue(1).checker.asked(1, &Action::Cancel);
    story.reserve(1, 1, 10).run(1, 1, 10, Outcome::Dropped).cancel(1, 10);
    assert!(story.checker.violations().is_empty());
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).run(1, 1, 10, Outcome::Dropped).cancel(1, 10);
    assert_eq!(story.checker.violations()[0].rule, "only what is seen is edited");
    let mut story = Story::new();
    story.enqueue(1).checker.asked(1, &Action::Cancel);
    story.reserve(1, 1, 10).checker.is_done(1, JobState::Running, &Action::Cancel, 100 * SECOND);
    story.pass(5).run(1, 1, 10, Outcome::Success).ack(1, 10);
    assert_eq!(story.rules(), ["what is cancelled does not begin"]);
}

#[test]
fn a_worker_that_is_dead_on_the_queue_of_beats_ends_itself() {
    let dead = |queue: &str| format!("HSETNX hworker-worker-{queue}:w1.x dead 1");
    let mut story = Story::new();
    let silent = story.now / 1_000_000;
    story.change(&[&format!("ZADD hworker-workers-beats {silent} w1.x")]).pass(20);
    story.change(&[&dead("beats")]).change(&[&dead("default")]);
    let rules: Vec<_> = story.checker.violations().iter().map(|wrong| wrong.rule).collect();
    assert_eq!(rules, NONE);
    story.change(&["HSETNX hworker-worker-default:w2.x dead 1"]);
    assert_eq!(story.checker.violations()[0].rule, "only the silent are declared dead");
}

#[test]
fn a_husk_that_is_not_counted_or_not_dropped_is_found() {
    let mut story = Story::new();
    story.enqueue(1).checker.asked(1, &Action::Delete);
    assert_eq!(story.change(&[HUSK]).rules(), ["every husk is counted", "nothing is left"]);
    let mut story = Story::new();
    story.enqueue(1).checker.asked(1, &Action::Delete);
    assert_eq!(story.delete().rules(), ["nothing is left"]);
}

#[test]
fn a_failed_job_that_runs_again_twice_is_found() {
    let mut story = Story::new();
    let again = format!("LPUSH {JOBS} {}", envelope(1));
    story.enqueue(1).fail(1, 10).change(&["HDEL hworker-record-default id", &again]);
    story.reserve(1, 1, 11).run(1, 1, 11, Outcome::Success).ack(1, 11).change(&[&again]);
    assert!(story.rules().contains(&"what is settled is settled"));
}

#[test]
fn an_edit_that_is_said_to_be_done_and_is_not_is_found() {
    let mut story = Story::new();
    story.enqueue(1).reserve(1, 1, 10).run(1, 1, 10, Outcome::Success).ack(1, 10);
    story.checker.is_done(1, JobState::Waiting, &Action::Delete, 100 * SECOND);
    assert_eq!(story.rules(), ["an edit that is done is done"]);
}

impl Story {
    /// A job of a list goes to a worker.
    fn take(&mut self, worker: u32, list: &str, n: u32, token: u64) -> &mut Self {
        let job = envelope(n);
        self.told(What::Trying, n).change(&[&format!("LPUSH {JOBS}:{list} {job}")]);
        self.told(What::Accepted, n).take_again(worker, list, n, token)
    }

    fn take_again(&mut self, worker: u32, list: &str, n: u32, token: u64) -> &mut Self {
        let (pop, job) = (format!("RPOP {JOBS}:{list} 1"), envelope(n));
        let progress = format!("hworker-progress-default:w{worker}.x");
        self.change(&[&pop, &format!("HSET {progress} {token}.{list} {job}")])
    }

    fn done(&mut self, worker: u32, list: &str, n: u32, token: u64) -> &mut Self {
        self.run(worker, n, token, Outcome::Success);
        let lease = format!("HDEL hworker-progress-default:w{worker}.x {token}.{list}");
        self.change(&[&lease, &format!("HINCRBY {STAT} processed 1")])
    }
}

#[test]
fn more_at_once_than_a_limit_allows_is_found() {
    // Numbers of jobs that have a key, which is the same each time, see `jobs::limited`.
    let n = |which: u32| 23 + 64 * 30 * which;
    let mut story = Story::new();
    story.take(1, "+key=0", n(0), 10).take(2, "+key=0", n(1), 11).done(1, "+key=0", n(0), 10);
    story.take(1, "+key=0", n(2), 12).done(2, "+key=0", n(1), 11).done(1, "+key=0", n(2), 12);
    assert_eq!(story.rules(), NONE);
    let mut story = Story::new();
    for which in 0..3 {
        story.take(which % 2 + 1, "+key=0", n(which), 10 + u64::from(which));
    }
    assert_eq!(story.checker.violations()[0].rule, "no limit is exceeded");
}

#[test]
fn a_job_that_passes_another_of_its_key_is_found() {
    let n = |which: u32| 39 + 64 * 10 * which;
    let retried = |story: &mut Story| {
        story.take(1, "+order~0", n(0), 10).run(1, n(0), 10, Outcome::Error);
        let back = format!("RPUSH {JOBS}:+order~0 {}", envelope(n(0)));
        let lease = "HDEL hworker-progress-default:w1.x 10.+order~0";
        story.change(&[lease, &back, &format!("HINCRBY {STAT} retried 1")]);
    };
    let mut story = Story::new();
    retried(&mut story);
    story.take_again(2, "+order~0", n(0), 11).done(2, "+order~0", n(0), 11);
    story.take(1, "+order~0", n(1), 12).done(1, "+order~0", n(1), 12);
    assert_eq!(story.rules(), NONE);
    let mut story = Story::new();
    retried(&mut story);
    story.change(&[&format!("RPUSH {JOBS}:+order~0 {}", envelope(n(1)))]);
    story.take_again(1, "+order~0", n(1), 12);
    assert_eq!(story.checker.violations()[0].rule, "the jobs of a key keep their order");
}

#[test]
fn a_start_beyond_the_rate_is_found() {
    let mut story = Story::new();
    for which in 0..=40 {
        story.take(1, "+rate", 55 + 64 * which, 1_000_000 + 20_000 * u64::from(which));
        let rules = story.checker.violations().iter().map(|violation| violation.rule);
        let expected: &[_] = if which < 40 { &[] } else { &["no rate is exceeded"] };
        assert_eq!(rules.collect::<Vec<_>>(), expected, "{which}");
    }
}

#[test]
fn a_job_in_the_plain_list_does_not_start_and_may_not_begin_there() {
    // Somebody put them there who does not know their limits. A worker that meets one puts it where it belongs.
    let mut story = Story::new();
    for which in 0..60 {
        let n = 55 + 64 * which;
        story.enqueue(n).reserve(1, n, 1_000_000 + 1_000 * u64::from(which));
    }
    let rules = |story: &Story| -> Vec<_> {
        story.checker.violations().iter().map(|violation| violation.rule).collect()
    };
    assert_eq!(rules(&story), NONE);
    story.beat(1).body(1, 55, 1_000_000, Outcome::None);
    assert_eq!(rules(&story), ["no rate is exceeded"]);
}

#[test]
fn a_job_that_is_known_by_its_id_is_where_its_id_says() {
    let stands = |state: &str, n| format!("HSET {JOBS}:ids i{n} {state}*\n\n{}", envelope(n));
    let runs = |n| format!("HSET {JOBS}:ids i{n} r*\n\nhworker-progress-default:w1.x.10.*#i{n}");
    let mut story = Story::new();
    story.change(&[&stands("w", 11), &format!("LPUSH {JOBS}:* i11")]);
    let lease = format!("HSET hworker-progress-default:w1.x 10.*#i11 {}", envelope(11));
    story.change(&[&format!("RPOP {JOBS}:*"), &lease, &runs(11)]);
    story.run(1, 11, 10, Outcome::Error);
    let ends = "HDEL hworker-progress-default:w1.x 10.*#i11";
    let retried = format!("HINCRBY {STAT} retried 1");
    let later = "ZADD hworker-scheduled-default 5 :*#i11\n";
    story.change(&[ends, &stands("s", 11), later, &retried]);
    assert!(story.checker.violations().is_empty());
    story.change(&[&format!("HSET {JOBS}:ids i11 r*\n\nx")]);
    assert_eq!(story.checker.violations()[0].rule, "a job is in one place");
}

#[test]
fn two_jobs_that_hold_one_key_are_found() {
    let n = |which: u32| 13 + 64 * 40 * which;
    let stands = |n| format!("HSET {JOBS}:ids i{n} w*\nfwork_alone:0\n{}", envelope(n));
    let mut story = Story::new();
    story.change(&[&stands(n(0))]);
    assert!(story.checker.violations().is_empty());
    story.change(&[&stands(n(1))]);
    assert_eq!(story.checker.violations()[0].rule, "no two jobs hold one key");
}

#[test]
fn a_job_that_leaves_its_list_is_found() {
    let mut story = Story::new();
    story.take(1, "+sixes", 7, 10).run(1, 7, 10, Outcome::Error);
    let lease = "HDEL hworker-progress-default:w1.x 10.+sixes";
    let back = format!("LPUSH {JOBS} {}", envelope(7));
    story.change(&[lease, &back, &format!("HINCRBY {STAT} retried 1")]);
    assert_eq!(story.checker.violations()[0].rule, "a job keeps its list");
}
