//! Redis Cluster: which server has which slot. All that a queue has is in one slot, so a connection is made to the one
//! server that owns it; nothing is ever sent twice here.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{ConnectionAddr, RedisError, Value};
use tokio::time::timeout;

use super::connection::{Connection, open};
use super::fault::Fault;
use super::line::Endpoint;
use super::line::Meter;

/// One server is asked at most so long who owns what; then the next is.
const ASK_WITHIN: Duration = Duration::from_secs(1);

/// The servers are asked at most so often while connections fail,
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// and so often while a slot is known to have moved: where to, the server that had it said.
const MOVED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A server, as those name it that know where it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    host: Arc<str>,
    port: u16,
}

impl Node {
    pub(super) fn new(host: &str, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// How this server is spoken to, where every one is as `common`.
    pub(super) fn at(&self, common: &Endpoint) -> Endpoint {
        common.at(self.host.to_string(), self.port)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// A cluster as this process sees it.
pub(super) struct Cluster {
    /// How every server of it is spoken to; the address is that of one in the URL.
    common: Endpoint,
    /// Those in the URL.
    named: Vec<Node>,
    map: Mutex<Map>,
    /// Held while the servers are asked, so that one asks for all.
    asking: tokio::sync::Mutex<()>,
}

/// Who owns what, as far as it is known.
#[derive(Debug, Default)]
struct Map {
    /// In order.
    ranges: Vec<Range>,
    /// Every server, those too that own nothing.
    nodes: Vec<Node>,
    /// What a server that had a slot said since.
    moved: HashMap<u16, Node>,
    /// Servers that failed since: what they own may be another's by now.
    doubted: HashSet<Node>,
    /// When the servers were last asked.
    asked: Option<Instant>,
    /// What they said then, if it was no answer.
    failed: Option<Fault>,
}

/// Slots, both ends included, and their owner.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    owner: Node,
}

impl Map {
    fn owner(&self, slot: u16) -> Option<&Node> {
        let in_range = || {
            let range = self.ranges.partition_point(|range| range.last < slot);
            self.ranges.get(range).filter(|range| range.first <= slot).map(|range| &range.owner)
        };
        self.moved.get(&slot).or_else(in_range)
    }

    /// Whether there is no reason to ask before the owner of a slot is used.
    fn is_sure_of(&self, slot: u16) -> bool {
        let moved = self.moved.contains_key(&slot) && !self.was_asked_within(MOVED_AGAIN_AFTER);
        !moved && self.owner(slot).is_some_and(|owner| !self.doubted.contains(owner))
    }

    fn was_asked_within(&self, time: Duration) -> bool {
        self.asked.is_some_and(|asked| asked.elapsed() < time)
    }
}

impl Cluster {
    /// The cluster of the servers at these addresses, which are spoken to as the first of them.
    pub(super) fn new(servers: Vec<Endpoint>) -> Option<Self> {
        let named = servers.iter().filter_map(|server| match server.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Node::new(host, *port))
            }
            _ => None,
        });
        Some(Self {
            named: named.collect(),
            common: servers.into_iter().next()?,
            map: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        })
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server that owns a slot. The others are asked first where there is reason to.
    pub(super) async fn owner(&self, slot: u16) -> Result<Node, Fault> {
        let asked = {
            let map = self.map();
            match map.owner(slot) {
                Some(owner) if map.is_sure_of(slot) => return Ok(owner.clone()),
                _ => map.asked,
            }
        };
        let answer = self.ask(asked).await;
        match self.map().owner(slot) {
            // An old answer is better than none: whoever has lost the slot says so.
            Some(owner) => Ok(owner.clone()),
            None => Err(answer.err().unwrap_or_else(|| {
                Fault::not_sent(format!("no server of the cluster has slot {slot}"))
            })),
        }
    }

    /// Every server that owns slots, each once.
    pub(super) async fn owners(&self) -> Result<Vec<Node>, Fault> {
        self.owner(0).await?;
        let map = self.map();
        let mut owners: Vec<Node> = Vec::new();
        for range in &map.ranges {
            if !owners.contains(&range.owner) {
                owners.push(range.owner.clone());
            }
        }
        Ok(owners)
    }

