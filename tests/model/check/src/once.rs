//! Unique jobs, cron, tables, broadcasts, batches and bulks as the checker sees them.

use stateright::Property;

use hworker_model::{broadcast, cron, grow, known, relay, staged, tables};

use crate::{Checked, visit};

/// Of one key one job waits or runs.
pub const ONE_OF_A_KEY: &str = "of one key one job waits or runs";
/// A job that was taken in comes to its turn.
pub const NONE_FORGOTTEN: &str = "no job that was taken in is forgotten";
/// What somebody cancelled while it ran does not begin again.
pub const ORDERS_HOLD: &str = "what was cancelled while it ran does not begin again";
/// No lock outlives its job.
pub const NO_LOCK_LEFT: &str = "no lock outlives its job";
/// No occurrence runs twice.
pub const NOT_TWICE: &str = "no occurrence runs twice";
/// None is left out.
pub const NOT_LEFT_OUT: &str = "no occurrence is left out";
/// An old release takes nothing back.
pub const NOT_TAKEN_BACK: &str = "an old release takes nothing back";
/// The newest table that lives comes into force.
pub const NEWEST: &str = "the newest table that lives comes into force";
/// No more workers run a broadcast than are wanted.
pub const WANTED: &str = "no more workers run a broadcast than are wanted";
/// No worker runs it twice.
pub const ONCE_A_WORKER: &str = "where a broadcast ended it does not begin again";
/// As many as are wanted run it.
pub const NONE_LEFT_OUT: &str = "as many run a broadcast as are wanted and live";
/// The counts of a batch are those of its members that have ended.
pub const COUNTS: &str = "the counts of a batch are those of its members that have ended";
/// No callback is enqueued twice.
pub const NO_CALLBACK_TWICE: &str = "no callback is enqueued twice";
/// None is enqueued early.
pub const NO_CALLBACK_EARLY: &str = "no callback is enqueued before what it says is true";
/// None is missing.
pub const NO_CALLBACK_MISSING: &str = "no callback is missing, and no note is left";

/// No job is added to a batch twice.
pub const NOT_ADDED_TWICE: &str = "no job is added to a batch twice";
/// A batch is not over early.
pub const NOT_OVER_EARLY: &str = "a batch is not over while members wait or are added";
/// Everything is added.
pub const ALL_ADDED: &str = "everything is added, and the batch is over";

/// Of a bulk each job comes once.
pub const COMES_ONCE: &str = "each job of a bulk comes once, in its order";
/// All come or none.
pub const ALL_OR_NONE: &str = "all jobs of a bulk come or none, as its producer says";

macro_rules! model {
    ($protocol:ident of $model:ty, $state:ty, $action:ty, [$($property:expr),* $(,)?]) => {
        struct $protocol($model);

        impl stateright::Model for $protocol {
            type State = $state;
            type Action = $action;

            fn init_states(&self) -> Vec<$state> {
                vec![self.0.begin()]
            }

            fn actions(&self, state: &$state, actions: &mut Vec<$action>) {
                self.0.possible(state, actions);
            }

            fn next_state(&self, state: &$state, action: $action) -> Option<$state> {
                let next = self.0.next(state, action);
                (next != *state).then_some(next)
            }

            fn properties(&self) -> Vec<Property<Self>> {
                vec![$($property),*]
            }
        }
    };
}

model!(Known of known::Known, known::State, known::Action, [
    Property::always(ONE_OF_A_KEY, |model: &Self, state: &known::State| {
        state.one_of_a_key(&model.0)
    }),
    Property::always(NONE_FORGOTTEN, |_, state: &known::State| state.none_is_forgotten()),
    Property::always(ORDERS_HOLD, |_, state: &known::State| state.orders_hold()),
    Property::always(NO_LOCK_LEFT, |_, state: &known::State| state.no_lock_is_left()),
]);

model!(Cron of cron::Cron, cron::State, cron::Action, [
    Property::always(NOT_TWICE, |_, state: &cron::State| state.none_runs_twice()),
    Property::always(NOT_LEFT_OUT, |_, state: &cron::State| state.none_is_left_out()),
]);

model!(Tables of tables::Tables, tables::State, tables::Action, [
    Property::always(NOT_TAKEN_BACK, |_, state: &tables::State| state.nothing_is_taken_back()),
    Property::always(NEWEST, |model: &Self, state: &tables::State| {
        model.0.newest_comes_into_force(state)
    }),
]);

model!(Broadcast of broadcast::Broadcast, broadcast::State, broadcast::Action, [
    Property::always(WANTED, |model: &Self, state: &broadcast::State| {
        state.no_more_than_wanted(&model.0)
    }),
    Property::always(ONCE_A_WORKER, |_, state: &broadcast::State| state.once_a_worker()),
    Property::always(NONE_LEFT_OUT, |model: &Self, state: &broadcast::State| {
        state.none_is_left_out(&model.0)
    }),
]);

model!(Relay of relay::Relay, relay::State, relay::Action, [
    Property::always(COUNTS, |_, state: &relay::State| state.counts_are_right()),
    Property::always(NO_CALLBACK_TWICE, |_, state: &relay::State| state.no_callback_twice()),
    Property::always(NO_CALLBACK_EARLY, |_, state: &relay::State| state.no_callback_early()),
    Property::always(NO_CALLBACK_MISSING, |model: &Self, state: &relay::State| {
        state.no_callback_is_missing(&model.0)
    }),
]);

model!(Grow of grow::Grow, grow::State, grow::Action, [
    Property::always(NOT_ADDED_TWICE, |_, state: &grow::State| state.none_is_added_twice()),
    Property::always(NOT_OVER_EARLY, |_, state: &grow::State| state.is_not_over_early()),
    Property::always(ALL_ADDED, |model: &Self, state: &grow::State| {
        state.nothing_is_left(&model.0)
    }),
]);

model!(Staged of staged::Staged, staged::State, staged::Action, [
    Property::always(COMES_ONCE, |_, state: &staged::State| state.each_comes_once()),
    Property::always(ALL_OR_NONE, |model: &Self, state: &staged::State| {
        state.all_come_or_none(&model.0)
    }),
]);

/// Visits every state of unique jobs.
#[must_use]
pub fn check_known(model: known::Known, threads: usize) -> Checked<known::Action> {
    visit(Known(model), threads)
}

/// Visits every state of a cron entry.
#[must_use]
pub fn check_cron(model: cron::Cron, threads: usize) -> Checked<cron::Action> {
    visit(Cron(model), threads)
}

/// Visits every state of tables.
#[must_use]
pub fn check_tables(model: tables::Tables, threads: usize) -> Checked<tables::Action> {
    visit(Tables(model), threads)
}

/// Visits every state of a broadcast.
#[must_use]
pub fn check_broadcast(model: broadcast::Broadcast, threads: usize) -> Checked<broadcast::Action> {
    visit(Broadcast(model), threads)
}

/// Visits every state of a batch and its callbacks.
#[must_use]
pub fn check_relay(model: relay::Relay, threads: usize) -> Checked<relay::Action> {
    visit(Relay(model), threads)
}

/// Visits every state of a batch that grows.
#[must_use]
pub fn check_grow(model: grow::Grow, threads: usize) -> Checked<grow::Action> {
    visit(Grow(model), threads)
}

/// Visits every state of a bulk of which all jobs come or none.
#[must_use]
pub fn check_staged(model: staged::Staged, threads: usize) -> Checked<staged::Action> {
    visit(Staged(model), threads)
}
