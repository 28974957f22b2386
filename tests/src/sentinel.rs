//! A master with replicas, and three sentinels that watch them, for one test.

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use hworker::{Client, ClientBuilder, JobId, Registry, Worker, WorkerBuilder};
use tempfile::TempDir;

use crate::jobs::{Act, act};
use crate::node::{Node, any_program};
use crate::process::Process;
use crate::redis_side::RedisSide;
use crate::resp::read_command;
use crate::server::TestServer;

const SENTINELS: usize = 3;

/// What the sentinels call the master.
pub(crate) const NAME: &str = "jobs";

/// The user of replicas and sentinels.
const LINK: &str = "link";

/// A failover takes no longer, on a machine that is busy with other tests.
const FAILED_OVER: Duration = Duration::from_secs(40);

/// A master with its replicas, three sentinels, and a server beside them where bodies note their runs.
pub struct TestSentinels {
    servers: Vec<Node>,
    sentinels: Vec<Node>,
    notes: TestServer,
    client: Client,
    _dir: TempDir,
}

/// What can be set before [`TestSentinels`] start.
pub struct TestSentinelsBuilder {
    replicas: usize,
    program: std::path::PathBuf,
    args: Vec<String>,
}

impl TestSentinelsBuilder {
    /// How many replicas the master has; two if this is not said.
    pub fn replicas(self, replicas: usize) -> Self {
        Self { replicas, ..self }
    }

    /// Another server program.
    pub fn program(self, program: &Path) -> Self {
        Self { program: program.to_owned(), ..self }
    }

    /// An option of master and replicas.
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        self.args.extend([format!("--{name}"), value.to_owned()]);
        self
    }

    /// Starts all of them, and waits until they know one another.
    pub fn start(self) -> TestSentinels {
        crate::show_log();
        let dir = TempDir::new().expect("a directory for the servers");
        let args = ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"];
        let args = args.into_iter().chain(["--repl-diskless-sync-delay", "0"]);
        // By which replicas and sentinels come, so that they can be cut off while others are not.
        let args = args.chain(["--user", LINK, "on", ">link", "~*", "&*", "+@all"]);
        let args = args.chain(["--masteruser", LINK, "--masterauth", "link"]);
        let args: Vec<_> = args.chain(self.args.iter().map(String::as_str)).collect();
        let server = |number: usize| {
            Node::start(&self.program, dir.path().join(format!("server-{number}")), &args)
        };
        let servers: Vec<_> = (0..=self.replicas).map(server).collect();
        let port = servers[0].port().to_string();
        for replica in &servers[1..] {
            let _: String = replica.redis().ask(&["REPLICAOF", "127.0.0.1", &port]);
        }
        let lines = [
            // Less, and a busy machine would look like a dead server.
            format!("sentinel down-after-milliseconds {NAME} 2000"),
            format!("sentinel auth-user {NAME} {LINK}"),
            format!("sentinel auth-pass {NAME} link"),
            format!("sentinel parallel-syncs {NAME} {}", self.replicas.max(1)),
        ];
        let sentinels = start(&self.program, dir.path(), servers[0].port(), &lines);
        let url = url_of(&sentinels);
        let all = TestSentinels {
            servers,
            sentinels,
            notes: TestServer::alone(),
            client: Client::new(url).expect("the client of a test's sentinels"),
            _dir: dir,
        };
        all.wait_until_whole();
        all
    }
}

impl TestSentinels {
    /// A master with two replicas.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// What can be set before they start.
    pub fn builder() -> TestSentinelsBuilder {
        TestSentinelsBuilder { replicas: 2, program: any_program(), args: Vec::new() }
    }

    /// Waits until every sentinel knows the others and the replicas, which have what the master has.
    pub fn wait_until_whole(&self) {
        let replicas = self.servers.len() - 1;
        self.eventually("all know one another", FAILED_OVER, || {
            self.sentinels.iter().all(|sentinel| knows(sentinel, replicas))
        });
    }

    /// The URL of hworker for them.
    pub fn url(&self) -> String {
        url_of(&self.sentinels)
    }

    /// A client of hworker.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Settings of another client.
    pub fn client_builder(&self) -> ClientBuilder {
        Client::builder().redis_url(self.url())
    }

    /// The server beside them, with what the bodies noted.
    pub fn notes(&self) -> &TestServer {
        &self.notes
    }

    /// A worker process with every job of this crate.
    pub fn worker_process(&self, settings: &[(&str, &str)]) -> Process {
        let url = self.url();
        let mut all = vec![("HWORKER_REDIS_URL", url.as_str())];
        all.extend_from_slice(settings);
        self.notes.worker_process(&all)
    }

