//! What `with(..)` makes is not enqueued if it is dropped.
#![deny(unused_must_use)]

#[hworker::job]
async fn send(to: String) {
    let _ = to;
}

fn main() {
    send::with("ada".into());
}
