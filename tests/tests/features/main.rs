//! The features of the core, each as a test that is named after its row in the table of features, through the public API
//! and against a real server. The first comment of a test is its row's behaviour.
//!
//! Where a test of the conformance table performs exactly that already, it is not repeated. Which test covers which row:
//!
//! | row | | tests |
//! |---|---|---|
//! | EN1 | single enqueue | here; `conformance::enqueue::q2_returns_an_id` finds the id in every state |
//! | EN2 | statically typed arguments | `ui`: `fail/calls.rs`, `fail/argument_type.rs`; `conformance::arguments::q1_typed_enqueue` |
//! | EN3 | validation of arguments at enqueue | `conformance::refused`: `en3_what_json_cannot_hold`, `en3_what_no_worker_could_read` |
//! | EN4 | size limit | `conformance::refused::en4_a_payload_that_is_too_large` |
//! | EN5 | bulk enqueue | `conformance::bulk`: `en5_bulk_enqueue`, `en5_bulk_enqueue_outside_a_runtime`, `q9_atomic_bulk_enqueue` |
//! | EN6 | report of a bulk's partial failure | `conformance::bulk::en6_bulk_partial_failure_report` |
//! | EN13 | override per call | here; wrong ones in `conformance::refused::settings_of_one_call_that_are_wrong_are_said_at_once` |
//! | EN16 | wire format for other languages | `conformance::foreign::q8_*`, `conformance::enqueue::q8_foreign_producer`, `conformance::wire_format` |
//! | EN17 | another cluster | here |
//! | IS4 | encryption of arguments, rotation of keys | here; the form in `conformance::wire_format` |
//! | SC1 | run at, run in | here; how punctually in `conformance::schedule::s1_delay` |
//! | SC3 | atomic promotion | `conformance::schedule::s4_crash_safe_move`, `s4_killed_pollers_lose_and_double_nothing` |
//! | SC4 | far future | here |
//! | RT1 | default attempts | here; other limits in `conformance::failure::f6_attempt_limit` |
//! | RT2 | default backoff | here; other backoffs in `conformance::retries::f7_backoff` |
//! | RT3 | backoff by a function | here |
//! | RT4 | verdict for each error | here; `conformance::verdicts::rt4_*` through every type of error |
//! | RT5 | declared fatal errors | here |
//! | RT6 | retry until a time | `conformance::retries::f14_retry_deadline` |
//! | RT8 | snooze | `conformance::verdicts::rt8_snooze_without_using_an_attempt` |
//! | RT9 | bounded list of failed jobs | here for the default; `conformance::failure::f9_failed_list_bounded` for others |
//! | RT11 | error of every attempt | here; the record in `conformance::failure::f10_failure_record_content` |
//! | RT12 | crashes are counted apart | `conformance::crashes::f8_crashes_are_bounded_and_counted_apart` |
//! | RT13 | a stop burns no attempt | `faults::stopping::g4_bounded_stop` |
//! | RT14 | positions | here |
//! | RT17 | panics | `conformance::failure`: `f1_panic_retry`, `f5_panic_isolation`, `f5_panic_isolation_outside_of_bodies`, `f10_failure_record_content` (place and backtrace) |
//! | RT18 | undecodable payloads | `conformance::garbage::d3_undecodable_raw_bytes` and those that follow; `faults::recovery::t12_corrupt_progress_entry` |
//! | RT19 | unknown job type | `conformance::dispatch::d2_unknown_name_during_a_deploy`, `d2_unknown_name_is_kept_as_broken` |
//! | CC1 | concurrency of a process | `conformance::concurrency::c1_concurrency_per_worker`, `cc1_concurrency_over_all_queues_of_a_worker` |
//! | CC2 | concurrency of a queue | here |
//! | CT5 | timeout | `faults::timeouts::t1_per_job_timeout`, `t2_timeout_stops_the_body`; the default in `en13` here |
//! | CT6 | bodies that ignore it | `faults::timeouts`: `t2_a_blocking_body_is_told_at_its_deadline` and those that follow |
//! | CT8 | graceful stop | `faults::stopping`: `g3_graceful_stop`, `g4_bounded_stop`, `g4_a_blocking_body_is_told_when_the_grace_is_over`; what it says of itself here |
//! | CT9 | second signal | `faults::stopping::a_second_signal_ends_at_once_and_still_gives_back` |
//! | LR1 | lease kept while it runs | `faults::recovery::t7_long_job_keeps_its_lease` |
//! | LR2 | lost lease is noticed | `faults::recovery::t8_lease_lost_is_noticed`; `conformance::lost_lease::d9_*` |
//! | HA5 | dangerous settings of the server | here |
//! | HA6 | Redis and Valkey | here |
//! | HA8 | many queues cost no more commands | here |
//! | TS15 | fixtures for clients in other languages | `conformance::wire_format`: `golden_files_fit_the_schemas_and_the_schemas_the_document`, `o10_golden_envelopes_run` |
//! | LC3 | bounded memory | here; bounds of what is kept in RT9 and `conformance::garbage::f13_broken_list_bounded_and_manageable` |
//! | LC4 | versions of arguments | here; in a deploy in `faults::deploys::lc4_lc5_lc6_a_rolling_deploy_loses_and_breaks_nothing`; over HTTP in `web::api`; the check of the manifest in the library |
//! | LC5 | renamed job type | here and there |
//! | LC6 | unknown type parked | here and there; `conformance::dispatch::d2_unknown_name_during_a_deploy` |
//! | LC7 | poison pill | `conformance::crashes`: both; `faults::recovery::t6_position_on_recovery` |
//! | OP3 | signals | here; SIGTERM in CT8 and CT9 |
//! | OP6 | settings are checked at the start | `conformance::startup` |
//! | OP7 | inside another program | here |

