//! A private server for one test, alone or in a [`Deployment`].

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hworker::embedded::{Server, ServerBuilder};
use hworker::{Client, Inspect, JobId};
use tempfile::TempDir;

use crate::deployment::{Around, Deployment, with_user};
use crate::eventually::{eventually, eventually_async};
use crate::jobs::{Act, act};
use crate::redis_side::RedisSide;
use crate::runs::{Run, Runs};
use crate::several::directory;

/// The key of the examples of `docs/wire-format.md`, and its name.
pub const DOCUMENTED_KEY: (&str, [u8; 32]) = {
    let mut key = [0; 32];
    let mut index = 0;
    while index < key.len() {
        key[index] = index as u8;
        index += 1;
    }
    ("2026-11", key)
};

/// The server programs of `HWORKER_TEST_SERVERS` (paths separated by `:` or `,`), the first of which every test uses and
/// all of which the tests of the matrix use. Without the variable: what the library finds.
pub fn servers() -> Vec<Option<PathBuf>> {
    let listed = std::env::var("HWORKER_TEST_SERVERS").unwrap_or_default();
    let paths: Vec<_> = listed.split([':', ',']).filter(|path| !path.is_empty()).collect();
    if paths.is_empty() { vec![None] } else { paths.iter().map(|path| Some(path.into())).collect() }
}

/// The program of that name: one of `HWORKER_TEST_SERVERS`, in a Python environment of its name in `.cache`, on the `PATH`, or in
/// `.cache/servers`. `None`, with a word, where there is none; an error where `HWORKER_MATRIX=required`.
pub fn program(name: &str) -> Option<PathBuf> {
    let is_it = |path: &PathBuf| path.file_name().is_some_and(|file| file == name) && path.exists();
    let listed = servers().into_iter().flatten();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_the_path = std::env::split_paths(&path).map(|dir| dir.join(name)).collect::<Vec<_>>();
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache");
    // Of the version that is known to be right, unlike one on the path.
    let pinned = cache.join(name).join("bin").join(name);
    let cached = cache.join("servers").join(name);
    let found = listed.chain([pinned]).chain(on_the_path).chain([cached]).find(is_it);
    if found.is_none() {
        let required = std::env::var("HWORKER_MATRIX").is_ok_and(|matrix| matrix == "required");
        assert!(!required, "{name} is missing, and HWORKER_MATRIX=required");
        eprintln!("skipped: {name} is not here (script/setup --matrix installs it)");
    }
    found
}

/// A private server with everything that a test asks of it. When a test fails, it prints what the server holds and what
/// the processes of the test logged.
pub struct TestServer {
    // Before the directory: it is stopped first.
    server: Mutex<Server>,
    /// What belongs to it, where it does not stand alone.
    around: Option<Mutex<Around>>,
    url: String,
    notes_url: String,
    /// The way to it past everything.
    own_url: String,
    redis: Mutex<RedisSide>,
    runs: Runs,
    client: Client,
    dir: TempDir,
    processes: AtomicUsize,
}

/// What can be set before a [`TestServer`] starts.
pub struct TestServerBuilder {
    server: ServerBuilder,
    deployment: Deployment,
    keep: Option<PathBuf>,
}

impl TestServerBuilder {
    /// Another program than the first of [`servers`].
    pub fn program(self, program: Option<&Path>) -> Self {
        match program {
            Some(program) => Self { server: self.server.program(program), ..self },
            None => self,
        }
    }

    /// An option of the server: `.arg("--maxmemory", "8mb")`.
    pub fn arg(self, name: &str, value: &str) -> Self {
        Self { server: self.server.arg(name, value), ..self }
    }

    /// Whether what the server holds survives its end.
    pub fn append_only(self) -> Self {
        let server = self.server.append_only(true).arg("--appendfsync", "always");
        Self { server, ..self }
    }

    /// One server, whatever `HWORKER_TEST_DEPLOYMENT` says.
    pub fn alone(self) -> Self {
        Self { deployment: Deployment::Single, ..self }
    }

    /// Leaves the logs of the test's processes there, if it is said where.
    pub fn keep_in(self, dir: Option<&Path>) -> Self {
        Self { keep: dir.map(Path::to_owned), ..self }
    }

