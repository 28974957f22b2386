//! Order, limits and pauses as the checker sees them.

use stateright::Property;

use hworker_model::control::{Action, Control, State};

use crate::{Checked, visit};

/// A job stands in one place, and goes back to the list that it came from.
pub const IN_PLACE: &str = "a job is in exactly one place, which is its own";
/// No more than one limited job runs, and no place is taken without a job.
pub const LIMIT: &str = "the limit is kept, and no place leaks";
/// A high job is taken before a plain one.
pub const ORDER: &str = "no job is taken before a higher one";
/// From a paused queue no job is taken.
pub const PAUSE: &str = "no job is taken from a paused queue";
/// Whatever can run wakes an idle worker.
pub const WAKES: &str = "nothing that could run waits while a worker is idle";
/// Nobody asks again and again.
pub const CALM: &str = "no worker asks again and again in vain";

struct Protocol(Control);

impl stateright::Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.0.begin()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.0.possible(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let next = self.0.next(state, action);
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(IN_PLACE, |model: &Self, state: &State| {
                state.all_are_in_place(&model.0)
            }),
            Property::always(LIMIT, |model: &Self, state: &State| state.limit_is_kept(&model.0)),
            Property::always(ORDER, |_, state: &State| state.keeps_order()),
            Property::always(PAUSE, |_, state: &State| state.keeps_pause()),
            Property::always(WAKES, |model: &Self, state: &State| {
                state.nothing_is_forgotten(&model.0)
            }),
            Property::always(CALM, |_, state: &State| state.nobody_spins()),
        ]
    }
}

/// Visits every state, on so many threads, until something is found that must not be.
#[must_use]
pub fn check(model: Control, threads: usize) -> Checked<Action> {
    visit(Protocol(model), threads)
}