    /// Settings of a worker in this process that knows no job yet.
    pub fn worker(&self) -> WorkerBuilder {
        let runs = self.notes.runs().clone();
        Worker::builder().client(&self.client).registry(Registry::new()).state(runs)
    }

    /// Enqueues a job [`act`](fn@crate::act).
    pub async fn enqueue(&self, name: &str, plan: Vec<Vec<Act>>) -> JobId {
        let job = act::with(name.into(), plan).on(&self.client);
        job.enqueue().await.unwrap_or_else(|error| panic!("{error}\n{}", self.report()))
    }

    /// A server past hworker; 0 is the first master.
    pub fn redis(&self, server: usize) -> MutexGuard<'_, RedisSide> {
        let mut redis = self.servers[server].redis();
        // Sentinels end the connections of a server whose role they change.
        let _ = redis.try_ask::<redis::Value>(&["ECHO", "?"]);
        redis
    }

    /// A sentinel past hworker.
    pub fn sentinel(&self, sentinel: usize) -> MutexGuard<'_, RedisSide> {
        self.sentinels[sentinel].redis()
    }

    /// Kills a sentinel.
    pub fn kill_sentinel(&self, sentinel: usize) {
        self.sentinels[sentinel].kill();
    }

    /// Starts something that takes itself for a sentinel, and this server for the master; gives its port.
    pub fn sentinel_that_names(&self, server: usize) -> u16 {
        one_that_names(self.servers[server].port())
    }

    /// The URL of one server, past the sentinels.
    pub fn server_url(&self, server: usize) -> String {
        self.servers[server].url()
    }

    /// How many servers there are, master and replicas.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// The server that the sentinels, all of those that answer, take for the master; `None` while they differ.
    pub fn master(&self) -> Option<usize> {
        let mut masters = self.sentinels.iter().filter_map(|sentinel| {
            let port = master_of(sentinel)?;
            self.servers.iter().position(|server| server.port() == port)
        });
        let first = masters.next()?;
        masters.all(|master| master == first).then_some(first)
    }

    /// Lets the sentinels make another server the master, as for maintenance of the one that is.
    pub fn fail_over(&self) {
        self.eventually("the sentinels accept a failover", FAILED_OVER, || {
            self.sentinel(0).try_ask::<String>(&["SENTINEL", "FAILOVER", NAME]).is_ok()
        });
    }

    /// Waits until another server than `before` is the master, and gives which.
    pub fn failed_over_from(&self, before: usize) -> usize {
        let mut now = None;
        self.eventually("another server is the master", FAILED_OVER, || {
            now = self.master().filter(|master| *master != before);
            now.is_some()
        });
        now.expect("just seen")
    }

    /// Cuts a server off from replicas and sentinels, as a network would that is broken between them; clients still
    /// reach it.
    pub fn cut_off(&self, server: usize) {
        let mut redis = self.redis(server);
        let _: u64 = redis.ask(&["ACL", "DELUSER", LINK]);
        // A sentinel that may not be who it is goes on as everybody, and asks for a sign of life.
        let _: String = redis.ask(&["ACL", "SETUSER", "default", "-ping"]);
    }

    /// Lets replicas and sentinels reach a server again.
    pub fn join_again(&self, server: usize) {
        let mut redis = self.servers[server].redis();
        let link = ["ACL", "SETUSER", LINK, "on", ">link", "~*", "&*", "+@all"];
        let _: String = redis.ask(&link);
        let _: String = redis.ask(&["ACL", "SETUSER", "default", "+ping"]);
    }

    /// Waits until the replicas of a master have what it has.
    pub fn wait_until_replicated(&self, master: usize) {
        let replicas = (self.servers.len() - 1).to_string();
        self.eventually("the replicas have all", FAILED_OVER, || {
            let info: String = self.redis(master).ask(&["INFO", "replication"]);
            let field = |line: &str, name: &str| {
                let (_, rest) = line.split_once(name)?;
                rest.split([',', '\r']).next()?.parse::<u64>().ok()
            };
            let mut lines = info.lines();
            let offset = lines.clone().find_map(|line| field(line, "master_repl_offset:"));
            let behind = |line: &str| field(line, "offset=").is_some_and(|at| Some(at) < offset);
            info.contains(&format!("connected_slaves:{replicas}"))
                && !lines.any(|line| line.starts_with("slave") && behind(line))
        });
    }

    /// Kills a server.
    pub fn kill(&self, server: usize) {
        self.servers[server].kill();
    }

    /// Stops a server in its tracks, or lets it go on.
    pub fn stop(&self, server: usize, stop: bool) {
        self.servers[server].stop(stop);
    }

    /// Starts a server again that was killed, with what it has on disk; the sentinels make it a replica.
    pub fn start_again(&self, server: usize) {
        self.servers[server].start_again();
    }

    /// Waits until a condition holds.
    ///
    /// # Panics
    /// When it does not within the time; with everything that the servers hold.
    #[track_caller]
    pub fn eventually(&self, what: &str, within: Duration, mut holds: impl FnMut() -> bool) {
        let give_up = Instant::now() + within;
        while !holds() {
            assert!(Instant::now() < give_up, "not within {within:?}: {what}\n{}", self.report());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Everything that the servers hold, and the ends of all logs.
    pub fn report(&self) -> String {
        self.servers.iter().chain(&self.sentinels).map(Node::report).collect()
    }
}

impl Drop for TestSentinels {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}\n{}", self.report(), self.notes.report());
        }
    }
}