    /// Starts it.
    pub fn start(self) -> TestServer {
        crate::show_log();
        let (server, around) = self.deployment.start(self.server);
        let own_url = server.url();
        let url = around.as_ref().map_or_else(|| own_url.clone(), |around| around.url.clone());
        let notes_url = around.as_ref().map_or_else(|| own_url.clone(), Around::notes_url);
        let redis = match &around {
            Some(around) => around.redis(&own_url),
            None => RedisSide::new(&own_url),
        };
        TestServer {
            redis: Mutex::new(redis),
            runs: Runs::new(&notes_url),
            client: Client::new(url.clone()).expect("the client of a test's server"),
            server: Mutex::new(server),
            around: around.map(Mutex::new),
            url,
            notes_url,
            own_url,
            dir: directory("workers", self.keep.as_deref()),
            processes: AtomicUsize::new(0),
        }
    }
}

impl TestServer {
    /// A server that keeps nothing on disk.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// The same, and one server whatever `HWORKER_TEST_DEPLOYMENT` says.
    pub fn alone() -> Self {
        Self::builder().alone().start()
    }

    /// What can be set before it starts.
    pub fn builder() -> TestServerBuilder {
        let first = servers().into_iter().next().flatten();
        let deployment = Deployment::asked_for();
        let builder = TestServerBuilder { server: Server::builder(), deployment, keep: None };
        builder.program(first.as_deref())
    }

    /// Its URL, as hworker takes it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL of the server where bodies note their runs: this one, if it stands alone.
    pub fn notes_url(&self) -> &str {
        &self.notes_url
    }

    /// Its URL for a user, who is made here and may do everything with these keys, and the database that it names.
    pub fn url_of_user(&self, user: &str, password: &str, keys: &str) -> (String, u8) {
        let (password_is, may) = (format!(">{password}"), format!("~{keys}"));
        let words = ["ACL", "SETUSER", user, "on", &password_is, &may, "&*", "+@all"];
        let _: String = self.redis().ask(&words);
        for mut other in self.around().iter().flat_map(|around| around.others()) {
            let _: String = other.ask(&words);
        }
        let socket = self.process().socket().to_owned();
        with_user(self.around().as_deref(), &socket, user, password)
    }

    /// A URL of hworker by which it comes to the server through what listens on this socket and this port.
    pub(crate) fn url_through(&self, socket: &Path, port: impl FnOnce(u16) -> u16) -> String {
        match self.around() {
            None => format!("redis+unix://{}", socket.display()),
            Some(around) => around.url_through(port(around.port())),
        }
    }

