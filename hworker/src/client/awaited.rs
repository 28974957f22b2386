//! Waiting until a key is there: what is kept of a job that has ended.
//!
//! One task a key and runtime reads, however many wait for it. Reading makes the server tell when the key changes, so none that is written
//! between a look and a wait is missed. Not every proxy passes on what a server tells: so the task reads again by itself, too.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::Client;
use super::connections::Purpose;
use crate::store::{Connection, Fault, FaultKind, LAST_MOMENT, Queue};

/// After so long it reads again, and then each time after the last of them, where the server tells of changes.
const READS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(15)];

/// After so long where the server does not tell, and twice as long each further time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// But no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// When all have to read again, each does so within this time.
const SPREAD_MS: u64 = 100;

/// The keys that are waited for.
#[derive(Default, Clone)]
pub(super) struct Awaited(Arc<Mutex<HashMap<Whose, Entry>>>);

/// The runtime of the task that reads, and the key.
type Whose = (Id, Box<str>);

struct Entry {
    told: Arc<Told>,
    seen: watch::Receiver<Seen>,
}

/// What the server told.
#[derive(Default)]
struct Told {
    changed: Notify,
    /// All keys may have changed.
    all: AtomicBool,
}

/// What was read last.
enum Seen {
    Nothing,
    Failed(Fault),
    Text(Arc<[u8]>),
}

impl Seen {
    /// Whether another read would say the same.
    fn is_final(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Failed(fault) => fault.kind == FaultKind::Denied,
            Self::Text(_) => true,
        }
    }

    fn known(&self) -> Result<Option<Arc<[u8]>>, Fault> {
        match self {
            Self::Nothing => Ok(None),
            Self::Failed(fault) => Err(fault.clone()),
            Self::Text(text) => Ok(Some(Arc::clone(text))),
        }
    }
}

impl Client {
    /// What is kept of a job, as soon as it is there; `None` where it is not within this time. The last fault where it could not be read.
    pub(crate) async fn await_kept(
        &self,
        queue: &Queue,
        id: &str,
        within: Duration,
    ) -> Result<Option<Arc<[u8]>>, Fault> {
        let key = queue.keys.kept_of(id);
        let mut over = pin!(sleep(within.max(LAST_MOMENT)));
        loop {
            let mut seen = self.inner.awaited.of(self, queue.slot, &key)?;
            let last = tokio::select! {
                biased;
                last = seen.wait_for(Seen::is_final) => Some(last.map(|last| last.known())),
                () = &mut over => None,
            };
            match last {
                Some(Ok(known)) => return known,
                // The task has ended with nobody who waits, just before this did.
                Some(Err(_)) => {}
                None => return seen.borrow().known(),
            }
        }
    }

    /// What is kept of a job now.
    pub(crate) async fn kept(&self, queue: &Queue, id: &str) -> Result<Option<Vec<u8>>, Fault> {
        let on = self.connection_to_inspect(queue).await?;
        get(&on, &queue.keys.kept_of(id)).await
    }

    /// Reads a key on a connection of which the server tells when it changes; whether it does.
    async fn read(
        &self,
        slot: u16,
        key: &str,
        runtime: Id,
    ) -> (Result<Option<Vec<u8>>, Fault>, Option<Connection>) {
        let on = match self.connection_for(slot, Purpose::Await).await {
            Ok(on) => on,
            Err(fault) => return (Err(fault), None),
        };
        let awaited = self.inner.awaited.clone();
        match on.track(|| Box::new(move |key| awaited.tell(runtime, key))).await {
            Ok(tracks) => (get(&on, key).await, Some(on).filter(|_| tracks)),
            Err(fault) => (Err(fault), None),
        }
    }
}

async fn get(on: &Connection, key: &str) -> Result<Option<Vec<u8>>, Fault> {
    let mut reply = on.ask("GET", key).await?;
    if reply.left() == 0 { Ok(None) } else { reply.payload().map(Some) }
}

