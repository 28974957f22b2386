//! Waiting until a key is there: what is kept of a job that has ended.
//!
//! One task a key and runtime reads, however many wait for it. Reading makes the server tell when the key changes, so none that is written
//! between a look and a wait is missed. Not every proxy passes on what a server tells: so the task reads again by itself, too.

mod keys;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::sleep;

use self::keys::{Reading, Seen, Whose};
use super::Client;
use super::connections::Purpose;
use crate::store::{Connection, Fault, LAST_MOMENT, Queue};

pub(super) use keys::Awaited;

/// After so long it reads again, and then each time after the last of them, where the server tells of changes.
const READS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(15)];

/// After so long where the server does not tell, and twice as long each further time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// But no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// When all have to read again, each does so within this time.
const SPREAD_MS: u64 = 100;

impl Client {
    /// What is kept of a job, as soon as it is there; `None` where it is not within this time. The last fault where it could not be read.
    pub(crate) async fn await_kept(
        &self,
        queue: &Queue,
        id: &str,
        within: Duration,
    ) -> Result<Option<Arc<[u8]>>, Fault> {
        let runtime = Handle::try_current().map_err(|_| Fault::outside_runtime())?;
        let whose: Whose = (runtime.id(), queue.keys.kept_of(id).into());
        let mut over = pin!(sleep(within.max(LAST_MOMENT)));
        loop {
            let (mut seen, reading) = self.inner.awaited.of(&whose);
            if let Some(reading) = reading {
                runtime.spawn(run(reading, self.clone(), queue.slot));
            }
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

/// Reads until the key is there, or nobody waits for it any more.
async fn run(reading: Reading, client: Client, slot: u16) {
    let mut reads = 0;
    loop {
        let (read, tracks) = client.read(slot, &reading.whose.1, reading.whose.0).await;
        let failed = read.is_err();
        let seen = match read {
            Ok(Some(text)) => Seen::Text(text.into()),
            Ok(None) => Seen::Nothing,
            Err(fault) => Seen::Failed(fault),
        };
        let is_final = seen.is_final();
        reading.say.send_replace(seen);
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
            () = reading.told.changed.notified() => {
                reads = 0;
                if reading.told.all.swap(false, Ordering::AcqRel) {
                    sleep(any_of(SPREAD_MS)).await;
                }
            }
            () = ended(told.as_ref()) => {
                reads = 0;
                sleep(any_of(SPREAD_MS)).await;
            }
            () = sleep(pause) => {}
            () = reading.say.closed() => return,
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
