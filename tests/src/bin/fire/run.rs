//! A run, from its first process to its verdict.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant, SystemTime};

use crate::aof::Log;
use crate::beats;
use crate::broadcasts::{self, Caller};
use crate::children;
use crate::debounced::{self, Writer};
use crate::diary::now;
use crate::faults::{Kind, Planned, schedule};
use crate::jobs::QUEUES;
use crate::operator::Operators;
use crate::options::Options;
use crate::report::{Failure, Report};
use crate::stage::{Stage, lock};
use crate::verdict::AtTheEnd;

/// How often the log and the diaries are read.
const WATCH_EVERY: Duration = Duration::from_millis(4);

/// Producers hold when so many jobs are open, and go on when it is a quarter of that.
const TOO_MANY: usize = 20_000;

/// After the faults everything comes to its end within this: longest of all, a half-open connection that captures a job for a
/// dead worker, whose inbox is looked at once a minute.
const DRAINED_WITHIN: Duration = Duration::from_secs(120);

/// Runs the suite; says whether all is as it should be.
pub(crate) fn run(options: &Options) -> Result<bool, Failure> {
    let stage = Arc::new(Stage::set(options)?);
    println!("fire: {}", options.command());
    let (planned, skipped) = plan(&stage);
    println!("{} faults within {:?}", planned.len(), options.duration);
    let start = Instant::now();
    let watcher = Watcher::start(&stage);
    beats::begin(&stage)?;
    let mut report = Report::begin(options, skipped);
    let operators = Operators::start(&stage);
    let writer = Writer::start(&stage);
    let caller = Caller::start(&stage);
    let struck = play(&stage, planned, &watcher);
    report.faults_end();
    let operated = operators.end();
    let accepted = writer.end()?;
    let drained = struck.and(operated).and_then(|()| end(&stage, &watcher, caller));
    let read = watcher.end();
    let ended = drained.and(read).and_then(|()| look_at_the_end(&stage, &accepted));
    report.conclude(&stage.checker(), start.elapsed());
    if let Some(violation) = stage.checker().violations().first() {
        let after = violation.at.saturating_sub(report.began_at()) / 1_000_000_000;
        println!("the first violation came after {after} s");
    }
    report.write()?;
    let sound = stage.checker().violations().is_empty();
    if ended.is_err() || !sound {
        stage.keep_data();
    }
    ended?;
    Ok(sound != options.until_violation)
}

/// The faults of the run, and the kinds that cannot strike here.
fn plan(stage: &Stage) -> (Vec<Planned>, Vec<&'static str>) {
    let possible = |kind: &Kind| match kind {
        Kind::DiskFull => stage.has_disk(),
        Kind::NetCut => stage.has_network(),
        Kind::ClockJump | Kind::ServerClock => stage.has_clocks(),
        _ => true,
    };
    let options = &stage.options;
    let wanted = |kind: &Kind| options.only.as_ref().is_none_or(|only| only.contains(kind));
    let kinds: Vec<_> = Kind::all().filter(wanted).collect();
    let (kinds, skipped): (Vec<_>, Vec<_>) = kinds.into_iter().partition(possible);
    let skipped = skipped.into_iter().map(Kind::name).collect();
    (schedule(options.seed, options.duration, &kinds), skipped)
}

