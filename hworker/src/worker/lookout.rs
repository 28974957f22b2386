//! The lookout of the supervisor: no job waits long behind another, though a body may block the loop that would start it, the thread
//! that would hear of it, or the whole runtime. Others start what has a slot, another thread listens to the server, and what was
//! fetched ahead goes back. And where bodies wait for a clock it sees to it that this is on time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

use super::deadlines::{Unsent, send};
use super::incarnation::{Incarnation, Lane};
use super::pace::AHEAD_AT_MOST;
use super::ready::WaitingJob;
use super::ticks::Ticks;
use crate::join::join_all;
use crate::reconnect::Reconnect;
use crate::store::{End, Lease, Settlement};

/// What waits is looked at so often.
const WAITS_TICK: Duration = Duration::from_millis(5);

/// And so often whether anything comes from the server, without being told: to be woken for every job costs it a twelfth of the time
/// until it starts.
const LISTEN_TICK: Duration = Duration::from_millis(20);

/// It does so while a job is here, and for so long after something was heard.
const LISTENS_FOR: Duration = Duration::from_millis(250);

/// Where one had to wait for a runner, they are called as if a body blocked one of them, for so long.
const BLOCKED_FOR: Duration = Duration::from_millis(100);

/// How the lookout is told of what may wait.
#[derive(Debug, Default)]
pub(super) struct Lookout {
    told: Notify,
    /// It looks by itself before long.
    listens: AtomicBool,
}

impl Lookout {
    /// Jobs wait: it looks soon.
    pub(super) fn tell(&self) {
        self.told.notify_one();
    }

    /// A job is about to start, and nothing waits for it. Its body may block the thread that would read what comes next.
    pub(super) fn tell_of_one(&self) {
        if !self.listens.load(Ordering::SeqCst) {
            self.told.notify_one();
        }
    }

    /// Completes when it is to look again: when it was told, or while it listens.
    async fn due(&self, listens: bool) {
        let told = async {
            self.told.notified().await;
            self.listens.store(true, Ordering::SeqCst);
            sleep(WAITS_TICK).await;
        };
        if listens {
            let _ = timeout(LISTEN_TICK, told).await;
        } else {
            told.await;
        }
    }
}

/// Keeps the lookout, for as long as this life lasts. `bodies` is the runtime of the bodies.
pub(super) async fn keep(incarnation: &Arc<Incarnation>, bodies: &Handle) {
    let mut lanes = Vec::new();
    let mut releases = Vec::new();
    for lane in &incarnation.lanes {
        let (gives_back, given) = mpsc::unbounded_channel();
        lanes.push(Seen::new(lane, gives_back));
        releases.push(release(incarnation, lane, given));
    }
    // Side by side, so that a server that is slow to take something back, or away, holds up nobody here, and no other queue.
    tokio::join!(look(incarnation, bodies, lanes), join_all(releases));
}

async fn look(incarnation: &Incarnation, bodies: &Handle, mut lanes: Vec<Seen<'_>>) {
    let lookout = &incarnation.lookout;
    let mut active = Instant::now();
    let mut listener = Listener::new(bodies);
    let mut ticks = Ticks::new(bodies);
    loop {
        let holds = || incarnation.lanes.iter().any(|lane| lane.leases.count() > 0);
        let mut listens = holds() || ticks.are_kept() || active.elapsed() < LISTENS_FOR;
        lookout.listens.store(listens, Ordering::SeqCst);
        if !listens && holds() {
            // Who found that it listens still has told nobody; he holds the lease since before.
            listens = true;
            lookout.listens.store(true, Ordering::SeqCst);
        }
        lookout.due(listens).await;
        let (mut heard, mut wait_for_ticks) = (false, false);
        for seen in &mut lanes {
            heard |= seen.has_heard();
            seen.call_runners();
            let waited = seen.lane.ready.take_ahead(AHEAD_AT_MOST);
            if !waited.is_empty() {
                // Whoever takes it has not ended: it is a part of the same future.
                let _ = seen.gives_back.send(taken_back(seen.lane, &waited));
            }
            wait_for_ticks |= seen.waits_for_ticks();
            if !seen.lane.ready.is_empty() {
                lookout.tell();
            }
        }
        ticks.matter(wait_for_ticks);
        if heard {
            active = Instant::now();
        }
        if !heard && holds() {
            listener.call();
        }
    }
}

