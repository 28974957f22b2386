//! An argument with an underscore in front warns that it is stored so, but where its stored name is said.
#![deny(deprecated)]

#[hworker::job]
fn stored(_user: u64, #[serde(default)] _copies: u8) {}

#[hworker::job]
fn quiet(#[serde(rename = "user")] _user: u64, _context: hworker::Context) {}

#[allow(deprecated)]
#[hworker::job]
fn allowed(_user: u64) {}

fn main() {
    let _ = (stored::with(1, 1), quiet::with(1), allowed::with(1));
}