/// Lets all faults strike, each in a thread of its own, and waits for the last.
fn play(stage: &Arc<Stage>, planned: Vec<Planned>, watcher: &Watcher) -> Result<(), Failure> {
    let start = Instant::now();
    let mut planned = planned.into_iter().peekable();
    let mut under_way: Vec<JoinHandle<Result<(), Failure>>> = Vec::new();
    let (mut holding, mut said) = (false, 0);
    while start.elapsed() < stage.options.duration {
        while let Some(fault) = planned.next_if(|fault| start.elapsed() >= fault.after) {
            let stage = Arc::clone(stage);
            under_way.push(thread::spawn(move || persist(&stage, fault, start)));
        }
        stage.look_after_workers()?;
        stage.look_after_producers()?;
        collect(&mut under_way)?;
        let (open, violations) = {
            let checker = stage.checker();
            (checker.ledger.open(), checker.violations().len())
        };
        if holding != (open > if holding { TOO_MANY / 4 } else { TOO_MANY }) {
            holding = !holding;
            tell_producers(stage, if holding { "hold" } else { "go" });
        }
        if watcher.failed() || (stage.options.until_violation && violations > 0) {
            break;
        }
        if start.elapsed().as_secs() / 10 > said {
            said += 1;
            crate::report::progress("under fire", &stage.checker(), start.elapsed());
        }
        sleep(Duration::from_millis(20));
    }
    while !under_way.is_empty() {
        stage.look_after_workers()?;
        stage.look_after_producers()?;
        collect(&mut under_way)?;
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Lets a fault strike as soon as there is someone to strike.
fn persist(stage: &Stage, fault: Planned, start: Instant) -> Result<(), Failure> {
    let said = |error: Failure| Failure::from(format!("{}: {error}", fault.kind.name()));
    while !stage.strike(fault).map_err(said)? {
        if start.elapsed() > stage.options.duration {
            return Ok(());
        }
        sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn collect(under_way: &mut Vec<JoinHandle<Result<(), Failure>>>) -> Result<(), Failure> {
    for index in (0..under_way.len()).rev() {
        if under_way[index].is_finished() {
            let ended = under_way.swap_remove(index).join();
            ended.map_err(|_| Failure::from("a fault panicked"))??;
        }
    }
    Ok(())
}

fn tell_producers(stage: &Stage, order: &str) {
    for booth in &stage.booths {
        lock(&booth.sitting).process.tell(order);
    }
}

/// Lets everything come to its end.
fn end(stage: &Stage, watcher: &Watcher, caller: Caller) -> Result<(), Failure> {
    tell_producers(stage, "stop");
    for booth in &stage.booths {
        let mut sitting = lock(&booth.sitting);
        if sitting.process.wait(Duration::from_secs(30)).is_none() {
            let number = sitting.number;
            stage.checker().wrong("producers are told something", format!("process {number}"));
        }
    }
    if stage.options.until_violation && !stage.checker().violations().is_empty() {
        return Ok(());
    }
    let give_up = Instant::now() + DRAINED_WITHIN;
    // What was enqueued last must have been read.
    sleep(Duration::from_millis(100));
    let (start, mut said) = (Instant::now(), 0);
    while stage.checker().ledger.open() > 0 && Instant::now() < give_up && !watcher.failed() {
        stage.look_after_workers()?;
        if start.elapsed().as_secs() / 10 > said {
            said += 1;
            crate::report::progress("all is to end", &stage.checker(), start.elapsed());
        }
        sleep(Duration::from_millis(20));
    }
    caller.end(stage)?;
    beats::pause(stage)?;
    for seat in &stage.seats {
        let mut sitting = lock(&seat.sitting);
        stage.checker().strikes.last_term(sitting.number, now());
        sitting.process.terminate();
        sitting.struck = true;
    }
    for seat in &stage.seats {
        let mut sitting = lock(&seat.sitting);
        let number = sitting.number;
        stage.see_off(&mut sitting.process, number);
    }
    Ok(())
}

/// Looks at what is left, when everybody has gone.
fn look_at_the_end(stage: &Stage, accepted: &BTreeMap<u32, u64>) -> Result<(), Failure> {
    let mut checker = stage.checker();
    if stage.options.until_violation && !checker.violations().is_empty() {
        return Ok(());
    }
    checker.all_is_known(now());
    drop(checker);
    beats::look(stage)?;
    debounced::look(stage, accepted);
    broadcasts::look(stage)?;
    children::look(stage);
    let left = QUEUES.map(|queue| at_the_end(stage, queue));
    let left = left.into_iter().collect::<Result<Vec<_>, _>>()?;
    stage.checker().conclude(&left);
    Ok(())
}

fn at_the_end(stage: &Stage, queue: &str) -> Result<AtTheEnd, Failure> {
    let mut redis = stage.redis();
    let mut end = AtTheEnd::default();
    for key in redis.keys("hworker-*") {
        let of_the_queue = |kind: &str| {
            let own = format!("hworker-{kind}-{queue}");
            key == own || key.starts_with(&format!("{own}:"))
        };
        if ["jobs", "progress", "inbox", "scheduled", "parked"].into_iter().any(of_the_queue) {
            // What code declares of limits stays, and what closes one until a time. Tickets of the last resume are there for a minute.
            let stays = [":control", ":timers", ":rates", ":gate", ":tables"];
            if !stays.iter().any(|end| key.ends_with(end)) {
                end.left.push((key.clone(), redis.len(&key)));
            }
        }
    }
    end.cancelled = redis.len(&format!("hworker-cancelled-{queue}"));
    end.failed = redis.len(&format!("hworker-failed-{queue}"));
    end.broken = redis.len(&format!("hworker-broken-{queue}"));
    end.counters = redis.try_ask(&["HGETALL", &format!("hworker-stat-{queue}")])?;
    Ok(end)
}

/// Reads the log of the server and the diaries of the processes all the time.
struct Watcher {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Failure>>,
}

impl Watcher {
    fn start(stage: &Arc<Stage>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stage, told) = (Arc::clone(stage), Arc::clone(&stop));
        Self { stop, thread: thread::spawn(move || watch(&stage, &told)) }
    }

    fn failed(&self) -> bool {
        self.thread.is_finished()
    }

    fn end(self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().map_err(|_| Failure::from("the watcher panicked"))?
    }
}

fn watch(stage: &Stage, stop: &AtomicBool) -> Result<(), Failure> {
    let mut log = Log::of(&stage.data());
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
    stage.checker().plain.wall_is_ahead(wall as i128 - i128::from(now()));
    let (mut ticked, mut looked) = (Instant::now(), Instant::now());
    loop {
        let last = stop.load(Ordering::Acquire);
        // Before the log: then what led to these notes is in what is read of that.
        let mut notes = Vec::new();
        let read_at = now();
        stage.read_diaries(|process, note| notes.push((process, note)))?;
        let mut checker = stage.checker();
        checker.plain.reads_log(read_at);
        log.read(|commands| checker.changed(commands, now()))?;
        for (process, note) in notes {
            checker.noted(process, note, now());
        }
        if ticked.elapsed() > Duration::from_millis(100) {
            ticked = Instant::now();
            // What ended later may have notes that are not read yet, however long the log took.
            checker.tick(read_at);
        }
        if looked.elapsed() > Duration::from_secs(5) {
            looked = Instant::now();
            checker.look_for_stuck(now());
        }
        drop(checker);
        if last {
            return Ok(());
        }
        sleep(WATCH_EVERY);
    }
}
