//! What the server of a test is a part of: it stands alone, is the master that sentinels watch, or one of a cluster.
//!
//! `HWORKER_TEST_DEPLOYMENT` says which. The test sees no difference: its server is the one that has the queue `default`,
//! [`TestServer::url`](crate::TestServer::url) leads to it as hworker finds it in such a deployment, and keys are called what
//! they are called on one server.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use hworker::embedded::{Server, ServerBuilder};
use tempfile::TempDir;

use crate::cluster::{self, MASTERS};
use crate::eventually::eventually;
use crate::node::{self, Node};
use crate::redis_side::RedisSide;
use crate::sentinel;

/// All of it knows all of it by then, on a machine that is busy with other tests.
const WHOLE: Duration = Duration::from_secs(40);

/// The queue of the tests; the server that has its slot is theirs.
const QUEUE: &str = "default";

/// How the servers of a test are deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deployment {
    /// One server.
    Single,
    /// A master with a replica, and three sentinels.
    Sentinel,
    /// Three masters.
    Cluster,
}

impl Deployment {
    /// What `HWORKER_TEST_DEPLOYMENT` says; one server where it is not set.
    pub fn asked_for() -> Self {
        match std::env::var("HWORKER_TEST_DEPLOYMENT").unwrap_or_default().as_str() {
            "" => Self::Single,
            name => name.parse().unwrap_or_else(|error| panic!("{error}")),
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
        }
    }

    /// Starts the server of a test, and what belongs to it.
    pub(crate) fn start(self, server: ServerBuilder) -> (Server, Option<Around>) {
        match self {
            Self::Single => (started(server), None),
            Self::Sentinel => {
                let (server, around) = watched(&server);
                (server, Some(around))
            }
            Self::Cluster => {
                let (server, around) = clustered(&server);
                (server, Some(around))
            }
        }
    }
}

impl FromStr for Deployment {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Self::Single, Self::Sentinel, Self::Cluster];
        let found = all.into_iter().find(|deployment| deployment.name() == name);
        found.ok_or_else(|| format!("a deployment is single, sentinel or cluster, not `{name}`"))
    }
}

/// The servers beside the one that the test sees.
pub(crate) struct Around {
    pub(crate) deployment: Deployment,
    /// How hworker finds the server.
    pub(crate) url: String,
    /// The replica, or the other masters.
    servers: Vec<Node>,
    sentinels: Vec<Node>,
    port: u16,
    /// Where bodies note their runs: a server alone, which no outage of the test strikes.
    notes: Server,
    /// Where the queue of the tests is: at the server of the test, or at one of those beside it.
    elsewhere: Option<usize>,
    _dir: TempDir,
}

fn started(server: ServerBuilder) -> Server {
    server.start().unwrap_or_else(|error| panic!("{error}"))
}

/// Starts the server on a port of which the next 10,000th is free too, as the bus of a cluster wants it.
fn on_a_port(server: &ServerBuilder) -> (Server, u16) {
    // Somebody else may take the port between the look and the start.
    let on_one = || {
        let port = node::free_port();
        server.clone().arg("--port", port.to_string()).start().map(|server| (server, port))
    };
    let mut failed = None;
    for _ in 0..10 {
        match on_one() {
            Ok(started) => return started,
            Err(error) => failed = Some(error),
        }
    }
    panic!("{failed:?}");
}

/// A master with a replica, and sentinels that watch them.
fn watched(server: &ServerBuilder) -> (Server, Around) {
    let dir = TempDir::new().expect("a directory for the servers");
    let (server, port) = on_a_port(&server.clone().arg("--repl-diskless-sync-delay", "0"));
    let program = server.program();
    let args = ["--save", "", "--repl-diskless-sync-delay", "0"];
    let replica = Node::start(program, dir.path().join("replica"), &args);
    let _: String = replica.redis().ask(&["REPLICAOF", "127.0.0.1", &port.to_string()]);
    // More than a restart takes: the master that comes back has what it is asked for.
    let patience = format!("sentinel down-after-milliseconds {} 8000", sentinel::NAME);
    let sentinels = sentinel::start(program, dir.path(), port, &[patience]);
    let url = sentinel::url_of(&sentinels);
    let around = Around {
        deployment: Deployment::Sentinel,
        url,
        servers: vec![replica],
        sentinels,
        port,
        notes: started(Server::builder().program(program)),
        elsewhere: None,
        _dir: dir,
    };
    wait("the sentinels know all", || around.sentinels.iter().all(|node| sentinel::knows(node, 1)));
    (server, around)
}

