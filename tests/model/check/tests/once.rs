//! Unique jobs, cron, tables and broadcasts: nothing of what must hold is broken in any order of events; and with any one guard taken out the checker
//! finds the events that break it.

use hworker_check::once::{
    NEWEST, NONE_FORGOTTEN, NONE_LEFT_OUT, NOT_TAKEN_BACK, NOT_TWICE, ONCE_A_WORKER, ONE_OF_A_KEY,
    ORDERS_HOLD, WANTED, check_broadcast, check_cron, check_known, check_tables,
};
use hworker_model::broadcast::{self, Broadcast};
use hworker_model::cron::Cron;
use hworker_model::known::{Conflict, Guards, Known};
use hworker_model::tables::Tables;

use Conflict::{Follow, Keep, Replace};

fn holds(what: &str, model: Known) {
    let checked = check_known(model, 2);
    println!("{what}: {checked}");
    assert!(checked.broken.is_none(), "{checked}");
}

/// The checker finds that this does not hold.
fn finds(broken: &str, mut model: Known, take_out: impl FnOnce(&mut Guards)) {
    take_out(&mut model.guards);
    // One thread visits them in the same order each time.
    let checked = check_known(model, 1);
    println!("{checked}");
    let (property, events) = checked.broken.expect("a counterexample");
    assert_eq!(broken, property, "after {events:?}");
}

#[test]
fn unique_jobs_with_deaths_orders_and_keys_that_are_freed() {
    for jobs in [
        [Keep, Replace, Follow, Replace],
        [Follow, Replace, Replace, Follow],
        [Keep, Follow, Follow, Keep],
    ] {
        let model = Known { retries: 1, kills: 1, cancels: 1, ..Known::new(&jobs) };
        holds("four jobs, a retry, a death, an order", model);
        let model = Known { stalls: 1, cancels: 2, ..Known::new(&jobs) };
        holds("four jobs, a worker that stands still, two orders", model);
        let model = Known { retries: 1, unlocks: 1, ..Known::new(&jobs) };
        holds("four jobs, a retry, a key that is freed", model);
    }
}

#[test]
fn without_a_look_at_the_holder() {
    finds(ONE_OF_A_KEY, Known::new(&[Keep, Keep]), |guards| guards.holder_at_submit = false);
}

#[test]
fn without_the_job_that_follows_at_the_end() {
    let model = Known::new(&[Keep, Follow]);
    finds(NONE_FORGOTTEN, model, |guards| guards.follower_at_finish = false);
}

#[test]
fn without_a_look_where_a_job_stands() {
    let model = Known { cancels: 1, ..Known::new(&[Keep, Keep]) };
    finds(ONE_OF_A_KEY, model, |guards| guards.stand_at_reserve = false);
}

#[test]
fn without_the_lease_at_settle() {
    let model = Known { stalls: 1, ..Known::new(&[Keep, Keep]) };
    finds(ONE_OF_A_KEY, model, |guards| guards.lease_at_settle = false);
}

#[test]
fn without_the_order_at_recovery() {
    let model = Known { kills: 1, cancels: 1, ..Known::new(&[Keep]) };
    finds(ORDERS_HOLD, model, |guards| guards.order_at_recover = false);
}

#[test]
fn without_the_order_at_settle() {
    let model = Known { retries: 1, cancels: 1, ..Known::new(&[Keep]) };
    finds(ORDERS_HOLD, model, |guards| guards.order_at_settle = false);
}

#[test]
fn each_occurrence_runs_once_however_many_fire_it() {
    let model = Cron { last: 5, changes: 1, lost: 2, compares: true };
    let checked = check_cron(model.clone(), 2);
    println!("five times, a change, two answers lost: {checked}");
    assert!(checked.broken.is_none(), "{checked}");
    let without = check_cron(Cron { compares: false, ..model }, 1);
    println!("{without}");
    assert_eq!(without.broken.expect("a counterexample").0, NOT_TWICE);
}

#[test]
fn the_newest_table_that_lives_is_in_force() {
    let model = Tables { workers: vec![0, 0, 1, 2, 1], ends: 4, compares: true, heartbeats: true };
    let checked = check_tables(model.clone(), 2);
    println!("three tables, five workers, four ends: {checked}");
    assert!(checked.broken.is_none(), "{checked}");
    let without = check_tables(Tables { compares: false, ..model.clone() }, 1);
    println!("{without}");
    assert_eq!(without.broken.expect("a counterexample").0, NOT_TAKEN_BACK);
    let without = check_tables(Tables { heartbeats: false, ..model }, 1);
    println!("{without}");
    assert_eq!(without.broken.expect("a counterexample").0, NEWEST);
}

#[test]
fn as_many_workers_run_a_broadcast_as_are_wanted_each_once() {
    // Where all are meant, as many are wanted as there are.
    for (workers, wanted) in [(3, 3), (4, 2)] {
        let model = Broadcast {
            failures: 2,
            lost: 1,
            deaths: 1,
            stalls: 1,
            ..Broadcast::new(workers, wanted)
        };
        let checked = check_broadcast(model, 2);
        println!("{wanted} of {workers} workers: {checked}");
        assert!(checked.broken.is_none(), "{checked}");
    }
}

#[test]
fn a_broadcast_without_one_guard() {
    let finds = |broken: &str, mut model: Broadcast, take_out: fn(&mut broadcast::Guards)| {
        take_out(&mut model.guards);
        let checked = check_broadcast(model, 1);
        println!("{checked}");
        let (property, events) = checked.broken.expect("a counterexample");
        assert_eq!(broken, property, "after {events:?}");
    };
    let two_of_three = Broadcast::new(3, 2);
    let with_deaths = Broadcast { deaths: 1, failures: 1, ..two_of_three.clone() };
    let with_stalls = Broadcast { stalls: 1, ..two_of_three.clone() };
    finds(ONCE_A_WORKER, two_of_three.clone(), |guards| guards.claim_at_take = false);
    finds(WANTED, two_of_three, |guards| guards.count_at_take = false);
    finds(WANTED, with_stalls, |guards| guards.lease_at_settle = false);
    finds(NONE_LEFT_OUT, with_deaths.clone(), |guards| guards.lease_at_recover = false);
    finds(NONE_LEFT_OUT, with_deaths, |guards| guards.retry_at_recover = false);
}
