//! A cluster of three masters, with or without replicas, for one test.

use std::ops::Deref;
use std::path::Path;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use crate::node::{Node, any_program};
use crate::redis_side::RedisSide;
use crate::several::{Several, directory};

pub(crate) const MASTERS: usize = 3;
const SLOTS: u16 = 16_384;

/// Three masters on this machine, and a server beside them where bodies note their runs.
pub struct TestCluster {
    /// The masters, and behind them the replica of each, if they have any.
    all: Several,
}

impl Deref for TestCluster {
    type Target = Several;

    fn deref(&self) -> &Several {
        &self.all
    }
}

impl TestCluster {
    /// Three masters with a third of the slots each.
    pub fn start() -> Self {
        Self::of(&any_program())
    }

    /// The same of another server program.
    pub fn of(program: &Path) -> Self {
        Self::start_with(program, 0, None)
    }

    /// Three masters with a replica each, of this server program.
    pub fn with_replicas(program: &Path) -> Self {
        Self::with_replicas_in(program, None)
    }

    /// The same, which leaves logs and data in this directory, if there is one.
    pub fn with_replicas_in(program: &Path, keep: Option<&Path>) -> Self {
        let cluster = Self::start_with(program, MASTERS, keep);
        for (replica, master) in cluster.replicas().iter().zip(cluster.master_nodes()) {
            let id: String = master.redis().ask(&["CLUSTER", "MYID"]);
            cluster.eventually("it is known", Duration::from_secs(30), || {
                replica.redis().try_ask::<String>(&["CLUSTER", "REPLICATE", &id]).is_ok()
            });
        }
        cluster.wait_until_replicated();
        cluster
    }

    /// Waits until the servers that were started as replicas are, and have what their masters have.
    pub fn wait_until_replicated(&self) {
        self.eventually("the replicas follow", Duration::from_secs(30), || {
            self.replicas().iter().all(|replica| {
                let info = replica.redis().try_ask::<String>(&["INFO", "replication"]);
                info.is_ok_and(|info| info.contains("master_link_status:up"))
            })
        });
    }

    fn start_with(program: &Path, replicas: usize, keep: Option<&Path>) -> Self {
        crate::show_log();
        let dir = directory("servers", keep);
        let numbered = |what: &'static str| move |number| format!("{what}-{number}");
        let names =
            (0..MASTERS).map(numbered("master")).chain((0..replicas).map(numbered("replica")));
        let nodes: Vec<_> = names.map(|name| start(program, &dir.path().join(name))).collect();
        let first = nodes[0].port();
        for (number, node) in nodes.iter().enumerate() {
            if number < MASTERS {
                join(&mut node.redis(), number, number, first);
            } else {
                meet(&mut node.redis(), number, first);
            }
        }
        let hosts = nodes[..MASTERS].iter().map(|master| format!("127.0.0.1:{}", master.port()));
        let url = format!("redis-cluster://{}", hosts.collect::<Vec<_>>().join(","));
        let cluster = Self { all: Several::new(nodes, url, dir, keep) };
        cluster.wait_until_ok();
        cluster
    }

    /// Waits until every server sees all of them and all slots.
    pub fn wait_until_ok(&self) {
        self.eventually("the cluster is whole", Duration::from_secs(30), || {
            let servers = self.nodes.len();
            self.nodes.iter().all(|server| is_whole(&mut server.redis(), servers))
        });
    }

    fn master_nodes(&self) -> &[Node] {
        &self.nodes[..MASTERS]
    }

    fn replicas(&self) -> &[Node] {
        &self.nodes[MASTERS..]
    }

