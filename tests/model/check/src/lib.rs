//! The model as the checker sees it, and what must hold in each of its states.
//!
//! [`hworker_model`] is the model; this visits its states, all of them, with `stateright`.

use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Property};

pub mod control;
pub mod once;

use hworker_model::server::HUSK;
use hworker_model::{Action, Model, State};

/// No accepted job is nowhere before it is settled.
pub const NOT_LOST: &str = "no accepted job is lost";
/// A job waits, is scheduled, is in one inbox, or is under one lease; once settled it is nowhere.
pub const ONE_PLACE: &str = "a job is in exactly one structure";
/// A job is settled for good at most once.
pub const SETTLED_ONCE: &str = "no job is settled twice";
/// No body starts for a job that is settled, or was deleted.
pub const NO_START_AFTER: &str = "no body starts after a settlement";
/// No two bodies of a job run under leases that no fault has touched.
pub const EXCLUSIVE: &str = "two bodies of a job run only where a fault explains it";
/// When faults stop, every job comes to its settlement, and no husk is left.
pub const SETTLES: &str = "every job is settled once the faults stop";
/// The same for all other jobs while the body of one never returns.
pub const NO_JOB_STOPS_ANOTHER: &str = "no job stops another";

/// A husk is dropped, and there are as many as are counted.
pub const HUSKS: &str = "every husk is counted, and none is taken for broken";

struct Protocol(Model);

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
        fn jobs(state: &State) -> impl Iterator<Item = (u8, usize, u8)> {
            let ended = (0..).zip(&state.server().ended);
            ended.map(|(job, ended)| (job, state.server().places(job), *ended))
        }
        vec![
            Property::always(NOT_LOST, |_, state| {
                jobs(state).all(|(job, places, ended)| {
                    places + usize::from(ended) > 0 || state.carries(job)
                })
            }),
            Property::always(ONE_PLACE, |_, state| {
                jobs(state).all(|(_, places, ended)| places + usize::from(ended.min(1)) <= 1)
            }),
            Property::always(SETTLED_ONCE, |_, state| jobs(state).all(|(.., ended)| ended <= 1)),
            Property::always(NO_START_AFTER, |_, state: &State| !state.started_after_end()),
            Property::always(EXCLUSIVE, |_, state: &State| !state.doubled()),
            Property::always(HUSKS, |_, state: &State| {
                let server = state.server();
                server.places(HUSK) == usize::from(server.husks) && !server.husk_broken
            }),
            Property::always(SETTLES, |model: &Self, state: &State| {
                model.0.comes_to_its_end(state, None)
            }),
            Property::always(NO_JOB_STOPS_ANOTHER, |model: &Self, state: &State| {
                let hangs = state.may_hang();
                hangs.is_none() || model.0.comes_to_its_end(state, hangs)
            }),
        ]
    }
}

/// What a check found.
pub struct Checked<A> {
    /// Different states.
    pub states: usize,
    /// Steps between them that were taken.
    pub steps: usize,
    /// The length of the longest of the shortest ways to a state.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// What does not hold, and the events that lead there.
    pub broken: Option<(&'static str, Vec<A>)>,
}

/// Visits every state, on so many threads, until something is found that must not be.
#[must_use]
pub fn check(model: Model, threads: usize) -> Checked<Action> {
    visit(Protocol(model), threads)
}

fn visit<M>(model: M, threads: usize) -> Checked<M::Action>
where
    M: stateright::Model<
            State: Clone + fmt::Debug + Hash + PartialEq + Send + Sync,
            Action: Clone + fmt::Debug + PartialEq + Send + Sync,
        > + Send
        + Sync
        + 'static,
{
    let begun = Instant::now();
    let builder = model.checker().threads(threads);
    let checker = builder.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    // One state can break several; they are named in the order in which they matter.
    let mut found = checker.discoveries();
    let names = checker.model().properties().into_iter().map(|property| property.name);
    let found = names.into_iter().find_map(|name| found.remove_entry(name));
    Checked {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        took: begun.elapsed(),
        broken: found.map(|(name, path)| (name, path.into_actions())),
    }
}

impl<A: fmt::Debug> fmt::Display for Checked<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, steps, depth, took, .. } = self;
        write!(f, "{states} states, {steps} steps, depth {depth}, {:.1} s", took.as_secs_f64())?;
        if let Some((property, events)) = &self.broken {
            write!(f, "\nNOT TRUE: {property}, after")?;
            for (number, event) in events.iter().enumerate() {
                write!(f, "\n{:4}. {event:?}", number + 1)?;
            }
        }
        Ok(())
    }
}
