//! Priorities, a limit and pauses: nothing of what must hold is broken in any order of events; and with any one guard taken out the
//! checker finds the events that break it.

use hworker_check::control::{IN_PLACE, LIMIT, ORDER, PAUSE, WAKES, check};
use hworker_model::control::{Control, Guards, Place};

const MIXED: &[Place] = &[Place::Plain, Place::High, Place::Limited, Place::Limited];

fn holds(what: &str, model: Control) {
    let checked = check(model, 2);
    println!("{what}: {checked}");
    assert!(checked.broken.is_none(), "{checked}");
}

/// The checker finds that this does not hold.
fn finds(broken: &str, model: Control, take_out: impl FnOnce(&mut Guards)) {
    let mut model = model;
    take_out(&mut model.guards);
    // One thread visits them in the same order each time.
    let checked = check(model, 1);
    println!("{checked}");
    let (property, events) = checked.broken.expect("a counterexample");
    assert_eq!(broken, property, "after {events:?}");
}

#[test]
fn jobs_of_each_kind_and_a_stop() {
    let model = Control { retries: 1, stops: 1, ..Control::new(MIXED) };
    holds("four jobs, a retry, a stop", model);
}

#[test]
fn jobs_of_each_kind_and_pauses() {
    let model = Control { pauses: 2, stops: 1, ..Control::new(MIXED) };
    holds("four jobs, two pauses, a stop", model);
}

#[test]
fn jobs_of_each_kind_and_a_death() {
    let model = Control { retries: 1, pauses: 1, kills: 1, ..Control::new(MIXED) };
    holds("four jobs, a retry, a pause, a death", model);
}

#[test]
fn without_a_look_at_what_is_in_force() {
    let model = Control { pauses: 1, ..Control::new(&[Place::Plain, Place::High]) };
    finds(ORDER, model, |guards| guards.orders_at_reserve = false);
    let model = Control { pauses: 1, ..Control::new(&[Place::Plain]) };
    finds(PAUSE, model, |guards| guards.orders_at_reserve = false);
}

#[test]
fn without_a_ticket_at_push() {
    finds(WAKES, Control::new(&[Place::High]), |guards| guards.ticket_at_push = false);
}

#[test]
fn without_a_ticket_at_reserve() {
    let model = Control::new(&[Place::High, Place::High]);
    finds(WAKES, model, |guards| guards.ticket_at_reserve = false);
}

#[test]
fn without_a_ticket_at_settle() {
    let model = Control::new(&[Place::Limited, Place::Limited]);
    finds(WAKES, model, |guards| guards.ticket_at_settle = false);
}

#[test]
fn without_a_look_of_a_worker_that_has_no_room() {
    let model = Control::new(&[Place::Plain, Place::High]);
    finds(WAKES, model, |guards| guards.look_without_room = false);
}

#[test]
fn without_a_ticket_at_promote() {
    let model = Control { retries: 1, ..Control::new(&[Place::High]) };
    finds(WAKES, model, |guards| guards.ticket_at_promote = false);
}

#[test]
fn without_tickets_at_resume() {
    let model = Control { pauses: 1, ..Control::new(&[Place::Plain]) };
    finds(WAKES, model, |guards| guards.gate_at_resume = false);
}

#[test]
fn without_the_inbox_given_back_to_a_paused_queue() {
    let model = Control { pauses: 1, ..Control::new(&[Place::Plain]) };
    finds(PAUSE, model, |guards| guards.inbox_back_when_paused = false);
}

#[test]
fn without_the_list_in_the_name_of_a_lease() {
    let model = Control { kills: 1, ..Control::new(&[Place::High]) };
    finds(IN_PLACE, model, |guards| guards.list_in_lease = false);
}

#[test]
fn without_places_freed_by_recovery() {
    let model = Control { kills: 1, ..Control::new(&[Place::Limited]) };
    finds(LIMIT, model, |guards| guards.place_at_recover = false);
}

#[test]
fn without_keys_opened_by_who_frees_a_place() {
    let model = Control::new(&[Place::Limited, Place::Limited]);
    finds(WAKES, model, |guards| guards.open_at_free = false);
}

#[test]
fn without_work_counted_by_heartbeats() {
    let model = Control { kills: 1, ..Control::new(&[Place::High]) };
    finds(WAKES, model, |guards| guards.counted_at_beat = false);
}