    fn around(&self) -> Option<MutexGuard<'_, Around>> {
        let around = self.around.as_ref()?;
        Some(around.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another server takes over the queue in good order, where there is one: the sentinels make the replica the master, or
    /// the slot moves to another master. From the next time on it moves back.
    pub fn move_on(&self) {
        if let Some(mut around) = self.around() {
            around.move_on(&self.own_url);
            *self.redis() = around.redis(&self.own_url);
        }
    }

    /// The server's process, to kill, stop and start it.
    pub fn process(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the server again, with the same address; what it keeps on disk is there again.
    pub fn restart(&self) {
        self.process().restart().unwrap_or_else(|error| panic!("{error}"));
        self.redis().wait_until_up(Duration::from_secs(10));
    }

    /// The server past hworker.
    pub fn redis(&self) -> MutexGuard<'_, RedisSide> {
        self.redis.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client of hworker.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A client with keys for encrypted arguments, the first one for writing.
    pub fn client_with_keys(&self, keys: &[(&str, [u8; 32])]) -> Client {
        let builder = Client::builder().redis_url(self.url());
        let builder = keys.iter().fold(builder, |to, (name, key)| to.encryption_key(*name, key));
        builder.build().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The queue `default` as hworker sees it.
    pub fn inspect(&self) -> Inspect {
        self.client.inspect("default")
    }

    /// Where bodies note their runs.
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Enqueues a job [`act`](fn@crate::act).
    pub async fn enqueue(&self, name: &str, plan: Vec<Vec<Act>>) -> JobId {
        let job = act::with(name.into(), plan).on(&self.client);
        job.enqueue().await.unwrap_or_else(|error| panic!("{error}\n{}", self.report()))
    }

    /// What was noted under a name, in the order of the server's clock.
    pub fn runs_of(&self, name: &str) -> Vec<Run> {
        self.runs.of(name)
    }

    /// How many bodies began under a name.
    pub fn begun(&self, name: &str) -> usize {
        self.runs_of(name).iter().filter(|run| run.what == "begin").count()
    }

    /// How many bodies came to their end under a name.
    pub fn ended(&self, name: &str) -> usize {
        self.runs_of(name).iter().filter(|run| run.what == "end").count()
    }

    /// A counter of the queue `default`: `processed`, `failed`, `retried`, `recovered`, `broken`.
    pub fn counter(&self, name: &str) -> u64 {
        let value: Option<u64> = self.redis().ask(&["HGET", "hworker-stat-default", name]);
        value.unwrap_or(0)
    }

    /// Lets bodies pass that wait at a gate.
    pub fn open(&self, gate: &str) {
        self.runs.open(gate);
    }

    /// A directory that lives as long as the test.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn next_log(&self) -> PathBuf {
        let number = self.processes.fetch_add(1, Ordering::Relaxed);
        self.dir.path().join(format!("process-{number}.log"))
    }

    /// What is left of the jobs of a queue, at one moment: every key but the registry of workers and the statistics, with how
    /// many entries it has.
    pub fn leftovers(&self, queue: &str) -> Vec<(String, u64)> {
        self.redis().leftovers(queue)
    }

    /// Waits until nothing is left of the jobs of the queue `default`.
    pub fn drained(&self, within: Duration) {
        self.eventually("nothing is left", within, || self.leftovers("default").is_empty());
    }

    /// Waits until a condition holds.
    ///
    /// # Panics
    /// When it does not within the time; with everything that the server holds.
    #[track_caller]
    pub fn eventually(&self, what: &str, within: Duration, holds: impl FnMut() -> bool) {
        eventually(what, within, || self.report(), holds);
    }

    /// Waits until a count has grown to so many, however long that takes, as long as it goes on to grow.
    ///
    /// # Panics
    /// When it has not grown for this time; with everything that the server holds.
    #[track_caller]
    pub fn reaches(
        &self,
        what: &str,
        target: usize,
        grows_within: Duration,
        mut count: impl FnMut() -> usize,
    ) {
        let mut last = 0;
        while last < target {
            let before = last;
            self.eventually(&format!("{what}: {before} of {target}"), grows_within, || {
                last = count();
                last > before
            });
        }
    }

    /// Waits until a condition holds that has to be awaited.
    ///
    /// # Panics
    /// As [`Self::eventually`].
    pub async fn eventually_async(
        &self,
        what: &str,
        within: Duration,
        holds: impl AsyncFnMut() -> bool,
    ) {
        eventually_async(what, within, || self.report(), holds).await;
    }

    /// Looks all the while that a condition goes on to hold.
    ///
    /// # Panics
    /// When it ceases to; with everything that the server holds.
    #[track_caller]
    pub fn holds(&self, what: &str, during: Duration, mut holds: impl FnMut() -> bool) {
        let until = Instant::now() + during;
        loop {
            assert!(holds(), "ceased to hold: {what}\n{}", self.report());
            if Instant::now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Everything that the server holds, and what the processes of the test logged.
    pub fn report(&self) -> String {
        // A test that fails may hold the connection, or have stopped the server.
        let mut text = format!("--- keys\n{}", RedisSide::new(&self.own_url).dump());
        for mut other in self.around().iter().flat_map(|around| around.others()) {
            let _ = write!(text, "--- keys beside\n{}", other.dump());
        }
        let mut logs: Vec<_> = std::fs::read_dir(self.dir())
            .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
            .unwrap_or_default();
        logs.sort();
        for log in logs.iter().filter(|path| path.extension().is_some_and(|end| end == "log")) {
            let lines = std::fs::read(log).unwrap_or_default();
            let lines = String::from_utf8_lossy(&lines);
            let tail: Vec<_> = lines.lines().rev().take(60).collect();
            let _ = writeln!(text, "--- {}", log.display());
            for line in tail.iter().rev() {
                let _ = writeln!(text, "{line}");
            }
        }
        text
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.process().resume();
            eprintln!("{}", self.report());
        }
    }
}