/// Starts three sentinels that watch the master on this port, with these lines in their configuration too.
pub(crate) fn start(program: &Path, dir: &Path, port: u16, lines: &[String]) -> Vec<Node> {
    let sentinel = |number: usize| {
        let dir = dir.join(format!("sentinel-{number}"));
        std::fs::create_dir(&dir).expect("a directory for a sentinel");
        let conf = dir.join("sentinel.conf");
        let first = format!("sentinel monitor {NAME} 127.0.0.1 {port} 2");
        let second = format!("sentinel failover-timeout {NAME} 3000");
        let all = [&[first, second], lines].concat();
        std::fs::write(&conf, all.join("\n") + "\n").expect("written");
        let conf = conf.to_str().expect("UTF-8");
        Node::start(program, dir.clone(), &[conf, "--sentinel"])
    };
    (0..SENTINELS).map(sentinel).collect()
}

/// Whether a sentinel knows the others and so many replicas, which follow the master.
pub(crate) fn knows(sentinel: &Node, replicas: usize) -> bool {
    let mut sentinel = sentinel.redis();
    let master = sentinel.try_ask::<redis::Value>(&["SENTINEL", "MASTER", NAME]);
    let known = |field: &str, number: usize| {
        master.as_ref().is_ok_and(|said| field_of(said, field) == number.to_string())
    };
    let slaves: Vec<redis::Value> =
        sentinel.try_ask(&["SENTINEL", "REPLICAS", NAME]).unwrap_or_default();
    known("num-slaves", replicas)
        && known("num-other-sentinels", SENTINELS - 1)
        && known_flags(&master) == "master"
        && slaves.iter().all(|slave| {
            field_of(slave, "flags") == "slave" && field_of(slave, "master-link-status") == "ok"
        })
}

/// The port of the server that a sentinel takes for the master.
pub(crate) fn master_of(sentinel: &Node) -> Option<u16> {
    let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME];
    let (_, port): (String, u16) = sentinel.redis().try_ask(&words).ok()?;
    Some(port)
}

/// Starts something that takes itself for a sentinel, and what listens on this port for the master; gives its own port.
pub(crate) fn one_that_names(named: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its number").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || name_to(stream, named));
        }
    });
    port
}

fn name_to(mut stream: TcpStream, port: u16) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(command) = read_command(&mut reader)? {
        let port = port.to_string();
        let answer = match command.words[0].to_ascii_uppercase().as_slice() {
            b"HELLO" => "%1\r\n+proto\r\n:3\r\n".to_owned(),
            b"SUBSCRIBE" => "-NOPERM no channels\r\n".to_owned(),
            b"SENTINEL" => format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len()),
            _ => "+OK\r\n".to_owned(),
        };
        stream.write_all(answer.as_bytes())?;
    }
    Ok(())
}

pub(crate) fn url_of(sentinels: &[Node]) -> String {
    let hosts: Vec<_> =
        sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
    format!("redis-sentinel://{}/{NAME}", hosts.join(","))
}

fn known_flags(said: &redis::RedisResult<redis::Value>) -> String {
    said.as_ref().map(|said| field_of(said, "flags")).unwrap_or_default()
}

/// A field of what a sentinel says of a server.
fn field_of(said: &redis::Value, field: &str) -> String {
    let pairs: Vec<(String, String)> =
        redis::FromRedisValue::from_redis_value_ref(said).unwrap_or_default();
    let value = pairs.into_iter().find(|(name, _)| name == field);
    value.map(|(_, value)| value).unwrap_or_default()
}
