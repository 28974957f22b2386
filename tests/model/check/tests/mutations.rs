//! With any one guard of the protocol taken out, or one of its ancestors' bugs put back in, the checker finds the events
//! that lose a job, settle it twice, run it twice, or strand it. Run with `--nocapture` to read them.

use hworker_check::{
    EXCLUSIVE, HUSKS, NO_JOB_STOPS_ANOTHER, NO_START_AFTER, NOT_LOST, ONE_PLACE, SETTLED_ONCE,
    SETTLES, check,
};
use hworker_model::{Allowed, Guards, Model};

const NONE: Allowed = Allowed::NONE;
const KILL: Allowed = Allowed { kill: true, ..NONE };
const STOP: Allowed = Allowed { stop: true, ..NONE };
const CUT: Allowed = Allowed { cut: true, ..NONE };
const REFUSE: Allowed = Allowed { refuse: true, ..NONE };
const SILENCE: Allowed = Allowed { silence: true, ..NONE };

/// The checker finds that something of this does not hold.
fn finds(broken: &[&str], model: Model, take_out: impl FnOnce(&mut Guards)) {
    // One thread visits them in the same order each time.
    let checked = check(model.without(take_out), 1);
    println!("{checked}");
    let (property, events) = checked.broken.expect("a counterexample");
    assert!(broken.contains(&property), "{property} after {events:?}");
}

#[test]
fn an_ancestors_ack_without_fencing() {
    // A worker that was stopped, and whose job runs elsewhere meanwhile, acks it by its name.
    let model = Model::new(1, 1, STOP);
    finds(&[SETTLED_ONCE, NO_START_AFTER, EXCLUSIVE], model, |guards| guards.ack_by_lease = false);
}

#[test]
fn an_ancestors_reserve_in_two_commands() {
    finds(&[NOT_LOST, SETTLES], Model::new(1, 1, KILL), |guards| guards.one_step_reserve = false);
}

#[test]
fn an_ancestors_recover_in_two_commands() {
    finds(&[NOT_LOST, SETTLES], Model::new(1, 2, KILL), |guards| guards.one_step_recover = false);
}

#[test]
fn an_ancestors_promote_in_two_commands() {
    let model = Model::new(1, 1, KILL).retries(1);
    finds(&[NOT_LOST, SETTLES], model, |guards| guards.one_step_promote = false);
}

#[test]
fn without_the_lease_check_at_settle() {
    let model = Model::new(1, 1, STOP);
    finds(&[SETTLED_ONCE, ONE_PLACE], model, |guards| guards.lease_at_settle = false);
}

#[test]
fn without_the_lease_check_at_settle_a_settlement_that_is_sent_again() {
    let model = Model::new(1, 1, CUT);
    finds(&[SETTLED_ONCE, ONE_PLACE], model, |guards| guards.lease_at_settle = false);
}

#[test]
fn without_the_comparison_of_heartbeats_at_recover() {
    let model = Model::new(1, 1, STOP);
    finds(&[NO_START_AFTER, EXCLUSIVE], model, |guards| guards.heartbeat_at_recover = false);
}

#[test]
fn without_the_inbox_at_recover() {
    finds(&[SETTLES], Model::new(1, 1, KILL), |guards| guards.inbox_at_recover = false);
}

#[test]
fn without_the_dead_mark() {
    let model = Model::new(1, 1, STOP);
    finds(&[NO_START_AFTER, EXCLUSIVE], model, |guards| guards.dead_mark = false);
}

#[test]
fn without_the_sweep_of_dead_entries() {
    finds(&[SETTLES], Model::new(1, 1, KILL), |guards| guards.sweep = false);
}

#[test]
fn without_counting_only_accepted_heartbeats() {
    finds(&[EXCLUSIVE], Model::new(1, 1, REFUSE), |guards| guards.accepted_writes = false);
}

#[test]
fn without_watching_over_two_intervals() {
    finds(&[EXCLUSIVE], Model::new(1, 1, REFUSE), |guards| guards.watched_long = false);
}

#[test]
fn without_the_comparison_of_leases_with_the_heartbeat() {
    finds(&[SETTLES], Model::new(1, 1, CUT), |guards| guards.compared_with_beat = false);
}

#[test]
fn without_the_prompt_release_of_surplus() {
    let model = Model::new(2, 1, CUT);
    finds(&[NO_JOB_STOPS_ANOTHER], model, |guards| guards.surplus_released = false);
}

#[test]
fn without_a_missing_record_being_void() {
    let model = Model::new(1, 2, Allowed { stop: true, bury: true, ..NONE });
    finds(&[NO_START_AFTER, EXCLUSIVE], model, |guards| guards.missing_is_void = false);
}

#[test]
fn without_a_fresh_heartbeat_before_a_body() {
    let model = Model::new(1, 1, STOP);
    finds(&[NO_START_AFTER, EXCLUSIVE], model, |guards| guards.fenced_by_own_beat = false);
}

#[test]
fn without_the_refusal_of_what_an_older_session_brings_late() {
    let model = Model::new(1, 1, CUT);
    finds(&[NO_START_AFTER], model, |guards| guards.late_answer_refused = false);
}

#[test]
fn without_sending_again_what_has_no_answer() {
    finds(&[SETTLES], Model::new(1, 1, CUT), |guards| guards.sent_again = false);
}

#[test]
fn without_giving_back_what_was_never_seen() {
    finds(&[SETTLES], Model::new(1, 1, CUT), |guards| guards.unseen_given_back = false);
}

#[test]
fn the_session_at_reserve_saves_only_time() {
    // What a late reserve takes is found by the heartbeat's comparison all the same.
    for allowed in [CUT, SILENCE] {
        let checked =
            check(Model::new(1, 1, allowed).without(|guards| guards.session_at_reserve = false), 2);
        println!("{checked}");
        assert_eq!(checked.broken, None);
    }
}

#[test]
fn without_waiting_for_what_became_of_a_parked_job() {
    // The call is lost, and the worker never looks at the job again.
    let model = Model::new(1, 1, CUT).deploy();
    finds(&[SETTLES], model, |guards| guards.looked_after_answer = false);
}

#[test]
fn without_tokens_that_grow_under_parked_jobs() {
    // The job comes back after a retry, and is parked where the worker that knows it has looked before.
    let model = Model::new(1, 0, NONE).retries(1).deploy();
    finds(&[SETTLES], model, |guards| guards.parked_token_grows = false);
}

#[test]
fn without_the_comparison_of_bytes_at_an_edit() {
    // The job that an operator saw is taken meanwhile, and another one stands in its place.
    let model = Model::new(2, 0, NONE).edits(1);
    finds(&[NOT_LOST, ONE_PLACE], model, |guards| guards.bytes_at_edit = false);
}

#[test]
fn without_the_removal_that_decides_who_retries() {
    // Two operators retry one failed job.
    let model = Model::new(1, 0, NONE).edits(2);
    finds(&[ONE_PLACE], model, |guards| guards.removal_at_edit = false);
}

#[test]
fn without_the_lease_check_at_the_drop_of_a_husk() {
    // A worker drops a husk and has no answer; it drops it again, and the next one is none that is counted.
    let model = Model::new(1, 1, CUT).edits(1);
    finds(&[HUSKS], model, |guards| guards.lease_at_husk = false);
}