// A job is async, and owns its arguments, because it is a job, and not because its body needs it.
#![allow(clippy::unused_async, clippy::needless_pass_by_value)]

mod batches;
mod batches_grow;
mod broadcast;
mod cancel;
mod charts;
mod cli;
mod cli_limits;
mod cron;
mod doctor;
mod edits;
mod encryption;
mod enqueue;
mod events;
mod idle;
mod inspect;
mod isolate;
mod lanes;
mod layers;
mod limits;
mod lock;
mod orders;
mod pages;
mod pause;
mod priority;
mod queues;
mod records;
mod reports;
mod results;
mod retries;
mod schema;
mod server;
mod tables;
mod tags;
mod terminal;
mod testing;
mod unique;
mod unique_random;
mod versions;
mod worker;

use std::time::Duration;

use hworker::{JobInfo, Jobs};
use hworker_tests::TestServer;

/// What should take no time at all is given so long, on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(15);

/// All pages: how many jobs each has, and the jobs.
async fn pages(mut asked: Jobs<'_>) -> (Vec<usize>, Vec<JobInfo>) {
    let (mut sizes, mut jobs) = (Vec::new(), Vec::new());
    loop {
        let page = asked.page().await.expect("a page");
        sizes.push(page.items.len());
        jobs.extend(page.items);
        let Some(next) = page.next else { return (sizes, jobs) };
        asked = asked.after(next);
    }
}

/// The ids of jobs, in their order.
fn ids<'a>(jobs: impl IntoIterator<Item = &'a JobInfo>) -> Vec<&'a str> {
    jobs.into_iter().map(|job| job.id.as_ref().map_or("", |id| id.as_str())).collect()
}

/// Runs a command with more words, or other bytes, than are written out.
fn command(server: &TestServer, words: &[&str], more: impl IntoIterator<Item = Vec<u8>>) {
    let mut command = redis::cmd(words[0]);
    words[1..].iter().for_each(|word| _ = command.arg(*word));
    more.into_iter().for_each(|word| _ = command.arg(word));
    server.redis().run::<redis::Value>(&command).expect("done");
}
