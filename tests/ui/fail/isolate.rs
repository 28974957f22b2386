//! What `isolate` does not take.

#[hworker::job(isolate)]
fn without_a_value() {}

#[hworker::job(isolate = "thread")]
fn another_place() {}

#[hworker::job(isolate = true)]
fn no_text() {}

#[hworker::job(isolate(memory = 512, cpu = "1h30", recycle = 0))]
fn wrong_values() {}

#[hworker::job(isolate(memory = "512kB"))]
fn another_unit() {}

#[hworker::job(isolate(cpu = "500ms"))]
fn less_than_a_second() {}

#[hworker::job(isolate(memmory = "1GB"))]
fn unknown_key() {}

#[hworker::job(memory = "1GB")]
fn key_of_isolate() {}

fn main() {}
