//! How each fault strikes.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::sync::MutexGuard;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fastrand::Rng;
use hworker_tests::{Fault, Process, Proxy, RedisSide};

use crate::diary::now;
use crate::faults::{APART, Kind, Planned};
use crate::jobs::Plan;
use crate::report::Failure;
use crate::stage::{Seat, Sitting, Stage, Way, lock};

/// A worker that was told to end has ended after its grace, 8 s more where it does not reach the server, and what a busy machine
/// takes.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// A request that is to be lost comes within this, or it is not waited for.
const COMES_WITHIN: Duration = Duration::from_secs(5);

/// Whether the fault struck; where there was nobody to strike, it is to be tried again.
pub(crate) type Struck = Result<bool, Failure>;

impl Stage {
    /// Lets a fault strike, and gives when it is over.
    pub(crate) fn strike(&self, fault: Planned) -> Struck {
        let mut rng = Rng::with_seed(fault.random);
        if fault.kind.is_of_the_server() {
            // What came late must not be too near to the next.
            let mut turn = lock(&self.turn);
            let rest = turn.map_or(Duration::ZERO, |last| APART.saturating_sub(last.elapsed()));
            sleep(rest);
            let struck = self.strike_now(&fault, &mut rng);
            *turn = Some(Instant::now());
            return struck;
        }
        self.strike_now(&fault, &mut rng)
    }

    fn strike_now(&self, fault: &Planned, rng: &mut Rng) -> Struck {
        match fault.kind {
            Kind::WorkerKill => self.kill_worker(rng),
            Kind::Abort => self.abort(fault, rng),
            Kind::Stop => self.stop(fault, rng),
            Kind::Cut | Kind::NetCut => self.cut(fault, rng),
            Kind::SlowLine => Ok(self.slow_down(fault, rng)),
            Kind::Term => self.terminate(rng),
            Kind::ClockJump => Ok(self.set_a_clock(rng)),
            Kind::ServerClock => Ok(self.set_the_servers_clock(rng)),
            Kind::ProducerKill => self.kill_producer(rng),
            Kind::HalfOpen | Kind::LoseRequest | Kind::LoseReply | Kind::Delay => {
                Ok(self.lose(fault, rng))
            }
            Kind::ClientKill | Kind::ScriptFlush | Kind::Pause | Kind::Stall | Kind::Full => {
                self.tell_the_server(fault, rng)
            }
            Kind::DiskFull => self.fill_the_disk(fault),
            Kind::ServerKill => self.kill_the_server(fault, rng),
            Kind::Busy => Ok(true),
        }
    }

    fn begin(&self, kind: Kind, process: Option<usize>) -> usize {
        self.checker().strike(kind, process, now())
    }

    fn end(&self, strike: usize) {
        let at = now();
        self.checker().strikes.end(strike, at);
    }

    /// A worker that no fault holds, of those that this is about.
    fn free(
        &self,
        rng: &mut Rng,
        about: impl Fn(&Seat) -> bool,
    ) -> Option<(&Seat, MutexGuard<'_, Sitting>)> {
        let from = rng.usize(..self.seats.len());
        let seats = self.seats.iter().cycle().skip(from).take(self.seats.len());
        seats.filter(|seat| about(seat)).find_map(|seat| {
            let sitting = seat.sitting.try_lock().ok()?;
            (!sitting.struck).then_some((seat, sitting))
        })
    }

    /// The same for a fault that lasts: some must be left to notice.
    fn free_for_long(
        &self,
        rng: &mut Rng,
        about: impl Fn(&Seat) -> bool,
    ) -> Option<(&Seat, MutexGuard<'_, Sitting>)> {
        let struck = |seat: &&Seat| seat.sitting.try_lock().map_or(true, |sitting| sitting.struck);
        let enough = self.seats.iter().filter(struck).count() < self.seats.len() / 2;
        let (seat, mut sitting) = if enough { self.free(rng, about) } else { None }?;
        sitting.struck = true;
        Some((seat, sitting))
    }

