//! The system that is struck: a server, workers and producers as processes, and the ways between them.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use hworker::Client;
use hworker::embedded::Server;
use hworker_tests::{Clock, Process, Proxy, RedisSide};
use tempfile::TempDir;

use crate::beats;
use crate::checker::Checker;
use crate::diary::{Note, Reader, What, now};
use crate::jobs::{Plan, QUEUES, work, work_plain};
use crate::options::Options;
use crate::report::Failure;
use crate::room::{self, Network, PORT};
use crate::tally::OF_A_PRODUCER;

/// Slots of a worker: long jobs alone take about sixty of them.
const SLOTS: &str = "90";

/// How long a worker that is told to end lets its jobs run.
const GRACE: &str = "3s";

/// How many workers get a network, a clock of their own, or `cancel_on_disconnect`.
const OF_EACH_SORT: usize = 2;

const PRODUCERS: usize = 3;

/// How a worker reaches the server.
pub(crate) enum Way {
    Proxy(Proxy),
    Network(Network),
}

/// A place for a worker. When one dies, the next takes it.
pub(crate) struct Seat {
    pub(crate) way: Way,
    pub(crate) clock: Option<Clock>,
    cancel_on_disconnect: bool,
    pub(crate) sitting: Mutex<Sitting>,
}

/// A process on its seat.
pub(crate) struct Sitting {
    pub(crate) process: Process,
    /// Its number among all processes of the run.
    pub(crate) number: usize,
    /// A fault that lasts holds it.
    pub(crate) struck: bool,
}

/// A place for a producer.
pub(crate) struct Booth {
    pub(crate) proxy: Proxy,
    pub(crate) sitting: Mutex<Sitting>,
}

/// All of it.
pub(crate) struct Stage {
    pub(crate) server: Mutex<Server>,
    pub(crate) servers_clock: Option<Clock>,
    pub(crate) seats: Vec<Seat>,
    pub(crate) booths: Vec<Booth>,
    checker: Mutex<Checker>,
    diaries: Mutex<Vec<(usize, Reader)>>,
    ended: Mutex<Vec<usize>>,
    processes: AtomicUsize,
    own_jobs: AtomicUsize,
    /// Held by a fault of the server; when the last was over.
    pub(crate) turn: Mutex<Option<Instant>>,
    client: Client,
    url: String,
    home: Home,
    pub(crate) options: Options,
}

/// Where everything is written.
struct Home {
    dir: PathBuf,
    /// Removed at the end.
    _temporary: Option<TempDir>,
    /// Whether the disk of the server can be filled.
    disk: bool,
}

