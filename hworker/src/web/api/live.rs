//! Looks at the queues while somebody listens: one look serves all.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::broadcast::{Receiver, Sender, channel};

use crate::client::Client;
use crate::inspect::{Counts, QueueInfo};
use crate::web::names::Names;
use crate::web::problem::Problem;

/// The time between two looks; longer where a look takes long.
const EVERY: Duration = Duration::from_secs(2);

/// So many listen at once.
const STREAMS: usize = 100;

/// So many queues are looked at.
const QUEUES: usize = 100;

/// So many ticks a slow listener may be behind before it is told to load anew.
const BEHIND: usize = 16;

/// What is seen in one look.
#[derive(Debug, Clone)]
pub(in crate::web) struct Tick {
    pub(super) number: u64,
    /// `{number, at, queues}` in JSON; the queues are null where the server could not be asked.
    pub(super) json: Arc<str>,
}

/// Looks at the server while somebody listens.
#[derive(Debug, Default)]
pub(in crate::web) struct Live(Mutex<Looks>);

#[derive(Debug, Default)]
struct Looks {
    ticks: Option<Sender<Tick>>,
    last: u64,
}

impl Live {
    /// Listens; the first one begins the looks. `None` where too many listen. With the number of the last tick.
    pub(in crate::web) fn listen(
        self: &Arc<Self>,
        client: &Client,
        names: &Arc<Names>,
    ) -> Option<(Receiver<Tick>, u64)> {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ticks) = &looks.ticks {
            let listens = ticks.receiver_count() < STREAMS;
            return listens.then(|| (ticks.subscribe(), looks.last));
        }
        let (ticks, receiver) = channel(BEHIND);
        looks.ticks = Some(ticks.clone());
        tokio::spawn(Arc::clone(self).look(client.clone(), Arc::clone(names), ticks));
        Some((receiver, looks.last))
    }

    async fn look(self: Arc<Self>, client: Client, names: Arc<Names>, ticks: Sender<Tick>) {
        loop {
            let began = Instant::now();
            let queues = queues(&client, &names).await.ok();
            let at = crate::time::local_unix_ms(std::time::SystemTime::now());
            {
                let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                looks.last += 1;
                let number = looks.last;
                let json = json!({ "number": number, "at": at, "queues": queues });
                let json = json.to_string().into();
                // Under the lock, so that the next listener begins new looks.
                if ticks.send(Tick { number, json }).is_err() {
                    looks.ticks = None;
                    return;
                }
            }
            // The server has as much time for others as for this.
            tokio::time::sleep(EVERY.max(began.elapsed())).await;
        }
    }
}

/// The queues that are shown, by name.
async fn queues(client: &Client, names: &Arc<Names>) -> Result<Vec<QueueInfo>, Problem> {
    let mut queues = Vec::new();
    for name in names.all(client).await? {
        let queue = client.inspect(&name).summary().await?;
        if queue.counts != Counts::default() || queue.workers > 0 || queue.paused.is_some() {
            queues.push(queue);
        }
        if queues.len() == QUEUES {
            break;
        }
    }
    Ok(queues)
}
