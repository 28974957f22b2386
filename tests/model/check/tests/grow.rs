//! Batches that grow: nothing of what must hold is broken in any order of events; and with any one guard taken out the checker finds the events that
//! break it.

use hworker_check::once::{ALL_ADDED, NOT_ADDED_TWICE, NOT_OVER_EARLY, check_grow};
use hworker_model::grow::{Grow, Guards};

fn holds(what: &str, model: Grow) {
    let checked = check_grow(model, 2);
    println!("{what}: {checked}");
    assert!(checked.broken.is_none(), "{checked}");
}

/// The checker finds that this does not hold.
fn finds(broken: &str, mut model: Grow, take_out: impl FnOnce(&mut Guards)) {
    take_out(&mut model.guards);
    // One thread visits them in the same order each time.
    let checked = check_grow(model, 1);
    println!("{checked}");
    let (property, events) = checked.broken.expect("a counterexample");
    assert_eq!(broken, property, "after {events:?}");
}

#[test]
fn a_member_that_runs_again() {
    holds("two parts, two deaths", Grow { deaths: 2, ..Grow::new(2) });
    holds("two parts, a death, a stall", Grow { deaths: 1, stalls: 1, ..Grow::new(2) });
}

#[test]
fn what_is_given_up() {
    holds("two parts, a death, given up twice", Grow { deaths: 1, give_ups: 2, ..Grow::new(2) });
    let stalls = Grow { stalls: 1, deaths: 1, give_ups: 2, ..Grow::new(2) };
    holds("two parts, a stall, a death, given up twice", stalls);
}

#[test]
fn the_callback_of_a_batch_that_is_a_member() {
    holds("a callback, a death", Grow { is_callback: true, deaths: 1, ..Grow::new(1) });
}

#[test]
fn without_the_name_at_add() {
    finds(NOT_ADDED_TWICE, Grow { deaths: 1, ..Grow::new(1) }, |guards| guards.name_at_add = false);
}

#[test]
fn without_the_bit_at_add() {
    // One that stands still before it asks, while another run adds all, and ends.
    let model = Grow { stalls: 1, give_ups: 1, ..Grow::new(1) };
    finds(NOT_ADDED_TWICE, model, |guards| {
        (guards.bit_at_add, guards.name_at_add) = (false, false)
    });
}

#[test]
fn without_the_total_at_add() {
    finds(NOT_OVER_EARLY, Grow { stalls: 1, ..Grow::new(1) }, |guards| guards.total_at_add = false);
}

#[test]
fn without_the_field_at_push() {
    finds(NOT_ADDED_TWICE, Grow { deaths: 1, ..Grow::new(1) }, |guards| {
        guards.field_at_push = false
    });
}

#[test]
fn without_the_void_at_give_up() {
    finds(NOT_ADDED_TWICE, Grow { stalls: 1, give_ups: 1, ..Grow::new(1) }, |guards| {
        guards.void_at_give_up = false;
    });
}

#[test]
fn without_what_is_left_at_added() {
    finds(ALL_ADDED, Grow { deaths: 1, give_ups: 1, ..Grow::new(2) }, |guards| {
        guards.left_at_added = false;
    });
}

#[test]
fn without_the_callbacks_before_the_parent() {
    finds(NOT_OVER_EARLY, Grow { is_callback: true, ..Grow::new(1) }, |guards| {
        guards.callbacks_before_parent = false;
    });
}
