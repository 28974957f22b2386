//! Keys and limits whose types do not fit, or that are not there, at their place.

#[derive(serde::Serialize, serde::Deserialize)]
struct Silent;

fn takes_nothing() -> u8 { 0 }

fn gives_nothing(_: &function) {}

#[hworker::job(fair(key = tenants))]
fn slice(tenants: &[String]) { let _ = tenants; }

#[hworker::job(fair(key = (name, silent)))]
fn silent(name: &str, silent: Silent) { let _ = (name, silent); }

#[hworker::job(fair(key = silent))]
fn silent_option(silent: Option<Silent>) { let _ = silent; }

#[hworker::job(fair(key = tenannt))]
fn missing(tenant: u8) { let _ = tenant; }

#[hworker::job(concurrency(limit = plans::missing, key = tenant))]
fn missing_path(tenant: u8) { let _ = tenant; }

#[hworker::job(fair(key = takes_nothing))]
fn parameters() {}

#[hworker::job(fair(key = gives_nothing))]
fn function() {}

fn main() {}
