//! Whether a queue takes more jobs, where a person set how many may wait.

mod found;

use std::pin::pin;
use std::time::{Duration, Instant};

use self::found::{Found, Known};
use super::Client;
use crate::store::{Bound, Fault, FaultKind, NoRoom};
use crate::time::within;

pub(super) use found::Bounds;

/// As long as a first enqueue waits for an answer, at most.
const FIRST_ASK: Duration = Duration::from_secs(1);

impl Client {
    /// Why a queue takes no more of so many jobs, if it does not. A queue that is free is asked beside the enqueue, once a second, so no
    /// enqueue waits for it: those that come at the same time keep their order. `first`: but the first to a queue, which waits.
    pub(crate) async fn no_room(&self, queue: &str, jobs: usize, first: bool) -> Option<NoRoom> {
        match self.inner.bounds.of(queue) {
            Known::Free => None,
            Known::Bound => Box::pin(self.ask_for_room(queue, jobs, true)).await,
            Known::Nothing if !first => {
                self.inner.bounds.note(queue, Found::Free(Instant::now()));
                self.ask_beside(queue);
                None
            }
            Known::WasFree => {
                self.ask_beside(queue);
                None
            }
            Known::Nothing => {
                let at_most = FIRST_ASK.min(self.inner.enqueue_within / 4);
                let mut asked = Box::pin(self.ask_for_room(queue, jobs, false));
                within(at_most, pin!(asked.as_mut())).await.unwrap_or_else(|| {
                    self.inner.bounds.note(queue, Found::Free(Instant::now()));
                    None
                })
            }
        }
    }

    fn ask_beside(&self, queue: &str) {
        let (client, queue) = (self.clone(), queue.to_owned());
        tokio::spawn(async move { client.ask_for_room(&queue, 1, false).await });
    }

    /// A queue that cannot be asked counts as one with room: the enqueue will say why. `is_bound`: as far as is known.
    async fn ask_for_room(&self, queue: &str, jobs: usize, is_bound: bool) -> Option<NoRoom> {
        let asked: Result<Bound, Fault> = async {
            // Shards would count apart, so the queue has none where there are several.
            if self.shard_count(queue) > 1 {
                return Ok(Bound::None);
            }
            let queue = self.queue(queue);
            let on = self.connection(&queue).await?;
            if !is_bound && !queue.is_bound(&on).await? {
                return Ok(Bound::None);
            }
            queue.room(&on, jobs, self.inner.enqueue_within).await
        }
        .await;
        let (found, no_room) = match asked {
            Ok(Bound::Over(no_room)) => (Found::Bound, Some(no_room)),
            Ok(Bound::Kept) => (Found::Bound, None),
            Err(fault) if fault.kind == FaultKind::Denied => (Found::Denied, None),
            Ok(Bound::None) | Err(_) => (Found::Free(Instant::now()), None),
        };
        self.inner.bounds.note(queue, found);
        no_room
    }
}
