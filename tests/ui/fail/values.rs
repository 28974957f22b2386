//! Values of the wrong kind or form, each at its place.

#[hworker::job(name = "")]
fn empty_name() {}

#[hworker::job(name = "two words", aliases = ["ok", "slash/ed"], queue = "colon:ed")]
fn letters() {}

#[hworker::job(name = mail, aliases = "old", queue = 1, type = "Send")]
fn kinds_of_names() {}

#[hworker::job(type = jobs::Send)]
fn path_as_type() {}

#[hworker::job(timeout = 120)]
fn number_as_timeout() {}

#[hworker::job(timeout = "0s")]
fn no_time() {}

#[hworker::job(timeout = "120")]
fn no_unit() {}

#[hworker::job(timeout = "1.5h")]
fn fraction() {}

#[hworker::job(timeout = "30m1h")]
fn units_upside_down() {}

#[hworker::job(timeout = "4000d")]
fn too_long() {}

#[hworker::job(max_attempts = 0)]
fn no_attempt() {}

#[hworker::job(max_attempts = -1)]
fn negative_attempts() {}

#[hworker::job(max_attempts = 4294967296)]
fn too_many_attempts() {}

#[hworker::job(max_attempts = "3")]
fn text_as_attempts() {}

#[hworker::job(on_panic = "ignore", on_timeout = retry, on_crash = true, on_error = "drop")]
fn faults() {}

#[hworker::job(on_error = |_| hworker::OnFault::Fail)]
fn closure() {}

#[hworker::job(backoff = 5)]
fn number_as_backoff() {}

#[hworker::job(backoff = "soon")]
fn word_as_backoff() {}

#[hworker::job(backoff = "1s, , 2s")]
fn hole_in_the_list() {}

#[hworker::job(backoff = "exp(5s)")]
fn half_of_exp() {}

#[hworker::job(backoff = "exp(5s, 1s)")]
fn exp_upside_down() {}

#[hworker::job(backoff = "exp(0s, 1s)")]
fn exp_of_nothing() {}

#[hworker::job(crate = "background", on_error = "policy::decide", backoff = "policy::wait")]
fn paths_in_quotes() {}

#[hworker::job(priority = "urgent")]
fn unknown_priority() {}

#[hworker::job(priority = 1)]
fn number_as_priority() {}

#[hworker::job(version = 0)]
fn version_of_nothing() {}

#[hworker::job(version = "2")]
fn text_as_version() {}

#[hworker::job(version = 2, upgrade = "versions::upgrade")]
fn upgrade_in_quotes() {}

#[hworker::job(redact = "card,, to")]
fn hole_in_redact(card: u8, to: u8) { let _ = (card, to); }

#[hworker::job(redact = "crad")]
fn redacts_nothing(card: u8) { let _ = card; }

#[hworker::job(redact = card)]
fn redact_without_quotes(card: u8) { let _ = card; }

fn main() {}
