//! What the loop of a queue is to do next: from what it has, without doing any of it.

use std::collections::VecDeque;
use std::time::Instant;

use super::{Fetch, HOLD};
use crate::store::SCRIPT_BYTES;
use crate::worker::outbox::WakeAt;
use crate::worker::pace::Lanes;
use crate::worker::trip::Trip;

/// So many jobs are asked for by one call: enough for the call to cost little, few enough for the server to answer others
/// in between, and for the first of many to start while the rest are on their way.
const CALL_JOBS: usize = 300;

/// While so many bytes wait for a slot nothing is fetched ahead: some calls' worth, so that there is something to start while the next
/// are under way.
const AHEAD_BYTES: usize = 4 * SCRIPT_BYTES;

/// What the loop is to do next.
#[derive(Debug)]
pub(super) struct Plan {
    /// To make a round trip.
    pub(super) ask: Option<Ask>,
    /// How many jobs are ahead of the slots, or under way to be, when that is done.
    pub(super) ahead: usize,
    pub(super) awaits: Awaits,
    /// There is something to send, held back for a moment so that more goes with it.
    pub(super) hold: bool,
    /// To wait for a slot.
    pub(super) acquire: bool,
    pub(super) wake_at: WakeAt,
    /// Nothing is taken before that.
    pub(super) alone_until: Option<Instant>,
}

/// Without what nothing is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaits {
    /// The next job, for which to wait at the server.
    Job,
    /// A heartbeat that is accepted.
    Heartbeat,
    Nothing,
}

/// What a round trip is to ask for.
#[derive(Debug)]
pub(super) struct Ask {
    /// How many free slots to take for what it reserves.
    pub(super) slots: usize,
    /// How many jobs to reserve beyond them.
    pub(super) ahead: usize,
    /// To ask the server even without room.
    pub(super) look: bool,
}

impl Fetch {
    /// What is to be done now.
    pub(super) fn plan(
        &self,
        trips: &VecDeque<Trip>,
        came_free: bool,
        held_since: Option<Instant>,
    ) -> Plan {
        let lane = &self.lane;
        let stopping = lane.stopping.is_cancelled();
        let fresh = lane.pulse.is_fresh();
        let alone_until = lane.suspects.alone_until();
        // Else a body that blocks the runtime would have this worker take the jobs of all free slots, hold them, and take them again.
        let stalled = !lane.ready.are_runners_running();
        let takes = !stopping && !stalled && alone_until.is_none();
        let reserving = self.more && takes && fresh;
        let (waiting, bytes) = lane.ready.ahead();
        let due: usize = waiting + trips.iter().map(|trip| trip.ahead).sum::<usize>();
        // Those that wait, or will, have the first claim to what is free.
        let free = lane.slots.free() + usize::from(came_free);
        let unclaimed = free.saturating_sub(due);

        let target = if bytes < AHEAD_BYTES { self.target() } else { 0 };
        let most = CALL_JOBS.min(self.may_ask);
        let slots = if reserving { unclaimed.min(most) } else { 0 };
        let ahead = if reserving { target.saturating_sub(due).min(most - slots) } else { 0 };
        let want = slots + ahead;

        let settlements = lane.outbox.count();
        let runnable = !lane.ready.is_empty();
        // What is left lasts until more is here, and each call costs the thread on which bodies end.
        let enough = (target - target / 3).clamp(1, CALL_JOBS);
        let worth_it = want == most || target > 0 && want >= enough;
        let anything = settlements > 0 || want > 0;
        // Behind that there may be nothing.
        let looks = trips.iter().any(|trip| trip.looks);
        let held = held_since.is_some_and(|since| since.elapsed() >= HOLD);
        let send = match trips.len() {
            0 => {
                self.look || anything && (!runnable && self.next_look.is_none() || worth_it || held)
            }
            1 => worth_it && !looks,
            _ => false,
        };
        let worth_it_at = settlements + enough.saturating_sub(want).max(1);
        let wake_at = match (trips.len(), &self.next_look) {
            (0, Some(look)) => WakeAt::Count(look.settlements),
            (0, None) if !anything => WakeAt::LastOr(1),
            (0, None) if target > 0 => WakeAt::LastOr(worth_it_at),
            (0, None) => WakeAt::LastOr(usize::MAX),
            // While nothing is left to be started, each body that ends would be the last.
            (1, _) if target > 0 && !looks => WakeAt::Count(worth_it_at),
            _ => WakeAt::Never,
        };
        // One of the slots came free already.
        let slots = slots.saturating_sub(usize::from(came_free));
        Plan {
            ask: send.then_some(Ask { slots, ahead, look: self.look }),
            ahead: if send { due + ahead } else { due },
            awaits: match self.more {
                _ if !takes => Awaits::Nothing,
                true if !fresh => Awaits::Heartbeat,
                false if unclaimed > 0 && self.next_look.is_none() => Awaits::Job,
                _ => Awaits::Nothing,
            },
            hold: trips.is_empty() && anything,
            // All are taken, and nothing of this queue is on its way to one.
            acquire: takes && trips.is_empty() && due == 0 && unclaimed == 0,
            wake_at,
            alone_until,
        }
    }

    /// How many jobs to have ahead of the slots.
    fn target(&self) -> usize {
        let lane = &self.lane;
        if !lane.fetches_ahead || lane.suspects.cautious() {
            return 0;
        }
        let all = self.incarnation.lanes();
        let lanes = Lanes::seen_by(&lane.pace, all.iter().map(|lane| &lane.pace));
        lane.pace.ahead(lane.slots.total(), &lanes)
    }
}
