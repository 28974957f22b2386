//! The servers of a cluster and the slots that they own, as far as this process knows.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{RedisError, Value};

use super::fault::Fault;
use super::line::Endpoint;
use crate::store::reply::Reply;

/// While a slot is known to have moved, the servers are asked at most so often: the server that had it said where to.
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

/// Which server owns which slot.
#[derive(Debug, Default)]
pub(super) struct Slots(Mutex<Map>);

impl Slots {
    pub(super) fn map(&self) -> MutexGuard<'_, Map> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
}

/// The owners of the slots, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Map {
    /// In order.
    pub(super) ranges: Vec<Range>,
    /// Every server, those too that own nothing.
    pub(super) nodes: Vec<Node>,
    /// What a server that had a slot said since.
    pub(super) moved: HashMap<u16, Node>,
    /// Servers that failed since: what they own may be another's by now.
    pub(super) doubted: HashSet<Node>,
    /// When the servers were last asked.
    pub(super) asked: Option<Instant>,
    /// What they said then, if it was no answer.
    pub(super) failed: Option<Fault>,
}

/// Slots, both ends included, and their owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) owner: Node,
}

impl Map {
    pub(super) fn owner(&self, slot: u16) -> Option<&Node> {
        let in_range = || {
            let range = self.ranges.partition_point(|range| range.last < slot);
            self.ranges.get(range).filter(|range| range.first <= slot).map(|range| &range.owner)
        };
        self.moved.get(&slot).or_else(in_range)
    }

    /// Whether there is no reason to ask before the owner of a slot is used.
    pub(super) fn is_sure_of(&self, slot: u16) -> bool {
        let moved = self.moved.contains_key(&slot) && !self.was_asked_within(MOVED_AGAIN_AFTER);
        !moved && self.owner(slot).is_some_and(|owner| !self.doubted.contains(owner))
    }

    pub(super) fn was_asked_within(&self, time: Duration) -> bool {
        self.asked.is_some_and(|asked| asked.elapsed() < time)
    }
}

/// Reads the reply to `CLUSTER SLOTS`: `{first, last, owner, replica, ...}` for each range. What cannot be understood is
/// left out, so that a newer server may say more.
pub(super) fn read(reply: Value, said_by: &Node) -> (Vec<Range>, Vec<Node>) {
    let (mut ranges, mut nodes) = (Vec::new(), Vec::new());
    let mut reply = Reply::new("CLUSTER SLOTS", reply);
    while let Ok(mut range) = reply.list() {
        let (Ok(first), Ok(last)) = (range.number(), range.number()) else { continue };
        let owners = range.rest(|owner| Ok(node_of(&mut owner.list()?, said_by)));
        let owners = owners.unwrap_or_default();
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

/// Reads `{host, port, id, {"ip": ip, "hostname": name}}`. No host, or an empty one, means that of the server that was
/// asked; `?` that it should have a name and has none, and then its address serves.
fn node_of(node: &mut Reply, said_by: &Node) -> Option<Node> {
    let host = node.maybe_payload().ok()?.unwrap_or_default();
    let port = u16::try_from(node.number().ok()?).ok()?;
    let host: Arc<str> = match std::str::from_utf8(&host).ok()? {
        "" => Arc::clone(&said_by.host),
        "?" => {
            node.value().ok()?;
            let more = node.list().ok()?.rest(Reply::pair).ok()?;
            let (_, ip) = more.into_iter().find(|(name, ip)| name == "ip" && !ip.is_empty())?;
            ip.into()
        }
        host => host.into(),
    };
    Some(Node { host, port })
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
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn every_way_in_which_servers_say_where_they_are() {
        let asked = Node::new("here", 7000);
        for (address, is) in [
            ("10.0.0.1:7001", Some(Node::new("10.0.0.1", 7001))),
            ("redis-1.internal:7001", Some(Node::new("redis-1.internal", 7001))),
            (":7001", Some(Node::new("here", 7001))),
            ("fe80::1:7001", Some(Node::new("fe80::1", 7001))),
            ("[fe80::1]:7001", Some(Node::new("fe80::1", 7001))),
            ("?:7001", None),
            ("nonsense", None),
        ] {
            assert_eq!(node_at(address, &asked), is, "{address}");
        }
        let meta = || Value::Map(vec![(bulk("ip"), bulk("10.0.0.9"))]);
        for (host, meta, is) in [
            (bulk("10.0.0.1"), Value::Array(Vec::new()), Some("10.0.0.1")),
            (bulk("fe80::1"), Value::Array(Vec::new()), Some("fe80::1")),
            (bulk(""), Value::Array(Vec::new()), Some("here")),
            (Value::Nil, meta(), Some("here")),
            (bulk("?"), meta(), Some("10.0.0.9")),
            (bulk("?"), Value::Array(Vec::new()), None),
        ] {
            let said = Value::Array(vec![host.clone(), Value::Int(7001), bulk("id"), meta]);
            let is = is.map(|host| Node::new(host, 7001));
            assert_eq!(node_of(&mut Reply::new("a node", said), &asked), is, "{host:?}");
        }
    }

    #[test]
    fn the_owner_of_a_slot_is_the_last_that_was_heard_of() {
        let server = |port| Value::Array(vec![bulk("h"), Value::Int(port), bulk("id")]);
        let range = |first, last, port| {
            Value::Array(vec![Value::Int(first), Value::Int(last), server(port), server(port + 10)])
        };
        let reply = Value::Array(vec![range(100, 16_000, 2), range(0, 99, 1), Value::Nil]);
        let (ranges, nodes) = read(reply, &Node::new("h", 1));
        assert_eq!(nodes, [1, 2, 11, 12].map(|port| Node::new("h", port)));
        let mut map = Map { ranges, asked: Some(Instant::now()), ..Map::default() };
        assert_eq!(
            [0, 99, 100].map(|slot| map.owner(slot)),
            [Some(&Node::new("h", 1)), Some(&Node::new("h", 1)), Some(&Node::new("h", 2))]
        );
        assert_eq!([16_000, 16_001].map(|slot| map.owner(slot)), [Some(&Node::new("h", 2)), None]);
        assert!(map.is_sure_of(0) && !map.is_sure_of(16_001));
        map.moved.insert(0, Node::new("h", 2));
        assert_eq!(map.owner(0), Some(&Node::new("h", 2)));
        map.doubted.insert(Node::new("h", 2));
        assert!(!map.is_sure_of(0) && !map.is_sure_of(100) && map.is_sure_of(1));
    }
}