    fn kill_worker(&self, rng: &mut Rng) -> Struck {
        let Some((seat, mut sitting)) = self.free(rng, |_| true) else { return Ok(false) };
        let strike = self.begin(Kind::WorkerKill, Some(sitting.number));
        sitting.process.kill();
        self.end(strike);
        self.gone(sitting.number);
        sleep(Duration::from_millis(rng.u64(0..1_000)));
        self.replace(seat, &mut sitting)?;
        Ok(true)
    }

    fn kill_producer(&self, rng: &mut Rng) -> Struck {
        let booth = &self.booths[rng.usize(..self.booths.len())];
        let mut sitting = lock(&booth.sitting);
        let strike = self.begin(Kind::ProducerKill, None);
        sitting.process.kill();
        self.end(strike);
        self.gone(sitting.number);
        self.replace_producer(booth, &mut sitting)?;
        Ok(true)
    }

    /// The strike is known when a body notes it.
    #[allow(clippy::unnecessary_wraps)] // as the others
    fn abort(&self, fault: &Planned, rng: &mut Rng) -> Struck {
        // A job that kills whoever runs it takes four workers, one after the other.
        let early = fault.after + Duration::from_secs(60) < self.options.duration;
        let for_ever = early && rng.u8(..8) == 0;
        self.enqueue(if for_ever { Plan::Aborts } else { Plan::AbortsOnce });
        Ok(true)
    }

    #[allow(clippy::unnecessary_wraps)] // as the others
    fn stop(&self, fault: &Planned, rng: &mut Rng) -> Struck {
        let Some((seat, sitting)) = self.free_for_long(rng, |_| true) else { return Ok(false) };
        let strike = self.begin(Kind::Stop, Some(sitting.number));
        sitting.process.stop();
        drop(sitting);
        sleep(fault.lasts);
        let mut sitting = lock(&seat.sitting);
        // Before it runs again: what it does then is explained.
        self.end(strike);
        sitting.process.go_on();
        sitting.struck = false;
        Ok(true)
    }

    fn cut(&self, fault: &Planned, rng: &mut Rng) -> Struck {
        let by_network = fault.kind == Kind::NetCut;
        let about = |seat: &Seat| matches!(seat.way, Way::Network(_)) == by_network;
        let Some((seat, sitting)) = self.free_for_long(rng, about) else { return Ok(false) };
        let strike = self.begin(fault.kind, Some(sitting.number));
        drop(sitting);
        let cut = |yes| match &seat.way {
            Way::Proxy(proxy) => {
                proxy.unreachable(yes);
                Ok(())
            }
            Way::Network(network) => network.cut(yes),
        };
        cut(true)?;
        sleep(fault.lasts);
        cut(false)?;
        self.end(strike);
        lock(&seat.sitting).struck = false;
        Ok(true)
    }

    fn slow_down(&self, fault: &Planned, rng: &mut Rng) -> bool {
        let about = |seat: &Seat| matches!(seat.way, Way::Proxy(_));
        let Some((seat, sitting)) = self.free_for_long(rng, about) else { return false };
        let Way::Proxy(proxy) = &seat.way else { return false };
        let strike = self.begin(fault.kind, Some(sitting.number));
        drop(sitting);
        proxy.limit_rates(rng.u32(50_000..400_000), rng.u32(50_000..400_000));
        sleep(fault.lasts);
        proxy.limit_rates(0, 0);
        self.end(strike);
        lock(&seat.sitting).struck = false;
        true
    }

    fn terminate(&self, rng: &mut Rng) -> Struck {
        let Some((seat, mut sitting)) = self.free_for_long(rng, |_| true) else { return Ok(false) };
        let number = sitting.number;
        let strike = self.begin(Kind::Term, Some(number));
        sitting.process.terminate();
        self.end(strike);
        let mut leaving = self.replace(seat, &mut sitting)?;
        drop(sitting);
        self.see_off(&mut leaving, number);
        lock(&seat.sitting).struck = false;
        Ok(true)
    }