impl Awaited {
    fn entries(&self) -> MutexGuard<'_, HashMap<Whose, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is read of this key from now on, by a task of this runtime.
    fn of(&self, client: &Client, slot: u16, key: &str) -> Result<watch::Receiver<Seen>, Fault> {
        let runtime = Handle::try_current().map_err(|_| Fault::outside_runtime())?;
        let whose: Whose = (runtime.id(), key.into());
        let mut entries = self.entries();
        // One whose task has ended says nothing new.
        let entry = entries.get(&whose).filter(|entry| entry.seen.has_changed().is_ok());
        if let Some(entry) = entry {
            return Ok(entry.seen.clone());
        }
        let (say, seen) = watch::channel(Seen::Nothing);
        let told = Arc::<Told>::default();
        let entry = Entry { told: Arc::clone(&told), seen: seen.clone() };
        entries.insert(whose.clone(), entry);
        drop(entries);
        let reader = Reader { say, told, whose, awaited: self.clone() };
        runtime.spawn(reader.run(client.clone(), slot));
        Ok(seen)
    }

    /// The server says that this key has changed, or that it does not know which have.
    fn tell(&self, runtime: Id, key: Option<&[u8]>) {
        let entries = self.entries();
        let Some(key) = key else {
            for (_, entry) in entries.iter().filter(|(whose, _)| whose.0 == runtime) {
                entry.told.all.store(true, Ordering::Release);
                entry.told.changed.notify_one();
            }
            return;
        };
        let whose = std::str::from_utf8(key).ok().map(|key| (runtime, key.into()));
        if let Some(entry) = whose.and_then(|whose| entries.get(&whose)) {
            entry.told.changed.notify_one();
        }
    }
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Awaited").field(&self.entries().len()).finish()
    }
}

/// The task that reads a key.
struct Reader {
    say: watch::Sender<Seen>,
    told: Arc<Told>,
    whose: Whose,
    awaited: Awaited,
}

impl Reader {
    /// Reads until the key is there, or nobody waits for it any more.
    async fn run(self, client: Client, slot: u16) {
        let mut reads = 0;
        loop {
            let (read, tracks) = client.read(slot, &self.whose.1, self.whose.0).await;
            let failed = read.is_err();
            let seen = match read {
                Ok(Some(text)) => Seen::Text(text.into()),
                Ok(None) => Seen::Nothing,
                Err(fault) => Seen::Failed(fault),
            };
            let is_final = seen.is_final();
            self.say.send_replace(seen);
            if is_final {
                return;
            }
            let told = tracks.filter(|_| !failed);
            let pause = match &told {
                Some(_) => READS[usize::min(reads, READS.len() - 1)],
                None => LONGEST_PAUSE.min(FIRST_PAUSE * (1 << u32::min(reads as u32, 10))),
            };
            reads += 1;
            tokio::select! {
                () = self.told.changed.notified() => {
                    reads = 0;
                    if self.told.all.swap(false, Ordering::AcqRel) {
                        sleep(any_of(SPREAD_MS)).await;
                    }
                }
                () = ended(told.as_ref()) => {
                    reads = 0;
                    sleep(any_of(SPREAD_MS)).await;
                }
                () = sleep(pause) => {}
                () = self.say.closed() => return,
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut entries = self.awaited.entries();
        let is_own = |entry: &Entry| Arc::ptr_eq(&entry.told, &self.told);
        if entries.get(&self.whose).is_some_and(is_own) {
            entries.remove(&self.whose);
        }
    }
}

/// The connection on which the server tells has ended.
async fn ended(connection: Option<&Connection>) {
    match connection {
        Some(connection) => connection.ended().await,
        None => std::future::pending().await,
    }
}

fn any_of(ms: u64) -> Duration {
    Duration::from_millis(fastrand::u64(..ms))
}