    /// Makes a connection to one of the servers.
    pub(super) async fn connect(
        self: &Arc<Self>,
        node: &Node,
        meter: Option<&Arc<Meter>>,
    ) -> Result<Connection, Fault> {
        match open(node.at(&self.common), meter).await {
            Ok(connection) => Ok(connection.in_cluster(Arc::clone(self), node.clone())),
            Err(fault) => {
                self.doubt(node);
                Err(fault)
            }
        }
    }

    /// A server did not answer: before it is used again the others are asked whether it still owns what it owned.
    pub(super) fn doubt(&self, node: &Node) {
        self.map().doubted.insert(node.clone());
    }

    /// Notes what a server says that it does not have any more. Where to, it may not be able to say: then the others are asked.
    pub(super) fn note_moved(&self, error: &RedisError, said_by: &Node) {
        if error.code() != Some("MOVED") {
            return;
        }
        let owner = error.redirect_node().and_then(|(address, slot)| {
            let owner = node_at(address, said_by)?;
            Some((slot, owner))
        });
        match owner {
            Some((slot, owner)) => {
                self.map().moved.insert(slot, owner);
            }
            None => self.doubt(said_by),
        }
    }

    /// Asks who owns what, unless somebody else did since `seen`.
    async fn ask(&self, seen: Option<Instant>) -> Result<(), Fault> {
        // One after the other; but whoever has the turn may be on a thread that a body blocks, and heartbeats must not wait for that.
        let _turn = timeout(ASK_WITHIN, self.asking.lock()).await;
        {
            let map = self.map();
            if map.asked != seen || map.was_asked_within(AGAIN_AFTER) {
                // Who has no map yet hears why: whoever asked just now met it.
                let why = map.failed.clone().filter(|_| map.ranges.is_empty());
                return why.map_or(Ok(()), Err);
            }
        }
        let mut failed = None;
        for node in self.nodes() {
            match timeout(ASK_WITHIN, self.ask_one(&node)).await {
                Ok(Ok((ranges, nodes))) => {
                    let asked = Some(Instant::now());
                    *self.map() = Map { ranges, nodes, asked, ..Map::default() };
                    return Ok(());
                }
                Ok(Err(fault)) => failed = Some(fault.without_a_job().after(failed)),
                Err(_) => {}
            }
        }
        let failed = failed.unwrap_or_else(|| {
            Fault::not_sent(format!("no server of the cluster answered within {ASK_WITHIN:?}"))
        });
        let mut map = self.map();
        (map.asked, map.failed) = (Some(Instant::now()), Some(failed.clone()));
        Err(failed)
    }

    /// Every server that is known, those that lately failed last. In no fixed order, so that one that hangs, or that sees
    /// another cluster than the rest, is not asked first each time.
    fn nodes(&self) -> Vec<Node> {
        let map = self.map();
        let mut nodes: Vec<_> = map.nodes.clone();
        nodes.extend(self.named.iter().filter(|node| !map.nodes.contains(node)).cloned());
        fastrand::shuffle(&mut nodes);
        nodes.sort_by_key(|node| map.doubted.contains(node));
        nodes
    }

    async fn ask_one(&self, node: &Node) -> Result<(Vec<Range>, Vec<Node>), Fault> {
        let connection = open(node.at(&self.common), None).await?;
        let reply = connection.call(redis::cmd("CLUSTER").arg("SLOTS"), ASK_WITHIN).await;
        connection.end();
        let (ranges, nodes) = read(reply.map_err(|fault| explained(fault, node))?, node);
        if ranges.is_empty() {
            return Err(Fault::not_sent(format!("the server {node} knows no owner of any slot")));
        }
        Ok((ranges, nodes))
    }
}

fn explained(fault: Fault, node: &Node) -> Fault {
    if fault.to_string().contains("cluster support disabled") {
        let why = format!("the server {node} is no cluster; write redis:// for it");
        return Fault::denied(why);
    }
    fault
}

