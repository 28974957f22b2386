//! Redis Sentinel: which server is the master. It is asked for every connection that is made, and connections to a
//! server that is the master no more are ended, since what it still accepts will be lost.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::Value;
use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::fault::{Fault, FaultKind};
use super::line::Endpoint;
use super::meter::Meter;
use super::open::open_with;
use super::sentinel_url::{Parts, with_port};
use super::slots::Node;
use super::tls::Certificates;
use super::url::{Several, server};
use crate::log::say;
use crate::reconnect::Reconnect;
use crate::store::reply::Reply;

/// One sentinel is asked at most so long; then the next is.
const ASK_WITHIN: Duration = Duration::from_secs(1);

/// What a sentinel says when the master is, or will be, another one.
const EVENTS: [&str; 2] = ["+switch-master", "+promoted-slave"];

/// The sentinels of one master, as this process sees them.
pub(super) struct Sentinels {
    /// What they call the master.
    name: Box<str>,
    /// How servers are spoken to; the address is that of a sentinel.
    common: Endpoint,
    /// Where they are; the one that served last comes first.
    addresses: Mutex<Vec<Endpoint>>,
    subscriptions: Mutex<HashMap<Id, Arc<Shared>>>,
}

/// The subscription of one runtime; the lock is held while a sentinel is looked for.
type Shared = tokio::sync::Mutex<Option<Subscription>>;

/// A sentinel that tells when the master moves.
struct Subscription {
    sentinel: Connection,
    master: Node,
    /// Cancelled when it is the master no more: all connections to it end with this.
    moved: CancellationToken,
}

impl Sentinels {
    /// Reads what stands behind `redis-sentinel://`: `user:password@host:26379,other/<master>/<db>?sentinel_user=..`. Others
    /// write the master into the query (`?master=..`, `?sentinelMasterId=..`), which is understood too.
    pub(super) fn parse(
        url: &Several<'_>,
        certificates: Option<&Certificates>,
    ) -> Result<Self, String> {
        let parts = Parts::of(url.after)?;
        let (scheme, after) = (url.scheme, &parts.after);
        let auth = match (parts.user, parts.password) {
            ("", "") => String::new(),
            (user, password) => format!("{user}:{password}@"),
        };
        let addresses: Result<Vec<_>, _> = url
            .hosts
            .iter()
            .map(|host| format!("{scheme}://{auth}{}{}", with_port(host), parts.fragment))
            .map(|url| server(&url, certificates.cloned()))
            .collect();
        let host = url.hosts.first().ok_or("it names no sentinel")?;
        Ok(Self {
            name: parts.name.into(),
            common: server(
                &format!("{scheme}://{}{host}{after}", url.user),
                certificates.cloned(),
            )?,
            addresses: Mutex::new(addresses?),
            subscriptions: Mutex::default(),
        })
    }

    /// Makes a connection to the master, that ends when another server becomes the master.
    pub(super) async fn connect(
        self: &Arc<Self>,
        meter: Option<&Arc<Meter>>,
    ) -> Result<Connection, Fault> {
        let runtime = Handle::try_current().map_err(|_| Fault::outside_runtime())?;
        let (sentinel, master, moved) = self.find(&self.subscription(runtime.id())).await?;
        let connected = self.connect_to(&master, &moved, meter).await;
        connected.map_err(|fault| {
            self.leave(&sentinel);
            fault.about(format_args!("master {master}"))
        })
    }

    /// A sentinel that names no master may be behind, or cut off: the next try asks another. Of several that find so only
    /// the first counts.
    fn leave(&self, sentinel: &Connection) {
        if sentinel.is_alive() {
            sentinel.end();
            self.addresses().rotate_left(1);
        }
    }

    /// Makes a connection to what is said to be the master.
    async fn connect_to(
        &self,
        master: &Node,
        moved: &CancellationToken,
        meter: Option<&Arc<Meter>>,
    ) -> Result<Connection, Fault> {
        let connection =
            open_with(master.at(&self.common), moved.child_token(), None, meter).await?;
        if !is_master(&connection).await? {
            return Err(Fault::not_sent("it is not the master, or not yet"));
        }
        Ok(connection)
    }

    /// Whether what a sentinel names can take the place of the master that is known. One that is behind names a server that was it
    /// once, and the connections to the one that is it now are not to end for that.
    async fn confirm(&self, known: Option<&Node>, named: &Node) -> Result<(), Fault> {
        if known.is_none_or(|known| known == named) {
            return Ok(());
        }
        let connected = self.connect_to(named, &CancellationToken::new(), None).await;
        connected.map(drop).map_err(|fault| fault.about(format_args!("master {named}")))
    }