/// Three masters; that of the test has the slot of its queue.
fn clustered(server: &ServerBuilder) -> (Server, Around) {
    let dir = TempDir::new().expect("a directory for the cluster");
    let with = ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"];
    let pairs = with.chunks(2).map(|pair| (pair[0], pair[1]));
    let (server, port) =
        on_a_port(&pairs.fold(server.clone(), |server, (name, value)| server.arg(name, value)));
    let program = server.program();
    let args = [&with[..], &["--save", ""]].concat();
    let node = |number: usize| Node::start(program, dir.path().join(number.to_string()), &args);
    let servers: Vec<_> = (1..MASTERS).map(node).collect();
    let mut own = RedisSide::new(&server.url());
    let slot: usize = own.ask(&["CLUSTER", "KEYSLOT", QUEUE]);
    // Each has a third: the one with the slot is for the test.
    let its_third = (0..MASTERS).find(|third| cluster::third(third + 1) > slot).expect("a slot");
    cluster::join(&mut own, 0, its_third, port);
    for (number, node) in servers.iter().enumerate() {
        let third = (its_third + number + 1) % MASTERS;
        cluster::join(&mut node.redis(), number + 1, third, port);
    }
    let ports = servers.iter().map(Node::port).chain([port]);
    let hosts: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    let around = Around {
        deployment: Deployment::Cluster,
        url: format!("redis-cluster://{}", hosts.join(",")),
        sentinels: Vec::new(),
        notes: started(Server::builder().program(program)),
        servers,
        port,
        elsewhere: None,
        _dir: dir,
    };
    wait("the cluster is whole", || {
        cluster::is_whole(&mut own, MASTERS)
            && around.servers.iter().all(|node| cluster::is_whole(&mut node.redis(), MASTERS))
    });
    (server, around)
}

impl Around {
    pub(crate) fn notes_url(&self) -> String {
        self.notes.url()
    }

    /// A way past hworker to the server that has the queue, where `own` leads to that of the test.
    pub(crate) fn redis(&self, own: &str) -> RedisSide {
        let url =
            self.elsewhere.map_or_else(|| own.to_owned(), |server| self.servers[server].url());
        match self.deployment {
            Deployment::Cluster => RedisSide::of_a_cluster(&url),
            _ => RedisSide::new(&url),
        }
    }

    /// Ways past hworker to the servers beside that of the test.
    pub(crate) fn others(&self) -> impl Iterator<Item = RedisSide> {
        self.servers.iter().map(|server| RedisSide::new(&server.url()))
    }

    /// Lets another server have the queue, in good order.
    pub(crate) fn move_on(&mut self, own: &str) {
        match self.deployment {
            Deployment::Single => {}
            Deployment::Sentinel => self.fail_over(own),
            Deployment::Cluster => self.move_slot(own),
        }
    }

    fn fail_over(&mut self, own: &str) {
        sentinel::hand_over(&mut self.redis(own), 1, &self.sentinels);
        self.elsewhere = if self.elsewhere.is_none() { Some(0) } else { None };
    }

    /// Moves the slot of the queue to the next master, key by key.
    fn move_slot(&mut self, own: &str) {
        let next = if self.elsewhere.is_none() { Some(0) } else { None };
        let port = next.map_or(self.port, |server: usize| self.servers[server].port());
        let mut from = self.redis(own);
        self.elsewhere = next;
        let mut to = self.redis(own);
        let slot: u16 = from.ask(&["CLUSTER", "KEYSLOT", QUEUE]);
        cluster::begin_moving(slot, &mut from, &mut to);
        cluster::finish_moving(slot, &mut from, &mut to, port);
    }

    /// A URL of hworker that comes to the server of the test through what listens on this port.
    pub(crate) fn url_through(&self, port: u16) -> String {
        match self.deployment {
            Deployment::Sentinel => {
                let sentinel = sentinel::one_that_names(port);
                format!("redis-sentinel://127.0.0.1:{sentinel}/{}", sentinel::NAME)
            }
            _ => format!("redis-cluster://127.0.0.1:{port}"),
        }
    }

    /// The port of the server of the test.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// What is beside the server of a test has no report of its own to fail with.
#[track_caller]
fn wait(what: &str, holds: impl FnMut() -> bool) {
    eventually(what, WHOLE, String::new, holds);
}

/// A URL with a user, and with a database where there are any; gives which.
pub(crate) fn with_user(
    around: Option<&Around>,
    socket: &Path,
    user: &str,
    password: &str,
) -> (String, u8) {
    let Some(around) = around else {
        let path = socket.display();
        return (format!("redis+unix://{path}?user={user}&pass={password}&db=3"), 3);
    };
    let url = around.url.replacen("://", &format!("://{user}:{password}@"), 1);
    match around.deployment {
        Deployment::Cluster => (url, 0),
        _ => (url + "/3", 3),
    }
}
