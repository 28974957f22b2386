//! The protocol as it is: nothing of what must hold is broken in any order of events, whatever single fault strikes two jobs
//! and whichever two strike one. `cargo run -- 1 2`, or with more jobs and faults, visits more; docs/reliability.md has
//! how many states that were.

use hworker_check::check;
use hworker_model::{Allowed, Model};

fn holds(what: &str, model: Model) {
    let checked = check(model, 2);
    println!("{what}: {checked}");
    assert!(checked.broken.is_none(), "{checked}");
}

const NONE: Allowed = Allowed::NONE;

#[test]
fn two_jobs_and_any_fault() {
    holds("two jobs, one fault", Model::new(2, 1, Allowed::ALL));
}

#[test]
fn a_retry_and_any_fault() {
    holds("one job with a retry, one fault", Model::new(1, 1, Allowed::ALL).retries(1));
}

#[test]
fn two_deaths() {
    let allowed = Allowed { kill: true, stop: true, terminate: true, bury: true, ..NONE };
    holds("one job, two of kill, stop, terminate, bury", Model::new(1, 2, allowed));
}

#[test]
fn two_faults_of_the_server() {
    let allowed = Allowed { silence: true, refuse: true, jump: true, ..NONE };
    holds("one job, two of silence, refuse, jump", Model::new(1, 2, allowed));
}

#[test]
fn a_stop_and_a_broken_connection() {
    holds("one job, two of stop, cut", Model::new(1, 2, Allowed { stop: true, cut: true, ..NONE }));
}

/// One process; nobody is left to run anything once it stops.
const ALONE: Allowed = Allowed { terminate: false, ..Allowed::ALL };

#[test]
fn two_slots_and_any_fault() {
    let model = Model::new(2, 1, ALONE).two_slots();
    holds("one process with two slots: two jobs, one fault", model);
}

#[test]
fn two_slots_and_two_faults() {
    let allowed = Allowed { silence: false, refuse: false, jump: false, bury: false, ..ALONE };
    let model = Model::new(1, 2, allowed).two_slots();
    holds("one process with two slots: one job, two of kill, stop, cut, overdue", model);
}

#[test]
fn a_deploy_and_any_fault() {
    holds("a deploy: one job, one fault", Model::new(1, 1, Allowed::ALL).deploy());
    holds("a deploy: one job with a retry", Model::new(1, 0, NONE).retries(1).deploy());
}

#[test]
fn an_operator_and_any_fault() {
    holds("an operator: one job, one edit, one fault", Model::new(1, 1, Allowed::ALL).edits(1));
}

#[test]
fn two_operators() {
    holds("two operators: two jobs", Model::new(2, 0, NONE).edits(2));
}

#[test]
fn an_operator_and_two_slots() {
    let model = Model::new(2, 1, ALONE).two_slots().edits(1);
    holds("an operator: one process with two slots, two jobs, one edit, one fault", model);
}