    fn addresses(&self) -> MutexGuard<'_, Vec<Endpoint>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscription(&self, runtime: Id) -> Arc<Shared> {
        let mut subscriptions = self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner);
        if !subscriptions.contains_key(&runtime) {
            // The task that follows a sentinel ended with its runtime.
            subscriptions.retain(|_, shared| Arc::strong_count(shared) > 1);
        }
        Arc::clone(subscriptions.entry(runtime).or_default())
    }

    /// Where the master is: by the sentinel that tells when it moves, or by the first that becomes that one.
    async fn find(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
    ) -> Result<(Connection, Node, CancellationToken), Fault> {
        let mut subscription = shared.lock().await;
        let known = subscription.as_ref().map(|known| known.sentinel.clone());
        let before = subscription.as_ref().map(|known| known.master.clone());
        let mut failed: Option<Fault> = None;
        if let Some(sentinel) = known.filter(Connection::is_alive) {
            match timeout(ASK_WITHIN, self.ask(&sentinel)).await {
                Ok(Ok(master)) => match self.confirm(before.as_ref(), &master).await {
                    Ok(()) => return Ok(note(&mut subscription, sentinel, master)),
                    Err(fault) => {
                        self.leave(&sentinel);
                        failed = Some(fault);
                    }
                },
                _ => sentinel.end(),
            }
        }
        let addresses = self.addresses().clone();
        let count = addresses.len();
        for (number, endpoint) in addresses.into_iter().enumerate() {
            let changed = Arc::new(Notify::new());
            let address = endpoint.info.addr().to_string();
            match timeout(ASK_WITHIN, self.subscribe(endpoint, &changed)).await {
                Ok(Ok((sentinel, master))) => {
                    if let Err(fault) = self.confirm(before.as_ref(), &master).await {
                        failed = Some(fault);
                        continue;
                    }
                    self.addresses().rotate_left(number);
                    let (of, shared) = (Arc::downgrade(self), Arc::clone(shared));
                    tokio::spawn(follow(of, shared, sentinel.clone(), changed));
                    return Ok(note(&mut subscription, sentinel, master));
                }
                Ok(Err(fault)) => {
                    failed = Some(fault.about(format_args!("sentinel {address}")).after(failed));
                }
                Err(_) => {}
            }
        }
        Err(failed.unwrap_or_else(|| {
            Fault::not_sent(format!("none of {count} sentinels answered within {ASK_WITHIN:?}"))
        }))
    }

    /// Makes a connection to a sentinel that tells when anything changes, and asks it where the master is.
    async fn subscribe(
        &self,
        sentinel: Endpoint,
        changed: &Arc<Notify>,
    ) -> Result<(Connection, Node), Fault> {
        let told = Some(Arc::clone(changed));
        let connection = open_with(sentinel, CancellationToken::new(), told, None).await?;
        // Before the question, so that nothing is missed. One that forbids it still knows where the master is.
        match connection.subscribe(&EVENTS, ASK_WITHIN).await {
            Err(fault) if fault.kind != FaultKind::Denied => return Err(fault),
            _ => {}
        }
        let master = self.ask(&connection).await?;
        Ok((connection, master))
    }

    /// Asks a sentinel where the master is.
    async fn ask(&self, sentinel: &Connection) -> Result<Node, Fault> {
        let mut command = redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(&*self.name);
        let mut reply = Reply::new("SENTINEL", sentinel.call(&command, ASK_WITHIN).await?);
        if reply.left() == 0 {
            return Err(Fault::denied(format!("knows no master `{}`", self.name)));
        }
        let (host, port) = reply.pair()?;
        Ok(Node::new(&host, port.parse().map_err(|_| reply.fault("not a port"))?))
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        // Whoever follows them has nobody to tell.
        let subscriptions = self.subscriptions.get_mut().unwrap_or_else(PoisonError::into_inner);
        for shared in subscriptions.values() {
            if let Ok(Some(subscription)) = shared.try_lock().as_deref() {
                subscription.sentinel.end();
            }
        }
    }
}

/// Notes what a sentinel said, and ends the connections to the server that was the master before.
fn note(
    subscription: &mut Option<Subscription>,
    sentinel: Connection,
    master: Node,
) -> (Connection, Node, CancellationToken) {
    let moved = match subscription.take() {
        Some(before) if before.master == master => before.moved,
        Some(before) => {
            say!(
                INFO,
                { now = master.clone() },
                "the master is {now} now, no longer {}",
                before.master
            );
            before.moved.cancel();
            CancellationToken::new()
        }
        None => CancellationToken::new(),
    };
    let now = subscription.insert(Subscription { sentinel, master, moved });
    (now.sentinel.clone(), now.master.clone(), now.moved.clone())
}

/// Looks where the master is whenever the sentinel tells of a change, and for another sentinel when this one is gone.
///
/// Boxed, since it starts again when another sentinel is found.
fn follow(
    of: Weak<Sentinels>,
    shared: Arc<Shared>,
    sentinel: Connection,
    changed: Arc<Notify>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let mut reconnect = Reconnect::new();
        loop {
            tokio::select! {
                () = sentinel.ended() => {
                    reconnect.pause().await;
                }
                () = changed.notified() => {}
            }
            let Some(sentinels) = of.upgrade() else { return sentinel.end() };
            let found = sentinels.find(&shared).await;
            // Then somebody follows the one that was found.
            if found.is_ok() && !sentinel.is_alive() {
                return;
            }
        }
    })
}

/// Whether the server says that it is a master. `ROLE` would need a permission that a user for jobs need not have.
async fn is_master(server: &Connection) -> Result<bool, Fault> {
    let mut said = Reply::new("HELLO", server.call(&redis::cmd("HELLO"), ASK_WITHIN).await?);
    while said.left() > 0 {
        if let ("role", role) = (said.text()?.as_str(), said.value()?) {
            return Ok(role == Value::BulkString("master".into()));
        }
    }
    Err(said.fault("it names no role"))
}
