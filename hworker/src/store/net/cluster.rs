//! Redis Cluster: which server has which slot. All that a queue has is in one slot, so a connection is made to the one
//! server that owns it; nothing is ever sent twice here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::ConnectionAddr;
use tokio::time::timeout;

use super::connection::Connection;
use super::fault::Fault;
use super::line::Endpoint;
use super::meter::Meter;
use super::open::open;
use super::slots::{Map, Node, Range, Slots, read};

/// One server is asked for the owners at most this long; then the next is.
const ASK_WITHIN: Duration = Duration::from_secs(1);

/// The servers are asked at most so often while connections fail.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// A cluster as this process sees it.
pub(super) struct Cluster {
    /// How every server of it is spoken to; the address is that of one in the URL.
    common: Endpoint,
    /// Those in the URL.
    named: Vec<Node>,
    slots: Arc<Slots>,
    /// Held while the servers are asked, so that one asks for all.
    asking: tokio::sync::Mutex<()>,
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
            slots: Arc::default(),
            asking: tokio::sync::Mutex::default(),
        })
    }

    /// The server that owns a slot. The others are asked first where there is reason to.
    pub(super) async fn owner(&self, slot: u16) -> Result<Node, Fault> {
        let asked = {
            let map = self.slots.map();
            match map.owner(slot) {
                Some(owner) if map.is_sure_of(slot) => return Ok(owner.clone()),
                _ => map.asked,
            }
        };
        let answer = self.ask(asked).await;
        match self.slots.map().owner(slot) {
            // An old answer is better than none: a server that has lost the slot says so.
            Some(owner) => Ok(owner.clone()),
            None => Err(answer.err().unwrap_or_else(|| {
                Fault::not_sent(format!("no server of the cluster has slot {slot}"))
            })),
        }
    }

    /// Every server that owns slots, each once.
    pub(super) async fn owners(&self) -> Result<Vec<Node>, Fault> {
        self.owner(0).await?;
        let map = self.slots.map();
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
        &self,
        node: &Node,
        meter: Option<&Arc<Meter>>,
    ) -> Result<Connection, Fault> {
        match open(node.at(&self.common), meter).await {
            Ok(connection) => Ok(connection.in_cluster(Arc::clone(&self.slots), node.clone())),
            Err(fault) => {
                self.slots.doubt(node);
                Err(fault)
            }
        }
    }

    /// Asks the servers for the owners of all slots, unless another task has asked since `seen`.
    async fn ask(&self, seen: Option<Instant>) -> Result<(), Fault> {
        // One task asks after the other. The asking task may be on a thread that a body blocks, and heartbeats must not wait for that.
        let _turn = timeout(ASK_WITHIN, self.asking.lock()).await;
        {
            let map = self.slots.map();
            if map.asked != seen || map.was_asked_within(AGAIN_AFTER) {
                // Without any map, the failure of the task that asked just now is the reason.
                let why = map.failed.clone().filter(|_| map.ranges.is_empty());
                return why.map_or(Ok(()), Err);
            }
        }
        let mut failed = None;
        for node in self.nodes() {
            match timeout(ASK_WITHIN, self.ask_one(&node)).await {
                Ok(Ok((ranges, nodes))) => {
                    let asked = Some(Instant::now());
                    *self.slots.map() = Map { ranges, nodes, asked, ..Map::default() };
                    return Ok(());
                }
                Ok(Err(fault)) => failed = Some(fault.certainly_not_done().after(failed)),
                Err(_) => {}
            }
        }
        let failed = failed.unwrap_or_else(|| {
            Fault::not_sent(format!("no server of the cluster answered within {ASK_WITHIN:?}"))
        });
        let mut map = self.slots.map();
        (map.asked, map.failed) = (Some(Instant::now()), Some(failed.clone()));
        Err(failed)
    }

    /// Every server that is known, those that lately failed last. In no fixed order, so that one that hangs, or that sees
    /// another cluster than the rest, is not asked first each time.
    fn nodes(&self) -> Vec<Node> {
        let map = self.slots.map();
        let mut nodes: Vec<_> = map.nodes.clone();
        nodes.extend(self.named.iter().filter(|node| !map.nodes.contains(node)).cloned());
        fastrand::shuffle(&mut nodes);
        nodes.sort_by_key(|node| map.doubted.contains(node));
        nodes
    }

    async fn ask_one(&self, node: &Node) -> Result<(Vec<Range>, Vec<Node>), Fault> {
        let connection = open(node.at(&self.common), None).await?;
        let reply = connection.call(redis::cmd("CLUSTER").arg("SLOTS"), ASK_WITHIN).await;
        let reply = reply.map_err(|fault| {
            let no_cluster = fault.to_string().contains("cluster support disabled");
            let why = format!("the server {node} is no cluster; write redis:// for it");
            if no_cluster { Fault::denied(why) } else { fault }
        });
        let (ranges, nodes) = read(reply?, node);
        if ranges.is_empty() {
            return Err(Fault::not_sent(format!("the server {node} knows no owner of any slot")));
        }
        Ok((ranges, nodes))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;

    use super::super::url::server;
    use super::*;

    fn cluster(port: u16) -> Cluster {
        let server = server(&format!("redis://127.0.0.1:{port}"), None).expect("a URL");
        Cluster::new(vec![server]).expect("a cluster")
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
        let cluster = Arc::new(cluster(port));
        let mut asked = JoinSet::new();
        for _ in 0..10 {
            let cluster = Arc::clone(&cluster);
            asked.spawn(async move { cluster.owner(0).await });
        }
        let faults: Vec<_> =
            asked.join_all().await.into_iter().map(|owner| owner.expect_err("no owner")).collect();
        // One connection for the greeting, and one that probes what listens there.
        assert_eq!(attempts.load(Ordering::Relaxed), 2);
        let first = faults[0].to_string();
        assert!(!first.contains("has slot"), "{first}");
        assert!(faults.iter().all(|fault| fault.to_string() == first), "{faults:?}");
    }

    #[tokio::test]
    async fn a_map_that_is_not_answered_says_nothing_of_a_job() {
        // The greeting is answered, and the connection ends at the question for the owners -> an enqueue may be tried again, because its
        // job is certainly not in.
        // Guard: `Fault::certainly_not_done`.
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
        let fault = cluster(port).owner(0).await.expect_err("no owner");
        assert!(fault.is_retryable(), "{fault:?}");
        assert!(!fault.to_string().contains("has slot"), "{fault}");
    }
}
