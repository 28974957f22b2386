//! Names on the wire that cannot be, or are there already.

#[hworker::job]
fn grüße() {}

#[hworker::job(name = "one", aliases = ["two", "one", "two"])]
fn one() {}

#[hworker::job(aliases = ["three"])]
fn three() {}

fn main() {
    // The job can still be named.
    let _ = grüße::with();
}
