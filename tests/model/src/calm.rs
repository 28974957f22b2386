//! What becomes of a state when no further fault strikes: every job must come to its end.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use crate::server::{End, HUSK, Job};
use crate::state::{Action, Model, Process, State, Up};

/// States of which it is known that all comes to its end; most ways from one state to another lead through these.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memo(Arc<[Mutex<HashSet<u64>>; 16]>);

impl Memo {
    fn shard(&self, key: u64) -> std::sync::MutexGuard<'_, HashSet<u64>> {
        let shard = &self.0[(key % 16) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No way to the end is longer.
const STEPS: usize = 400;

impl Model {
    /// Whether every job is settled when from now on no fault strikes, while the bodies of one job may never return.
    ///
    /// What is on its way from broken connections may be lost, and a stopped or killed process stays so while another one
    /// runs: there must be one way that needs neither, and it is always the same one, so it has no need of luck.
    #[must_use]
    pub fn comes_to_its_end(&self, state: &State, hangs: Option<Job>) -> bool {
        let mut way = Vec::new();
        // Alike are all that differ only in what could still have gone wrong.
        let mut state = state.clone();
        state.late.clear();
        state.seen.clear();
        (state.faults, state.retries, state.edits) = (0, 0, 0);
        state.sound = crate::state::APART;
        let found = loop {
            let key = fingerprint(&state, hangs);
            if done(&state, hangs) || self.settling.shard(key).contains(&key) {
                break true;
            }
            way.push(key);
            if way.len() > STEPS {
                break false;
            }
            let mut actions = Vec::new();
            self.possible(&state, &mut actions);
            let calm = actions
                .into_iter()
                .filter_map(|action| rank(&state, action, hangs).map(|rank| (rank, action)));
            let Some((_, action)) = calm.min_by_key(|(rank, _)| *rank) else { break false };
            state = self.next(&state, action);
            state.late.clear();
            state.sound = crate::state::APART;
        };
        if found {
            for key in way {
                self.settling.shard(key).insert(key);
            }
        }
        found
    }
}

impl State {
    /// The job whose body might never return: the first of those that run.
    #[must_use]
    pub fn may_hang(&self) -> Option<Job> {
        let up = self.processes.iter().filter(|process| process.up != Up::Down);
        up.flat_map(Process::running).map(|(job, _)| job).min()
    }
}

fn done(state: &State, hangs: Option<Job>) -> bool {
    let ended = (0..).zip(&state.server.ended).all(|(job, ended)| *ended > 0 || Some(job) == hangs);
    ended && state.server.places(HUSK) == 0 && !state.refusing
}

fn fingerprint(state: &State, hangs: Option<Job>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (state, hangs).hash(&mut hasher);
    hasher.finish()
}

/// In which order things happen when all is calm; `None` for what is a fault, or luck.
fn rank(state: &State, action: Action, hangs: Option<Job>) -> Option<u8> {
    let runs = |state: &State| state.processes.iter().any(Process::runs);
    let rank = match action {
        Action::Accept => 0,
        // With a body that hangs, every process is needed.
        Action::Wake(_) | Action::Restart(_) if hangs.is_some() => 1,
        Action::Wake(_) if !runs(state) => 1,
        Action::Restart(_) if !runs(state) => 2,
        Action::Receive(_) => 3,
        Action::ReserveWithWait(_) => 4,
        Action::ReceiveWait(_) => 5,
        Action::PutDown(_) => 6,
        Action::SideSettle(_) => 7,
        Action::Settle(_) | Action::TakeParkedArrives(_) | Action::ReceiveParked(_) => 8,
        Action::Connect(_) => 9,
        Action::Suspect(_) => 10,
        Action::Lose(..) => 11,
        Action::Beat(_) => 12,
        Action::Finish(number, lease, End::Ack) => {
            let held = state.processes[usize::from(number)].held(lease)?;
            if Some(held.job) == hangs {
                return None;
            }
            13
        }
        Action::Park(..) | Action::Drop(..) => 13,
        Action::Start(..) => 14,
        Action::TakeParked(_) | Action::Reserve(_) => 15,
        Action::Recover(_) => 16,
        Action::Sweep(..) => 17,
        Action::Promote(_) => 18,
        Action::BreakParked(_) | Action::Retire(_) => 19,
        Action::Tick => 20,
        _ => return None,
    };
    Some(rank)
}
