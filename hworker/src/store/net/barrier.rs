//! The barriers of one connection: `WAIT` or `WAITAOF`, sent behind writes, answered when they are as safe as asked.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::fault::Fault;
use crate::durability::Durability;
use crate::store::bounds::CALLS_IN_FLIGHT;

/// Calls that one barrier covers. A connection has room for more at once, so each call is sent at once, ahead of the barrier.
const CALLS: usize = CALLS_IN_FLIGHT / 2;

/// Which writes the next barrier covers, and whether further writes have to wait for it.
///
/// The server executes nothing on a connection until it has answered the barrier. If each write had a barrier of its own, the writes of
/// many queues would wait for each other, a second each with `appendfsync everysec`. So one barrier covers all writes since the last one,
/// as databases commit in groups, and later writes wait until it is answered.
#[derive(Debug)]
pub(super) struct Barriers {
    asked: Durability,
    state: Mutex<State>,
    /// A barrier is under way or full: a write would wait behind it.
    closed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    /// The writes since the last barrier.
    round: Option<Round>,
    /// A task sends the next barrier.
    has_sender: bool,
}

/// The calls that one barrier covers.
#[derive(Debug)]
pub(super) struct Round {
    calls: usize,
    tell: watch::Sender<Option<Answer>>,
}

pub(super) type Answer = Result<(), Fault>;

impl Barriers {
    pub(super) fn new(asked: Durability) -> Self {
        Self { asked, state: Mutex::default(), closed: watch::Sender::new(false) }
    }

    /// How safe writes have to be.
    pub(super) fn asked(&self) -> Durability {
        self.asked
    }

    /// Tells whether a write would wait behind a barrier.
    pub(super) fn closed(&self) -> watch::Receiver<bool> {
        self.closed.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts calls that are on the connection. Gives where the answer comes, and whether the caller has to start the sender.
    pub(super) fn join(&self, calls: usize) -> (watch::Receiver<Option<Answer>>, bool) {
        let mut state = self.state();
        let round =
            state.round.get_or_insert_with(|| Round { calls: 0, tell: watch::Sender::new(None) });
        round.calls += calls;
        if round.calls >= CALLS {
            self.closed.send_replace(true);
        }
        let told = round.tell.subscribe();
        (told, !std::mem::replace(&mut state.has_sender, true))
    }

    /// How many calls the next barrier covers so far, and whether it can cover more.
    pub(super) fn joined(&self) -> (usize, bool) {
        let calls = self.state().round.as_ref().map_or(0, |round| round.calls);
        (calls, calls < CALLS)
    }

    /// The calls that the next barrier covers; `None` if there are none, and then the sender ends.
    pub(super) fn next(&self) -> Option<Round> {
        let mut state = self.state();
        let round = state.round.take();
        state.has_sender = round.is_some();
        self.closed.send_replace(state.has_sender);
        round
    }

    /// A barrier was answered.
    pub(super) fn answered(&self, round: &Round, answer: Answer) {
        round.tell.send_replace(Some(answer));
        self.closed.send_replace(false);
    }

    /// The sender ended with its runtime; all that wait for an answer get none.
    pub(super) fn abandon(&self) {
        *self.state() = State::default();
        self.closed.send_replace(false);
    }
}