    /// A master past hworker.
    pub fn redis(&self, master: usize) -> MutexGuard<'_, RedisSide> {
        self.nodes[master].redis()
    }

    /// How many masters there are.
    pub fn masters(&self) -> usize {
        MASTERS
    }

    /// Every key of the cluster, with the master that has it.
    pub fn keys(&self, pattern: &str) -> Vec<(usize, String)> {
        let keys = |master| self.redis(master).keys(pattern);
        (0..self.masters())
            .flat_map(|number| keys(number).into_iter().map(move |key| (number, key)))
            .collect()
    }

    /// The slot of a key, as a master says it.
    pub fn slot(&self, key: &str) -> u16 {
        self.redis(0).ask(&["CLUSTER", "KEYSLOT", key])
    }

    /// The master that owns the slot of a key, as that one says.
    pub fn owner(&self, key: &str) -> usize {
        let owns = |master: &usize| {
            let counted = self.redis(*master).try_ask::<u64>(&["EXISTS", key]);
            counted.is_ok()
        };
        (0..self.masters()).find(owns).unwrap_or_else(|| panic!("nobody owns the slot of {key}"))
    }

    /// A queue for each master, which is where its slot is.
    pub fn queue_on_each_master(&self) -> Vec<String> {
        let names = || (0..).map(|number| format!("queue-{number}"));
        let on = |master: usize| {
            let range = third(master)..third(master + 1);
            names().find(|name| range.contains(&usize::from(self.slot(name))))
        };
        (0..self.masters()).filter_map(on).collect()
    }

    /// Moves a slot, with all that is in it, from its owner to another master, as `redis-cli --cluster reshard` does.
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.begin_moving(slot, from, to);
        self.finish_moving(slot, from, to);
    }

    /// From here on the old owner sends whoever asks for what it does not have to the new one.
    pub fn begin_moving(&self, slot: u16, from: usize, to: usize) {
        begin_moving(slot, &mut self.redis(from), &mut self.redis(to));
    }

    /// Moves what is in the slot, and then the slot.
    pub fn finish_moving(&self, slot: u16, from: usize, to: usize) {
        let port = self.nodes[to].port();
        finish_moving(slot, &mut self.redis(from), &mut self.redis(to), port);
    }

    /// Kills a master.
    pub fn kill(&self, master: usize) {
        self.nodes[master].kill();
    }

    /// From here on a master does not know of the others, and its replica has taken its place. Clients reach it still, and
    /// hear that the cluster is down.
    pub fn cut_off(&self, master: usize) {
        for other in self.nodes.iter().enumerate().filter(|(number, _)| *number != master) {
            let id = id_of(&mut other.1.redis());
            let _: String = self.redis(master).ask(&["CLUSTER", "FORGET", &id]);
        }
        let _: String = self.replicas()[master].redis().ask(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
        self.failed_over(master);
        self.eventually("it is out of service", Duration::from_secs(30), || {
            let asked = self.redis(master).try_ask::<String>(&["CLUSTER", "INFO"]);
            asked.is_ok_and(|info| info.contains("cluster_state:fail"))
        });
    }

    /// Waits until a master's replica has taken its place.
    pub fn failed_over(&self, master: usize) {
        self.eventually("the replica is the master", Duration::from_secs(40), || {
            let role = self.replicas()[master].redis().try_ask::<redis::Value>(&["ROLE"]);
            // A master's role has three parts, a replica's five.
            role.is_ok_and(|role| matches!(role, redis::Value::Array(parts) if parts.len() == 3))
        });
    }

    /// Makes a server master again that has become a replica of its own replica, without a loss.
    pub fn take_back(&self, master: usize) {
        let master = &self.nodes[master];
        // A master's answer has three parts, a replica's five.
        let is_master = || {
            let role = master.redis().try_ask::<redis::Value>(&["ROLE"]).ok()?;
            Some(matches!(role, redis::Value::Array(parts) if parts.len() == 3))
        };
        // One that was just started takes itself for the master that it was until it hears of the new one.
        self.eventually("it is a replica", Duration::from_secs(30), || is_master() == Some(false));
        let mut asked: Option<Instant> = None;
        self.eventually("it is the master again", Duration::from_secs(40), || {
            // It gives up after 5 s, where it has not caught up.
            if asked.is_none_or(|asked| asked.elapsed() > Duration::from_secs(6)) {
                let accepted = master.redis().try_ask::<String>(&["CLUSTER", "FAILOVER"]);
                asked = accepted.is_ok().then(Instant::now);
            }
            is_master() == Some(true)
        });
    }

    /// Starts a master again that was killed, with what it has on disk.
    pub fn start_again(&self, master: usize) {
        self.nodes[master].start_again();
    }
}

/// Makes a server the master of a third of the slots, in the cluster of the server on this port.
pub(crate) fn join(redis: &mut RedisSide, number: usize, its_third: usize, port: u16) {
    let (from, to) = (third(its_third).to_string(), (third(its_third + 1) - 1).to_string());
    let _: String = redis.ask(&["CLUSTER", "ADDSLOTSRANGE", &from, &to]);
    meet(redis, number, port);
}

/// Brings a server into the cluster of the one on this port.
fn meet(redis: &mut RedisSide, number: usize, port: u16) {
    let epoch = (number + 1).to_string();
    let _: String = redis.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
    let _: String = redis.ask(&["CLUSTER", "MEET", "127.0.0.1", &port.to_string()]);
}

/// Whether a server sees so many, and an owner of each slot.
pub(crate) fn is_whole(redis: &mut RedisSide, servers: usize) -> bool {
    let nodes = format!("cluster_known_nodes:{servers}");
    let info = redis.try_ask::<String>(&["CLUSTER", "INFO"]);
    info.is_ok_and(|info| {
        ["cluster_state:ok", &nodes, "cluster_size:3"].iter().all(|line| info.contains(line))
    })
}

/// From here on the old owner of a slot sends whoever asks for what it does not have to the new one.
pub(crate) fn begin_moving(slot: u16, from: &mut RedisSide, to: &mut RedisSide) {
    let (old, new) = (id_of(from), id_of(to));
    set_slot(to, slot, "IMPORTING", &old);
    set_slot(from, slot, "MIGRATING", &new);
}

/// Moves what is in the slot, and then the slot.
pub(crate) fn finish_moving(slot: u16, from: &mut RedisSide, to: &mut RedisSide, to_port: u16) {
    let (port, slot_text) = (to_port.to_string(), slot.to_string());
    loop {
        let keys: Vec<String> = from.ask(&["CLUSTER", "GETKEYSINSLOT", &slot_text, "100"]);
        if keys.is_empty() {
            break;
        }
        for key in keys {
            let _: String = from.ask(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]);
        }
    }
    let new = id_of(to);
    for server in [to, from] {
        set_slot(server, slot, "NODE", &new);
    }
}

fn id_of(server: &mut RedisSide) -> String {
    server.ask(&["CLUSTER", "MYID"])
}

fn set_slot(server: &mut RedisSide, slot: u16, what: &str, node: &str) {
    let _: String = server.ask(&["CLUSTER", "SETSLOT", &slot.to_string(), what, node]);
}

/// Where a master's range of slots begins.
pub(crate) fn third(number: usize) -> usize {
    usize::from(SLOTS) * number / MASTERS
}

/// Starts one server of a cluster.
fn start(program: &Path, dir: &Path) -> Node {
    let cluster = ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"];
    let kept = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    let timeout = ["--cluster-node-timeout", "2000"];
    Node::start(program, dir.to_owned(), &[&cluster[..], &kept, &timeout].concat())
}
