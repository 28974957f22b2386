//! What the fetch loop of a queue does next: a plan from what it knows, without any effect.

use std::time::{Duration, Instant};

use tokio::time::sleep_until;

use crate::store::SCRIPT_BYTES;
use crate::worker::intake::in_flight::ClaimRequest;
use crate::worker::state::{Consumer, Paces, Session, WakeAt};

/// How many jobs one call claims at most: enough to make the call cheap, few enough for the server to answer others in between, and for the
/// first jobs to start while the rest are on their way.
const CALL_JOBS: usize = 300;

/// While this many bytes wait for a slot nothing is fetched ahead. It is the size of several calls, so that there are jobs to start while
/// the next calls are in flight.
const AHEAD_BYTES: usize = 4 * SCRIPT_BYTES;

/// How long a settlement waits at most for others to go with it, while there is a job to start.
pub(crate) const HOLD: Duration = Duration::from_millis(2);

/// What the fetch loop does next.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The call to make.
    pub(crate) claim: Option<ClaimRequest>,
    /// How many jobs are ahead of the slots, or will be, after this call.
    pub(crate) ahead: usize,
    pub(crate) awaits: Awaits,
    /// Jobs of this queue wait for room.
    pub(crate) has_backlog: bool,
    /// There is something to send. It is held back for a moment so that more goes with it.
    pub(crate) hold: bool,
    /// Wait for a slot.
    pub(crate) acquire: bool,
    pub(crate) wake_at: WakeAt,
    /// Nothing is reserved before this.
    pub(crate) alone_until: Option<Instant>,
}

/// What the server may have waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum More {
    Nothing,
    /// Jobs that have limits, none of which is fetched ahead.
    ForSlots,
    Jobs,
}

/// The condition without which nothing is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// The next job: the worker waits for it at the server.
    Job,
    /// A heartbeat that is accepted.
    Heartbeat,
    Nothing,
}

/// The knowledge of the fetch loop when it plans.
pub(crate) struct Known<'a> {
    pub(crate) session: &'a Session,
    pub(crate) consumer: &'a Consumer,
    /// How many calls are in flight, how many jobs they bring beyond the slots, and whether one of them looks.
    pub(crate) calls: usize,
    pub(crate) coming: usize,
    pub(crate) looks: bool,
    pub(crate) more: More,
    /// Ask the server, even without room.
    pub(crate) look: bool,
    /// How many jobs one call may claim.
    pub(crate) may_ask: usize,
    /// How many slots came free for this queue and do not count among the free ones.
    pub(crate) came_free: usize,
    /// Since when something to send is held back.
    pub(crate) held_since: Option<Instant>,
}

impl Known<'_> {
    /// Plans the next step.
    pub(crate) fn plan(&self) -> Plan {
        let Self { consumer, calls, coming, looks, came_free, held_since, .. } = *self;
        let stopping = consumer.takes_none();
        let fresh = consumer.freshness.is_fresh();
        let alone_until = consumer.suspects.alone_until();
        // Otherwise, if a body blocks the runtime, this worker would reserve jobs for all free slots, hold them, and reserve them again.
        let stalled = !consumer.buffer.are_runners_running();
        let takes = !stopping && !stalled && alone_until.is_none();
        let reserving = self.more > More::Nothing && takes && fresh;
        let (waiting, bytes) = consumer.buffer.ahead();
        let due = waiting + coming;
        // Waiting jobs, and those on their way, come first for the free slots.
        let free = consumer.slots.free() + came_free;
        let unclaimed = free.saturating_sub(due);

        let is_ahead = bytes < AHEAD_BYTES && self.more != More::ForSlots;
        let target = if is_ahead { self.target() } else { 0 };
        let most = CALL_JOBS.min(self.may_ask);
        let slots = if reserving { unclaimed.min(most) } else { 0 };
        let ahead = if reserving { target.saturating_sub(due).min(most - slots) } else { 0 };
        let want = slots + ahead;

        let settlements = consumer.outbox.count();
        let runnable = !consumer.buffer.is_empty();
        // A few jobs are not worth a call: those that wait here keep the slots busy until there is room for more.
        let enough = (target - target / 3).clamp(1, CALL_JOBS);
        let worth_it = want == most || target > 0 && want >= enough;
        let anything = settlements > 0 || want > 0;
        let held = held_since.is_some_and(|since| since.elapsed() >= HOLD);
        let send = match calls {
            0 => self.look || anything && (!runnable || worth_it || held),
            // Behind a call that looks there may be nothing.
            1 => worth_it && !looks,
            _ => false,
        };
        let worth_it_at = settlements + enough.saturating_sub(want).max(1);
        let wake_at = match calls {
            0 if !anything => WakeAt::LastOr(1),
            0 if target > 0 => WakeAt::LastOr(worth_it_at),
            0 => WakeAt::LastOr(usize::MAX),
            // While no job is left to start, each body that ends would be the last.
            1 if target > 0 && !looks => WakeAt::Count(worth_it_at),
            _ => WakeAt::Never,
        };
        // The slot that came free is one of these.
        let slots = slots.saturating_sub(came_free);
        Plan {
            claim: send.then_some(ClaimRequest { slots, ahead, look: self.look }),
            ahead: if send { due + ahead } else { due },
            awaits: match self.more > More::Nothing {
                _ if !takes => Awaits::Nothing,
                true if !fresh => Awaits::Heartbeat,
                false if unclaimed > 0 => Awaits::Job,
                _ => Awaits::Nothing,
            },
            has_backlog: reserving || waiting > 0 && takes,
            hold: calls == 0 && anything,
            // All slots are taken, and no job of this queue is on its way to one.
            acquire: takes && calls == 0 && due == 0 && unclaimed == 0,
            wake_at,
            alone_until,
        }
    }

    /// How many jobs to have ahead of the slots.
    fn target(&self) -> usize {
        let consumer = self.consumer;
        if !consumer.fetches_ahead || consumer.suspects.cautious() {
            return 0;
        }
        let all = self.session.consumers();
        let consumers = Paces::seen_by(&consumer.pace, all.iter().map(|consumer| &consumer.pace));
        consumer.pace.ahead(consumer.slots.total(), &consumers)
    }
}

/// Waits until the time of the next plan, if there is one.
pub(crate) async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