/// Reads the reply to `CLUSTER SLOTS`: `{first, last, owner, replica, ...}` for each range. What cannot be understood is
/// left out, so that a newer server may say more.
fn read(reply: Value, said_by: &Node) -> (Vec<Range>, Vec<Node>) {
    let (mut ranges, mut nodes) = (Vec::new(), Vec::new());
    for range in list(reply) {
        let mut parts = list(range).into_iter();
        let (Some(Value::Int(first)), Some(Value::Int(last))) = (parts.next(), parts.next()) else {
            continue;
        };
        let owners: Vec<_> = parts.map(|part| node_of(part, said_by)).collect();
        if let (Ok(first), Ok(last), Some(Some(owner))) =
            (u16::try_from(first), u16::try_from(last), owners.first())
        {
            ranges.push(Range { first, last, owner: owner.clone() });
        }
        nodes.extend(owners.into_iter().flatten());
    }
    ranges.sort_unstable_by_key(|range| range.first);
    nodes.sort_unstable_by(|one, other| (&one.host, one.port).cmp(&(&other.host, other.port)));
    nodes.dedup();
    (ranges, nodes)
}

fn list(value: Value) -> Vec<Value> {
    if let Value::Array(values) = value { values } else { Vec::new() }
}

/// Reads `{host, port, id, {"ip", ip, "hostname", name}}`. No host, or an empty one, means that of the server that was
/// asked; `?` that it should have a name and has none, and then its address serves.
fn node_of(value: Value, said_by: &Node) -> Option<Node> {
    let mut parts = list(value).into_iter();
    let host = parts.next()?;
    let Some(Value::Int(port)) = parts.next() else { return None };
    let port = u16::try_from(port).ok()?;
    let host: Arc<str> = match text(host).as_deref() {
        None | Some("") => Arc::clone(&said_by.host),
        Some("?") => {
            let more = match parts.nth(1)? {
                Value::Map(pairs) => pairs,
                other => pairs_of(list(other)),
            };
            let ip = more.into_iter().find(|(name, _)| text(name.clone()).as_deref() == Some("ip"));
            text(ip?.1).filter(|ip| !ip.is_empty())?.into()
        }
        Some(host) => host.into(),
    };
    Some(Node { host, port })
}

