//! A master with replicas, and three sentinels that watch them, for one test.

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;
use std::time::Duration;

use crate::eventually::eventually;
use crate::node::{Node, any_program};
use crate::redis_side::RedisSide;
use crate::resp::read_command;
use crate::several::{Several, directory};

const SENTINELS: usize = 3;

/// What the sentinels call the master.
pub(crate) const NAME: &str = "jobs";

/// The user of replicas and sentinels.
const LINK: &str = "link";

/// A failover takes no longer, on a machine that is busy with other tests.
const FAILED_OVER: Duration = Duration::from_secs(40);

/// A master with its replicas, three sentinels, and a server beside them where bodies note their runs.
pub struct TestSentinels {
    /// The servers, and behind them the sentinels.
    all: Several,
}

impl Deref for TestSentinels {
    type Target = Several;

    fn deref(&self) -> &Several {
        &self.all
    }
}

/// What can be set before [`TestSentinels`] start.
pub struct TestSentinelsBuilder {
    replicas: usize,
    program: PathBuf,
    args: Vec<String>,
    keep: Option<PathBuf>,
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

    /// Leaves logs and data in this directory, if there is one.
    pub fn keep_in(self, dir: Option<&Path>) -> Self {
        Self { keep: dir.map(Path::to_owned), ..self }
    }

    /// Starts all of them, and waits until they know one another.
    pub fn start(self) -> TestSentinels {
        crate::show_log();
        let keep = self.keep.as_deref();
        let dir = directory("servers", keep);
        let args = ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"];
        let args = args.into_iter().chain(["--repl-diskless-sync-delay", "0"]);
        // By which replicas and sentinels come, so that they can be cut off while others are not.
        let args = args.chain(["--user", LINK, "on", ">link", "~*", "&*", "+@all"]);
        let args = args.chain(["--masteruser", LINK, "--masterauth", "link"]);
        let args: Vec<_> = args.chain(self.args.iter().map(String::as_str)).collect();
        let server = |number: usize| {
            Node::start(&self.program, dir.path().join(format!("server-{number}")), &args)
        };
        let mut nodes: Vec<_> = (0..=self.replicas).map(server).collect();
        let master = nodes[0].port();
        for replica in &nodes[1..] {
            let _: String = replica.redis().ask(&["REPLICAOF", "127.0.0.1", &master.to_string()]);
        }
        let lines = [
            // Less, and a busy machine would look like a dead server.
            format!("sentinel down-after-milliseconds {NAME} 2000"),
            format!("sentinel auth-user {NAME} {LINK}"),
            format!("sentinel auth-pass {NAME} link"),
            format!("sentinel parallel-syncs {NAME} {}", self.replicas.max(1)),
        ];
        let sentinels = start(&self.program, dir.path(), master, &lines);
        let url = url_of(&sentinels);
        nodes.extend(sentinels);
        let all = TestSentinels { all: Several::new(nodes, url, dir, keep) };
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
        TestSentinelsBuilder { replicas: 2, program: any_program(), args: Vec::new(), keep: None }
    }

    /// Waits until every sentinel knows the others and the replicas, which have what the master has.
    pub fn wait_until_whole(&self) {
        self.eventually("all know one another", FAILED_OVER, || {
            self.sentinels().iter().all(|sentinel| knows(sentinel, self.servers() - 1))
        });
    }

    fn sentinels(&self) -> &[Node] {
        &self.nodes[self.servers()..]
    }

