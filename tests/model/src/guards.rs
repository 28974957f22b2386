//! What keeps the protocol right.

/// What keeps the protocol right, each of which can be taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Guards {
    /// `settle.lua`, `release.lua`: a settlement acts only if its lease was still there.
    pub lease_at_settle: bool,
    /// An ack ends the lease that it names and no other: without, it ends whatever lease the job has, as one ancestor did.
    pub ack_by_lease: bool,
    /// `recover.lua`: only while the heartbeat is the one that the monitor saw.
    pub heartbeat_at_recover: bool,
    /// `recover.lua`: takes the inbox along.
    pub inbox_at_recover: bool,
    /// `recover.lua`: marks the worker dead in the same step; `reserve.lua`, `heartbeat.lua`, `reconcile.lua`: void for the dead.
    pub dead_mark: bool,
    /// `reserve.lua`: takes from the list and puts under the lease in one step.
    pub one_step_reserve: bool,
    /// `recover.lua`: takes from the dead worker and puts into the list in one step.
    pub one_step_recover: bool,
    /// `promote.lua`: the same for what is due.
    pub one_step_promote: bool,
    /// Dead workers are looked at again and again.
    pub sweep: bool,
    /// A monitor counts only heartbeats of its own that the server accepted as writes.
    pub accepted_writes: bool,
    /// A worker is watched over two intervals and not only one.
    pub watched_long: bool,
    /// The heartbeat compares what the server holds for the worker with what it believes.
    pub compared_with_beat: bool,
    /// What came beyond the free slots is given back at once.
    pub surplus_released: bool,
    /// A record that is missing is void, to all but the first `reconcile.lua`.
    pub missing_is_void: bool,
    /// No body starts, and no wait is sent, without a heartbeat that was accepted lately.
    pub fenced_by_own_beat: bool,
    /// `reserve.lua`: does nothing under an old session.
    pub session_at_reserve: bool,
    /// What a reserve of an older session brings is not started once a younger one has compared: `Leases::reserved`.
    pub late_answer_refused: bool,
    /// A settlement without an answer is sent again.
    pub sent_again: bool,
    /// A worker counts a parked job as looked at only when it knows what became of its call: `intake/parked.rs`.
    pub looked_after_answer: bool,
    /// `settle.lua`: a job is parked under a token greater than all before, so no worker has looked past it.
    pub parked_token_grows: bool,
    /// `reconcile.lua`: gives back what was never seen.
    pub unseen_given_back: bool,
    /// `edit.lua`: a waiting job is changed only where its bytes stand still.
    pub bytes_at_edit: bool,
    /// `edit.lua`: what is done to a job is done by the one whose removal took it out.
    pub removal_at_edit: bool,
    /// `settle.lua`: a husk is dropped, and counted down, only while its lease is held.
    pub lease_at_husk: bool,
}

impl Guards {
    /// The protocol as it is.
    pub const ALL: Self = Self {
        lease_at_settle: true,
        ack_by_lease: true,
        heartbeat_at_recover: true,
        inbox_at_recover: true,
        dead_mark: true,
        one_step_reserve: true,
        one_step_recover: true,
        one_step_promote: true,
        sweep: true,
        accepted_writes: true,
        watched_long: true,
        compared_with_beat: true,
        surplus_released: true,
        missing_is_void: true,
        fenced_by_own_beat: true,
        session_at_reserve: true,
        late_answer_refused: true,
        sent_again: true,
        looked_after_answer: true,
        parked_token_grows: true,
        unseen_given_back: true,
        bytes_at_edit: true,
        removal_at_edit: true,
        lease_at_husk: true,
    };
}