    /// A process that was told to end does so in time, with code 0; one that a body ends meanwhile has its excuse.
    pub(crate) fn see_off(&self, leaving: &mut Process, number: usize) {
        let status = leaving.wait(ENDS_WITHIN);
        self.wait_for_watcher();
        let mut checker = self.checker();
        let aborted = checker.strikes.aborted(number);
        match status {
            Some(status) if status.code() == Some(0) => {}
            Some(status) if status.signal() == Some(6) && aborted => {}
            Some(status) => {
                checker.wrong("SIGTERM ends with 0", format!("process {number}: {status}"));
            }
            None => checker.wrong(
                "SIGTERM ends with 0",
                format!("process {number} runs {ENDS_WITHIN:?} later"),
            ),
        }
        drop(checker);
        self.gone(number);
    }

    fn set_a_clock(&self, rng: &mut Rng) -> bool {
        let Some((seat, sitting)) = self.free(rng, |seat| seat.clock.is_some()) else {
            return false;
        };
        let strike = self.begin(Kind::ClockJump, Some(sitting.number));
        if let Some(clock) = &seat.clock {
            clock.set(rng.i64(-7_200..7_200));
        }
        self.end(strike);
        true
    }

    /// Forward and back by so little that no delayed job waits for long.
    fn set_the_servers_clock(&self, rng: &mut Rng) -> bool {
        let Some(clock) = &self.servers_clock else { return false };
        let strike = self.begin(Kind::ServerClock, None);
        clock.set(rng.i64(-3..=3));
        self.end(strike);
        true
    }

    /// A request or a reply of a worker or a producer.
    fn lose(&self, fault: &Planned, rng: &mut Rng) -> bool {
        let mut request =
            *rng.choice(&["reserve", "reserve", "settle", "heartbeat"]).unwrap_or(&"settle");
        let what = match fault.kind {
            Kind::HalfOpen if rng.bool() => Fault::HangRequest,
            Kind::HalfOpen => Fault::HangReply,
            Kind::LoseRequest => Fault::LoseRequest,
            Kind::LoseReply => Fault::LoseReply,
            _ => Fault::Delay(fault.lasts),
        };
        let nth = rng.u32(1..6);
        if rng.u8(..4) == 0 {
            request = if rng.bool() { "LPUSH" } else { "schedule" };
            let booth = &self.booths[rng.usize(..self.booths.len())];
            let strike = self.begin(fault.kind, None);
            arm(&booth.proxy, nth, request, what);
            self.end(strike);
            return true;
        }
        // What is late and was taken for lost is worth more than what is only late.
        let rarely = if fault.kind == Kind::Delay { 2 } else { 4 };
        if fault.kind != Kind::HalfOpen && rng.u8(..rarely) == 0 {
            request = *rng.choice(&["BLMOVE", "release", "promote"]).unwrap_or(&"BLMOVE");
        }
        let about = |seat: &Seat| matches!(seat.way, Way::Proxy(_));
        let Some((seat, sitting)) = self.free(rng, about) else { return false };
        let number = sitting.number;
        drop(sitting);
        let Way::Proxy(proxy) = &seat.way else { return false };
        let strike = self.begin(fault.kind, Some(number));
        arm(proxy, nth, request, what);
        self.end(strike);
        true
    }