fn pairs_of(values: Vec<Value>) -> Vec<(Value, Value)> {
    let mut values = values.into_iter();
    std::iter::from_fn(|| Some((values.next()?, values.next()?))).collect()
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

/// Reads the `host:port` of a `MOVED`; an address of version 6 has colons of its own and no brackets.
fn node_at(address: &str, said_by: &Node) -> Option<Node> {
    let (host, port) = address.rsplit_once(':')?;
    let host = match host.trim_start_matches('[').trim_end_matches(']') {
        "" => Arc::clone(&said_by.host),
        "?" => return None,
        host => host.into(),
    };
    Some(Node { host, port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;

    use super::super::address::server;
    use super::*;

    fn node(host: &str, port: u16) -> Node {
        Node::new(host, port)
    }

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn every_way_in_which_servers_say_where_they_are() {
        let asked = node("here", 7000);
        for (address, is) in [
            ("10.0.0.1:7001", Some(node("10.0.0.1", 7001))),
            ("redis-1.internal:7001", Some(node("redis-1.internal", 7001))),
            (":7001", Some(node("here", 7001))),
            ("fe80::1:7001", Some(node("fe80::1", 7001))),
            ("[fe80::1]:7001", Some(node("fe80::1", 7001))),
            ("?:7001", None),
            ("nonsense", None),
        ] {
            assert_eq!(node_at(address, &asked), is, "{address}");
        }
        let meta = || Value::Array(vec![bulk("ip"), bulk("10.0.0.9")]);
        for (host, meta, is) in [
            (bulk("10.0.0.1"), Value::Array(Vec::new()), Some("10.0.0.1")),
            (bulk("fe80::1"), Value::Array(Vec::new()), Some("fe80::1")),
            (bulk(""), Value::Array(Vec::new()), Some("here")),
            (Value::Nil, meta(), Some("here")),
            (bulk("?"), meta(), Some("10.0.0.9")),
            (bulk("?"), Value::Map(vec![(bulk("ip"), bulk("10.0.0.9"))]), Some("10.0.0.9")),
            (bulk("?"), Value::Array(Vec::new()), None),
        ] {
            let said = Value::Array(vec![host.clone(), Value::Int(7001), bulk("id"), meta]);
            assert_eq!(node_of(said, &asked), is.map(|host| node(host, 7001)), "{host:?}");
        }
    }

    #[tokio::test]
    async fn those_who_ask_at_once_share_a_failure() {
        // Guard: `seen`, and `Map::failed`: without them each has an attempt of its own, or is not told what it met.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("its number").port();
        let attempts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&attempts);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                // So long that all have asked by then.
                tokio::time::sleep(Duration::from_millis(100)).await;
                drop(connection);
            }
        });
        let server = server(&format!("redis://127.0.0.1:{port}"), None).expect("a URL");
        let cluster = Arc::new(Cluster::new(vec![server]).expect("a cluster"));
        let mut asked = JoinSet::new();
        for _ in 0..10 {
            let cluster = Arc::clone(&cluster);
            asked.spawn(async move { cluster.owner(0).await });
        }
        let faults: Vec<_> =
            asked.join_all().await.into_iter().map(|owner| owner.expect_err("no owner")).collect();
        // One that greets, and one that looks who listens there.
        assert_eq!(attempts.load(Ordering::Relaxed), 2);
        let first = faults[0].to_string();
        assert!(!first.contains("has slot"), "{first}");
        assert!(faults.iter().all(|fault| fault.to_string() == first), "{faults:?}");
    }

    #[tokio::test]
    async fn a_map_that_is_not_answered_says_nothing_of_a_job() {
        // The greeting is answered, and the connection ends with the question who owns what -> who enqueues may try again, and
        // need not fear that his job is in.
        // Guard: `Fault::without_a_job`.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its number").port();
        std::thread::spawn(move || {
            for mut connection in listener.incoming().map_while(Result::ok) {
                let mut request = vec![0; 4096];
                while let Ok(read @ 1..) = connection.read(&mut request) {
                    let commands = String::from_utf8_lossy(&request[..read]);
                    if commands.contains("SLOTS") {
                        break;
                    }
                    let answer = |command| if command == "HELLO" { "%0\r\n" } else { "+OK\r\n" };
                    let names = commands.split('*').skip(1).filter_map(|one| one.lines().nth(2));
                    let answers: String = names.map(answer).collect();
                    let _ = connection.write_all(answers.as_bytes());
                }
            }
        });
        let server = server(&format!("redis://127.0.0.1:{port}"), None).expect("a URL");
        let cluster = Cluster::new(vec![server]).expect("a cluster");
        let fault = cluster.owner(0).await.expect_err("no owner");
        assert!(fault.passes(), "{fault:?}");
        assert!(!fault.to_string().contains("has slot"), "{fault}");
    }

    #[test]
    fn the_owner_of_a_slot_is_the_last_that_was_heard_of() {
        let server = |port| Value::Array(vec![bulk("h"), Value::Int(port), bulk("id")]);
        let range = |first, last, port| {
            Value::Array(vec![Value::Int(first), Value::Int(last), server(port), server(port + 10)])
        };
        let reply = Value::Array(vec![range(100, 16_000, 2), range(0, 99, 1), Value::Nil]);
        let (ranges, nodes) = read(reply, &node("h", 1));
        assert_eq!(nodes, [1, 2, 11, 12].map(|port| node("h", port)));
        let mut map = Map { ranges, asked: Some(Instant::now()), ..Map::default() };
        assert_eq!(
            [0, 99, 100].map(|slot| map.owner(slot)),
            [Some(&node("h", 1)), Some(&node("h", 1)), Some(&node("h", 2))]
        );
        assert_eq!([16_000, 16_001].map(|slot| map.owner(slot)), [Some(&node("h", 2)), None]);
        assert!(map.is_sure_of(0) && !map.is_sure_of(16_001));
        map.moved.insert(0, node("h", 2));
        assert_eq!(map.owner(0), Some(&node("h", 2)));
        map.doubted.insert(node("h", 2));
        assert!(!map.is_sure_of(0) && !map.is_sure_of(100) && map.is_sure_of(1));
    }
}
