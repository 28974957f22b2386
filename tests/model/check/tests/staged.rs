//! Bulks of which all jobs come or none: nothing of what must hold is broken in any order of events; and with any one guard taken out the checker finds
//! the events that break it.

use hworker_check::once::{ALL_OR_NONE, COMES_ONCE, check_staged};
use hworker_model::staged::{Guards, Staged};

fn holds(what: &str, model: Staged) {
    let checked = check_staged(model, 2);
    println!("{what}: {checked}");
    assert!(checked.broken.is_none(), "{checked}");
}

/// The checker finds that this does not hold.
fn finds(broken: &str, mut model: Staged, take_out: impl FnOnce(&mut Guards)) {
    take_out(&mut model.guards);
    // One thread visits them in the same order each time.
    let checked = check_staged(model, 1);
    println!("{checked}");
    let (property, events) = checked.broken.expect("a counterexample");
    assert_eq!(broken, property, "after {events:?}");
}

#[test]
fn answers_are_lost() {
    holds("three jobs, three answers lost", Staged { lost: 3, ..Staged::new(3) });
}

#[test]
fn calls_come_late() {
    holds("two jobs, three calls late", Staged { late: 3, ..Staged::new(2) });
    holds("three jobs, two late, two lost", Staged { late: 2, lost: 2, ..Staged::new(3) });
}

#[test]
fn without_the_place_at_stage() {
    finds(COMES_ONCE, Staged { lost: 1, ..Staged::new(1) }, |guards| {
        (guards.before_at_stage, guards.count_at_commit) = (false, false);
    });
}

#[test]
fn without_the_mark_at_stage() {
    finds(COMES_ONCE, Staged { late: 2, ..Staged::new(2) }, |guards| guards.mark_at_stage = false);
}

#[test]
fn without_the_count_at_commit() {
    // What is staged expires before the commit.
    finds(ALL_OR_NONE, Staged::new(1), |guards| guards.count_at_commit = false);
}

#[test]
fn without_the_mark_at_commit() {
    finds(COMES_ONCE, Staged { lost: 1, ..Staged::new(2) }, |guards| guards.mark_at_commit = false);
}

#[test]
fn without_the_timer() {
    // The producer dies behind the commit.
    finds(ALL_OR_NONE, Staged::new(1), |guards| guards.timer = false);
}

#[test]
fn without_the_mark_that_stays() {
    // A worker has moved all when the producer asks again.
    finds(ALL_OR_NONE, Staged { lost: 1, ..Staged::new(1) }, |guards| guards.mark_stays = false);
}