    fn tell_the_server(&self, fault: &Planned, rng: &mut Rng) -> Struck {
        let mut redis = self.redis();
        let ms = fault.lasts.as_millis().to_string();
        let strike = self.begin(fault.kind, None);
        match fault.kind {
            Kind::ScriptFlush => order(&mut redis, &["SCRIPT", "FLUSH"])?,
            Kind::Pause => {
                let which = if rng.bool() { "ALL" } else { "WRITE" };
                order(&mut redis, &["CLIENT", "PAUSE", &ms, which])?;
                sleep(fault.lasts);
            }
            Kind::Stall => {
                let seconds = fault.lasts.as_secs_f64().to_string();
                order(&mut redis, &["DEBUG", "SLEEP", &seconds])?;
            }
            Kind::Full => {
                order(&mut redis, &["CONFIG", "SET", "maxmemory", "1mb"])?;
                sleep(fault.lasts);
                order(&mut redis, &["CONFIG", "SET", "maxmemory", "0"])?;
            }
            _ => {
                let list = redis.try_ask::<String>(&["CLIENT", "LIST", "TYPE", "normal"]);
                let list = list.unwrap_or_default();
                let all = rng.bool();
                for id in list.lines().filter_map(|line| line.split(['=', ' ']).nth(1)) {
                    if all || rng.u8(..8) == 0 {
                        let _ = redis.try_ask::<u64>(&["CLIENT", "KILL", "ID", id]);
                    }
                }
            }
        }
        self.end(strike);
        Ok(true)
    }

    fn kill_the_server(&self, fault: &Planned, rng: &mut Rng) -> Struck {
        if self.rewrites_by_hand() {
            self.rewrite_the_log(rng.bool())?;
        }
        let mut server = lock(&self.server);
        let strike = self.begin(fault.kind, None);
        server.kill();
        sleep(fault.lasts);
        server.restart()?;
        self.end(strike);
        Ok(true)
    }

    /// Keeps the append-only file small. Redis 7.0 forgets at a rewrite how long its file is, until it starts again, and a disk
    /// that is full in between makes it cut the file at a wrong place; so it is only done before it is killed, or killed
    /// while it does it.
    fn rewrite_the_log(&self, whole: bool) -> Result<(), Failure> {
        let mut redis = self.redis();
        order(&mut redis, &["BGREWRITEAOF"])?;
        let give_up = Instant::now() + Duration::from_secs(10);
        let done = |redis: &mut RedisSide| {
            let info = redis.try_ask::<String>(&["INFO", "persistence"]);
            info.is_ok_and(|info| info.contains("aof_rewrite_in_progress:0"))
        };
        while whole && !done(&mut redis) && Instant::now() < give_up {
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// With `appendfsync always` a server that cannot write ends itself, which would be another fault; so it gets a second.
    fn fill_the_disk(&self, fault: &Planned) -> Struck {
        let mut redis = self.redis();
        order(&mut redis, &["CONFIG", "SET", "appendfsync", "everysec"])?;
        let strike = self.begin(fault.kind, None);
        let path = self.data().join("ballast");
        let mut ballast = File::create(&path)?;
        for size in [1 << 20, 4096] {
            while ballast.write_all(&vec![0; size]).is_ok() {}
        }
        sleep(fault.lasts);
        drop(ballast);
        std::fs::remove_file(&path)?;
        let give_up = Instant::now() + Duration::from_secs(10);
        let writes = |redis: &mut RedisSide| {
            let info = redis.try_ask::<String>(&["INFO", "persistence"]);
            info.is_ok_and(|info| info.contains("aof_last_write_status:ok"))
        };
        while !writes(&mut redis) {
            if Instant::now() > give_up {
                return Err("the server does not write again, though there is room".into());
            }
            sleep(Duration::from_millis(20));
        }
        order(&mut redis, &["CONFIG", "SET", "appendfsync", "always"])?;
        self.end(strike);
        Ok(true)
    }
}

/// Tells the server something, over a new connection where another fault has ended this one.
fn order(redis: &mut RedisSide, words: &[&str]) -> Result<(), Failure> {
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        match redis.try_ask(words) {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > give_up => {
                return Err(format!("{}: {error}", words.join(" ")).into());
            }
            Err(_) => sleep(Duration::from_millis(20)),
        }
    }
}

/// Lets the fault happen to the `nth` request of that name, and waits until it did.
fn arm(proxy: &Proxy, nth: u32, request: &str, what: Fault) {
    proxy.fault(nth, request, what);
    let give_up = Instant::now() + COMES_WITHIN;
    while !proxy.all_happened() && Instant::now() < give_up {
        sleep(Duration::from_millis(5));
    }
    if let Fault::Delay(delay) = what {
        sleep(delay);
    }
}
