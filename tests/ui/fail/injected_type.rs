//! What is injected but cannot be.

use hworker::State;

struct Connection;
struct NotClone;

mod user {
    pub struct Context;
}

#[hworker::job]
async fn unknown(#[inject] connection: Connection) {
    let _ = connection;
}

#[hworker::job]
fn not_clone(state: State<NotClone>) {
    let _ = state;
}

#[hworker::job]
async fn same_name(context: user::Context) {
    let _ = context;
}

fn main() {
    let _ = (unknown::enqueue(), not_clone::enqueue(), same_name::enqueue());
}