impl Home {
    fn new(options: &Options) -> Result<Self, Failure> {
        let temporary = if options.keep.is_none() { Some(TempDir::new()?) } else { None };
        let dir = match (&options.keep, &temporary) {
            (Some(dir), _) => dir.clone(),
            (None, Some(temporary)) => temporary.path().to_owned(),
            (None, None) => return Err("there is nowhere to write".into()),
        };
        for part in ["data", "diaries", "logs", "memory"] {
            // Diaries of an earlier run would be read as those of this one.
            if dir.join(part).exists() {
                return Err(format!("{} is of an earlier run", dir.display()).into());
            }
            fs::create_dir_all(dir.join(part))?;
        }
        let disk = room::mount_disk(&dir.join("data"));
        if let Err(why) = &disk {
            eprintln!("skipped: no disk is filled: {why}");
        }
        Ok(Self { dir, disk: disk.is_ok(), _temporary: temporary })
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stage {
    /// Starts the server, the workers and the producers.
    pub(crate) fn set(options: &Options) -> Result<Self, Failure> {
        let networks = match room::enter().and_then(|()| Network::all(OF_EACH_SORT)) {
            Ok(networks) => networks,
            Err(why) => {
                eprintln!("skipped: no network is cut: {why}");
                Vec::new()
            }
        };
        let home = Home::new(options)?;
        let servers_clock = Clock::new();
        let server = start_server(options, &networks, &home, servers_clock.as_ref())?;
        let url = server.url();
        let socket = server.socket().to_owned();
        let mut stage = Self {
            client: Client::new(url.clone())?,
            url,
            server: Mutex::new(server),
            servers_clock,
            seats: Vec::new(),
            booths: Vec::new(),
            checker: Mutex::default(),
            diaries: Mutex::default(),
            ended: Mutex::default(),
            // The first number is that of this process.
            processes: AtomicUsize::new(1),
            own_jobs: AtomicUsize::new(0),
            turn: Mutex::new(None),
            home,
            options: options.clone(),
        };
        let mut ways: Vec<_> = networks.into_iter().map(Way::Network).collect();
        while ways.len() < options.workers {
            ways.push(Way::Proxy(Proxy::to(&socket)));
        }
        for (index, way) in ways.into_iter().enumerate() {
            let clock =
                (OF_EACH_SORT..2 * OF_EACH_SORT).contains(&index).then(Clock::new).flatten();
            let cancel_on_disconnect =
                options.cancel_on_disconnect || index + OF_EACH_SORT >= options.workers;
            let (process, number) =
                stage.start_worker(&way, clock.as_ref(), cancel_on_disconnect)?;
            let sitting = Mutex::new(Sitting { process, number, struck: false });
            stage.seats.push(Seat { way, clock, cancel_on_disconnect, sitting });
        }
        for _ in 0..PRODUCERS {
            let proxy = Proxy::to(&socket);
            let (process, number) = stage.start_producer(&proxy)?;
            let sitting = Mutex::new(Sitting { process, number, struck: false });
            stage.booths.push(Booth { proxy, sitting });
        }
        Ok(stage)
    }

    /// What is known so far.
    pub(crate) fn checker(&self) -> MutexGuard<'_, Checker> {
        lock(&self.checker)
    }

    /// Until the log and the diaries have been read as they are now.
    pub(crate) fn wait_for_watcher(&self) {
        let (asked, give_up) = (now(), Instant::now() + Duration::from_secs(30));
        while self.checker().plain.read <= asked && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Where jobs remember what they did.
    pub(crate) fn memory(&self) -> PathBuf {
        self.home.dir.join("memory")
    }

    /// Where the server keeps its data.
    pub(crate) fn data(&self) -> PathBuf {
        self.home.dir.join("data")
    }

    /// Copies the data of the server to where they outlive its disk, and what it logged.
    pub(crate) fn keep_data(&self) {
        let (from, to) = (self.data(), self.home.dir.join("kept"));
        let _ = Command::new("cp").arg("-r").arg(from).arg(&to).status();
        let _ = fs::write(to.join("server.log"), lock(&self.server).log());
    }

    /// Whether the server's disk can be filled.
    pub(crate) fn has_disk(&self) -> bool {
        self.home.disk
    }

    /// Whether the server is told when to rewrite its log.
    pub(crate) fn rewrites_by_hand(&self) -> bool {
        self.home.disk
    }

    /// Whether there is a network that can be cut.
    pub(crate) fn has_network(&self) -> bool {
        self.seats.iter().any(|seat| matches!(seat.way, Way::Network(_)))
    }

    /// Whether there are clocks that can be set.
    pub(crate) fn has_clocks(&self) -> bool {
        self.seats.iter().any(|seat| seat.clock.is_some())
    }

    /// The server, past everything.
    pub(crate) fn redis(&self) -> RedisSide {
        RedisSide::new(&self.url)
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Hands over what was written into diaries since.
    pub(crate) fn read_diaries(&self, mut each: impl FnMut(usize, Note)) -> std::io::Result<()> {
        let ended = std::mem::take(&mut *lock(&self.ended));
        let mut diaries = lock(&self.diaries);
        for (number, reader) in diaries.iter_mut() {
            reader.read(|note| each(*number, note))?;
        }
        diaries.retain(|(number, _)| !ended.contains(number));
        Ok(())
    }

    /// Seats a new worker in place of one that is gone.
    pub(crate) fn replace(&self, seat: &Seat, sitting: &mut Sitting) -> Result<Process, Failure> {
        let started =
            self.start_worker(&seat.way, seat.clock.as_ref(), seat.cancel_on_disconnect)?;
        let gone = std::mem::replace(&mut sitting.process, started.0);
        sitting.number = started.1;
        Ok(gone)
    }

    /// Seats a new producer in place of one that is gone.
    pub(crate) fn replace_producer(
        &self,
        booth: &Booth,
        sitting: &mut Sitting,
    ) -> Result<(), Failure> {
        (sitting.process, sitting.number) = self.start_producer(&booth.proxy)?;
        Ok(())
    }

    /// A process is gone: its diary has come to its end.
    pub(crate) fn gone(&self, number: usize) {
        lock(&self.ended).push(number);
    }

    fn start_worker(
        &self,
        way: &Way,
        clock: Option<&Clock>,
        cancel_on_disconnect: bool,
    ) -> Result<(Process, usize), Failure> {
        let program = std::env::current_exe()?;
        let (mut command, url) = match way {
            Way::Proxy(proxy) => (Command::new(&program), proxy.url()),
            Way::Network(network) => {
                (network.command(&program), format!("redis://{}:{PORT}", network.address()))
            }
        };
        let number = self.processes.fetch_add(1, Ordering::Relaxed);
        command
            .arg("worker")
            .env("HWORKER_NAME", format!("w{number}"))
            .env(
                "HWORKER_QUEUES",
                QUEUES.map(|queue| format!("+{queue}")).join(",") + ",+" + beats::QUEUE,
            )
            .env("HWORKER_CONCURRENCY", SLOTS)
            .env("HWORKER_SHUTDOWN_GRACE", GRACE)
            .env("HWORKER_UNKNOWN_FOR", "12s")
            .env("HWORKER_TEST_BUILD", ["new", "old", "new", "changed"][number % 4])
            .env("HWORKER_FAILED_LIMIT", "10000000")
            .env("HWORKER_BROKEN_LIMIT", "10000000")
            .env("HWORKER_CANCEL_ON_DISCONNECT", cancel_on_disconnect.to_string());
        if cancel_on_disconnect {
            self.checker().stops_when_cut(number);
        }
        if let Some(clock) = clock {
            clock.rule(&mut command);
        }
        Ok((self.start(command, number, &url)?, number))
    }

    fn start_producer(&self, proxy: &Proxy) -> Result<(Process, usize), Failure> {
        let number = self.processes.fetch_add(1, Ordering::Relaxed);
        let seed = self.options.seed.wrapping_add(number as u64);
        let rate = self.options.rate / PRODUCERS as u32;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("producer").arg((number as u32 * OF_A_PRODUCER).to_string());
        command.args([seed.to_string(), rate.to_string()]);
        Ok((self.start(command, number, &proxy.url())?, number))
    }

    fn start(&self, mut command: Command, number: usize, url: &str) -> Result<Process, Failure> {
        let dir = &self.home.dir;
        let diary = dir.join("diaries").join(number.to_string());
        lock(&self.diaries).push((number, Reader::open(&diary)?));
        command
            .env("HWORKER_REDIS_URL", url)
            .env("HWORKER_TEST_DIARY", diary)
            .env("HWORKER_TEST_MEMORY", dir.join("memory"))
            .env("NO_COLOR", "1")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        if number % 4 == 3 {
            // Nobody reads the log of one in four, which says much.
            command
                .env("HWORKER_LOG", "hworker=debug")
                .env("HWORKER_TEST_UNREAD", "1")
                .stderr(Stdio::piped());
        } else {
            let log = File::create(dir.join("logs").join(format!("{number}.log")))?;
            command.env("HWORKER_LOG", "hworker=info").stderr(log);
        }
        Ok(Process::start(command))
    }

    /// Enqueues a job of this process's own.
    pub(crate) fn enqueue(&self, plan: Plan) {
        let own = self.own_jobs.fetch_add(1, Ordering::Relaxed) as u32;
        // A number by which it has no limits and no priority.
        let n = 64 * own + if own.is_multiple_of(2) { 6 } else { 15 };
        let note = |what| {
            let note = Note::of(what, n, 1);
            self.checker().noted(0, note, note.at);
        };
        note(What::Trying);
        let enqueued = if n.is_multiple_of(2) {
            work_plain::with(n, plan, String::new()).on(&self.client).enqueue_blocking()
        } else {
            work::with(n, plan, String::new()).on(&self.client).enqueue_blocking()
        };
        match enqueued {
            Ok(_) => note(What::Accepted),
            Err(hworker::Error::Uncertain { .. }) => note(What::Uncertain),
            Err(_) => note(What::Refused),
        }
    }

    /// Seats new workers where one died, which only bodies that abort may bring about.
    pub(crate) fn look_after_workers(&self) -> Result<(), Failure> {
        for seat in &self.seats {
            let mut sitting = match seat.sitting.try_lock() {
                Ok(sitting) => sitting,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            if let Some(status) = sitting.process.exited() {
                let number = sitting.number;
                self.wait_for_watcher();
                let mut checker = self.checker();
                if status.signal() != Some(6) || !checker.strikes.aborted(number) {
                    checker
                        .wrong("no worker dies by itself", format!("process {number}: {status}"));
                }
                drop(checker);
                self.gone(number);
                self.replace(seat, &mut sitting)?;
            }
        }
        Ok(())
    }

    /// Seats new producers where one died, which none may bring about but a fault.
    pub(crate) fn look_after_producers(&self) -> Result<(), Failure> {
        for booth in &self.booths {
            let mut sitting = lock(&booth.sitting);
            if let Some(status) = sitting.process.exited() {
                let number = sitting.number;
                self.checker()
                    .wrong("no producer dies by itself", format!("process {number}: {status}"));
                self.gone(number);
                self.replace_producer(booth, &mut sitting)?;
            }
        }
        Ok(())
    }
}

fn start_server(
    options: &Options,
    networks: &[Network],
    home: &Home,
    clock: Option<&Clock>,
) -> Result<Server, Failure> {
    let listed = hworker_tests::servers().into_iter().next().flatten();
    let mut builder = Server::builder().append_only(true).data_dir(home.dir.join("data"));
    let program = options.server.clone().or(listed);
    if let Some(clock) = clock {
        // Found as it would be without the clock.
        let plain =
            program.map_or_else(Server::builder, |program| Server::builder().program(program));
        let program = plain.start()?.program().to_owned();
        builder = builder.program(clock.wrap(&program)?);
    } else if let Some(program) = program {
        builder = builder.program(program);
    }
    builder = builder.arg("--appendfsync", "always").arg("--enable-debug-command", "yes");
    if home.disk {
        builder = builder.arg("--auto-aof-rewrite-percentage", "0");
    }
    if !networks.is_empty() {
        let addresses: Vec<_> = networks.iter().map(Network::address).collect();
        builder = builder.arg("--port", PORT.to_string()).arg("--protected-mode", "no");
        builder = builder.arg("--bind", format!("127.0.0.1 {}", addresses.join(" ")));
    }
    Ok(builder.start()?)
}