    /// A server past hworker; 0 is the first master.
    pub fn redis(&self, server: usize) -> MutexGuard<'_, RedisSide> {
        let mut redis = self.nodes[server].redis();
        connected(&mut redis);
        redis
    }

    /// A sentinel past hworker.
    pub fn sentinel(&self, sentinel: usize) -> MutexGuard<'_, RedisSide> {
        self.sentinels()[sentinel].redis()
    }

    /// Kills a sentinel.
    pub fn kill_sentinel(&self, sentinel: usize) {
        self.sentinels()[sentinel].kill();
    }

    /// Starts something that takes itself for a sentinel, and this server for the master; gives its port.
    pub fn sentinel_that_names(&self, server: usize) -> u16 {
        one_that_names(self.nodes[server].port())
    }

    /// The URL of one server, past the sentinels.
    pub fn server_url(&self, server: usize) -> String {
        self.nodes[server].url()
    }

    /// How many servers there are, master and replicas.
    pub fn servers(&self) -> usize {
        self.nodes.len() - SENTINELS
    }

    /// The server that the sentinels, all of those that answer, take for the master; `None` while they differ.
    pub fn master(&self) -> Option<usize> {
        let port = master_of_all(self.sentinels())?;
        self.nodes.iter().position(|server| server.port() == port)
    }

    /// Another server takes over from this master in good order, without a loss; gives which.
    pub fn hand_over(&self, master: usize) -> usize {
        hand_over(&mut self.redis(master), self.servers() - 1, self.sentinels());
        self.failed_over_from(master)
    }

    /// Lets the sentinels make another server the master, as for maintenance of the one that is.
    pub fn fail_over(&self) {
        self.eventually("the sentinels accept a failover", FAILED_OVER, || {
            accepts_failover(&self.sentinels()[0])
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
        let mut redis = self.nodes[server].redis();
        let link = ["ACL", "SETUSER", LINK, "on", ">link", "~*", "&*", "+@all"];
        let _: String = redis.ask(&link);
        let _: String = redis.ask(&["ACL", "SETUSER", "default", "+ping"]);
    }

    /// Waits until the replicas of a master have what it has.
    pub fn wait_until_replicated(&self, master: usize) {
        self.eventually("the replicas have all", FAILED_OVER, || {
            is_replicated(&mut self.redis(master), self.servers() - 1)
        });
    }

    /// Kills a server.
    pub fn kill(&self, server: usize) {
        self.nodes[server].kill();
    }

    /// Stops a server in its tracks, or lets it go on.
    pub fn stop(&self, server: usize, stop: bool) {
        self.nodes[server].stop(stop);
    }

    /// Starts a server again that was killed, with what it has on disk; the sentinels make it a replica.
    pub fn start_again(&self, server: usize) {
        self.nodes[server].start_again();
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
fn master_of(sentinel: &Node) -> Option<u16> {
    let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME];
    let (_, port): (String, u16) = sentinel.redis().try_ask(&words).ok()?;
    Some(port)
}

/// The port of the server that these sentinels, all of those that answer, take for the master; `None` while they differ.
fn master_of_all(sentinels: &[Node]) -> Option<u16> {
    let mut masters = sentinels.iter().filter_map(master_of);
    let first = masters.next()?;
    masters.all(|master| master == first).then_some(first)
}

/// Connects again where the connection has ended: sentinels end those of a server whose role they change.
fn connected(redis: &mut RedisSide) {
    let _ = redis.try_ask::<redis::Value>(&["ECHO", "?"]);
}

/// Whether so many replicas have what the master has.
fn is_replicated(master: &mut RedisSide, replicas: usize) -> bool {
    let info: String = master.ask(&["INFO", "replication"]);
    let field = |line: &str, name: &str| {
        let (_, rest) = line.split_once(name)?;
        rest.split([',', '\r']).next()?.parse::<u64>().ok()
    };
    let mut lines = info.lines();
    let offset = lines.clone().find_map(|line| field(line, "master_repl_offset:"));
    let behind = |line: &str| field(line, "offset=").is_some_and(|at| Some(at) < offset);
    info.contains(&format!("connected_slaves:{replicas}"))
        && !lines.any(|line| line.starts_with("slave") && behind(line))
}

/// Makes a replica the master as an administrator does it before the maintenance of the one that is: it takes no more writes, its
/// replicas catch up, and one takes over.
pub(crate) fn hand_over(master: &mut RedisSide, replicas: usize, sentinels: &[Node]) {
    let wait = |what: &str, holds: &mut dyn FnMut() -> bool| {
        let report = || sentinels.iter().map(Node::report).collect();
        eventually(what, FAILED_OVER, report, holds);
    };
    let mut before = None;
    wait("the sentinels know the replicas", &mut || {
        before = master_of_all(sentinels);
        before.is_some() && sentinels.iter().all(|sentinel| knows(sentinel, replicas))
    });
    let _: String = master.ask(&["CLIENT", "PAUSE", "30000", "WRITE"]);
    wait("the replicas have all", &mut || is_replicated(master, replicas));
    wait("the sentinels accept a failover", &mut || accepts_failover(&sentinels[0]));
    wait("another server is the master", &mut || {
        master_of_all(sentinels).is_some_and(|now| Some(now) != before)
    });
    connected(master);
    let _ = master.try_ask::<String>(&["CLIENT", "UNPAUSE"]);
}

/// Asks a sentinel to make a replica the master; says whether it will.
fn accepts_failover(sentinel: &Node) -> bool {
    sentinel.redis().try_ask::<String>(&["SENTINEL", "FAILOVER", NAME]).is_ok()
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
