//! Batches and their callbacks: nothing of what must hold is broken in any order of events; and with any one guard taken out the checker finds the
//! events that break it.

use hworker_check::once::{
    COUNTS, NO_CALLBACK_EARLY, NO_CALLBACK_MISSING, NO_CALLBACK_TWICE, check_relay,
};
use hworker_model::relay::{Guards, Relay};

fn holds(what: &str, model: Relay) {
    let checked = check_relay(model, 2);
    println!("{what}: {checked}");
    assert!(checked.broken.is_none(), "{checked}");
}

/// The checker finds that this does not hold.
fn finds(broken: &str, mut model: Relay, take_out: impl FnOnce(&mut Guards)) {
    take_out(&mut model.guards);
    // One thread visits them in the same order each time.
    let checked = check_relay(model, 1);
    println!("{checked}");
    let (property, events) = checked.broken.expect("a counterexample");
    assert_eq!(broken, property, "after {events:?}");
}

#[test]
fn answers_that_are_lost_and_a_death() {
    holds(
        "two members, a failure, an answer lost, a death",
        Relay { failures: 1, lost: 1, deaths: 1, ..Relay::new(2, 2) },
    );
}

#[test]
fn a_worker_that_stands_still() {
    holds(
        "two members, a failure, a worker that stands still",
        Relay { failures: 1, stalls: 1, ..Relay::new(2, 2) },
    );
    holds(
        "one member, an answer lost, a worker that stands still, a death",
        Relay { lost: 1, stalls: 1, deaths: 1, ..Relay::new(1, 3) },
    );
}

#[test]
fn a_failed_member_that_runs_again() {
    holds(
        "two members, a failure, run again, a death",
        Relay { failures: 1, requeues: 1, deaths: 1, ..Relay::new(2, 2) },
    );
}

#[test]
fn a_server_that_falls_back() {
    holds(
        "two members, a failure, an answer lost, a failover",
        Relay { failures: 1, lost: 1, failovers: 1, ..Relay::new(2, 2) },
    );
}

#[test]
fn a_batch_that_grows() {
    holds(
        "three members, one after the other, a failure, an answer lost, a death",
        Relay { is_open: true, failures: 1, lost: 1, deaths: 1, ..Relay::new(3, 2) },
    );
}

#[test]
fn without_the_note_in_the_settlement() {
    let model = Relay { deaths: 1, ..Relay::new(1, 2) };
    finds(NO_CALLBACK_MISSING, model, |guards| guards.note_in_settle = false);
}

#[test]
fn without_the_lease_at_settle() {
    let model = Relay { stalls: 1, ..Relay::new(1, 2) };
    finds(COUNTS, model, |guards| guards.lease_at_settle = false);
}

#[test]
fn without_the_bit_at_apply() {
    let model = Relay { lost: 1, ..Relay::new(2, 2) };
    finds(COUNTS, model, |guards| guards.bit_at_apply = false);
}

#[test]
fn without_what_is_due_at_apply() {
    let model = Relay { lost: 1, ..Relay::new(1, 1) };
    finds(NO_CALLBACK_MISSING, model, |guards| guards.due_at_apply = false);
}

#[test]
fn without_the_field_at_push() {
    let model = Relay { lost: 1, ..Relay::new(1, 1) };
    finds(NO_CALLBACK_TWICE, model, |guards| guards.field_at_push = false);
}

#[test]
fn without_the_push_before_the_drop() {
    let model = Relay { deaths: 1, ..Relay::new(1, 2) };
    finds(NO_CALLBACK_MISSING, model, |guards| guards.push_before_drop = false);
}

#[test]
fn without_a_look_at_notes_of_others() {
    let model = Relay { lost: 1, ..Relay::new(1, 1) };
    finds(NO_CALLBACK_MISSING, model, |guards| guards.look = false);
    let model = Relay { deaths: 1, ..Relay::new(1, 2) };
    finds(NO_CALLBACK_MISSING, model, |guards| guards.look = false);
}

#[test]
fn without_a_second_delivery() {
    let model = Relay { failovers: 1, ..Relay::new(2, 1) };
    finds(NO_CALLBACK_MISSING, model, |guards| guards.delivered_again = false);
}

#[test]
fn without_the_seal_at_apply() {
    let model = Relay { is_open: true, ..Relay::new(2, 1) };
    finds(NO_CALLBACK_EARLY, model, |guards| guards.seal_at_apply = false);
}