/// Sees to it that a thread of the bodies' runtime listens to the server. The thread that hears of a job may be the one that its body
/// blocks, and tokio then leaves the others asleep. Whatever is spawned from outside wakes one of them, which listens when that is over.
struct Listener<'a> {
    bodies: &'a Handle,
    called: Option<Instant>,
    /// Each call that nobody has answered has one more: all threads may be blocked.
    unanswered: Arc<()>,
}

impl<'a> Listener<'a> {
    fn new(bodies: &'a Handle) -> Self {
        Self { bodies, called: None, unanswered: Arc::default() }
    }

    fn call(&mut self) {
        let threads = self.bodies.metrics().num_workers();
        let called = self.called.is_some_and(|at| at.elapsed() < LISTEN_TICK);
        if threads == 1 || called || Arc::strong_count(&self.unanswered) > threads {
            return;
        }
        self.called = Some(Instant::now());
        let answered = Arc::clone(&self.unanswered);
        self.bodies.spawn(async move { drop(answered) });
    }
}

/// A queue, as it was seen last.
struct Seen<'a> {
    lane: &'a Arc<Lane>,
    turns: u64,
    /// When one last waited for a runner.
    waited: Option<Instant>,
    gives_back: mpsc::UnboundedSender<Unsent>,
}

impl<'a> Seen<'a> {
    fn new(lane: &'a Arc<Lane>, gives_back: mpsc::UnboundedSender<Unsent>) -> Self {
        Self { lane, turns: 0, waited: None, gives_back }
    }

    /// Whether the loop that fetches had a turn since the last time.
    fn has_heard(&mut self) -> bool {
        let turns = self.lane.turns.begun();
        std::mem::replace(&mut self.turns, turns) != turns
    }

    /// Whether more jobs are here than slots, and those come free with the ticks of the clock.
    fn waits_for_ticks(&self) -> bool {
        let (pace, slots) = (&self.lane.pace, self.lane.slots.total());
        pace.is_of_ticks(slots) && self.lane.ready.ahead().0 > 0
    }

    /// Calls whoever can start what has a slot, and has them called at once for a while if that was too late.
    fn call_runners(&mut self) {
        self.lane.turns.let_go();
        if self.lane.ready.call_all_runners(WAITS_TICK) {
            self.waited = Some(Instant::now());
        }
        self.lane.pace.set_blocked(self.waited.is_some_and(|at| at.elapsed() < BLOCKED_FOR));
    }
}

/// Ends the leases of what was fetched ahead and has waited.
fn taken_back(lane: &Arc<Lane>, waited: &[WaitingJob]) -> Unsent {
    lane.pace.halt();
    let released = |lease: Lease| {
        let end = End::Released { delay_ms: 0, envelope: None };
        (Arc::clone(lane), Settlement { lease, end })
    };
    let leases = waited.iter().map(WaitingJob::lease);
    leases.filter(|lease| lane.leases.end(lease)).cloned().map(released).collect()
}

/// Sends what goes back, until the server has it.
async fn release(
    incarnation: &Incarnation,
    lane: &Lane,
    mut given: mpsc::UnboundedReceiver<Unsent>,
) {
    while let Some(mut unsent) = given.recv().await {
        while let Ok(more) = given.try_recv() {
            unsent.extend(more);
        }
        let mut reconnect = Reconnect::soon();
        send(incarnation, &mut unsent).await;
        while !unsent.is_empty() {
            reconnect.pause().await;
            send(incarnation, &mut unsent).await;
        }
        // They wait at the server now, and nothing here is due to end.
        lane.look();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_told_of_a_single_job_only_where_it_does_not_listen() {
        let lookout = Lookout::default();
        lookout.tell_of_one();
        lookout.due(false).await;
        // It comes to see by itself.
        lookout.tell_of_one();
        assert!(timeout(4 * WAITS_TICK, lookout.due(false)).await.is_err());
        lookout.due(true).await;
        lookout.tell();
        lookout.due(false).await;
    }
}
