//! Wrong arguments are errors where the job is enqueued.

use hworker::State;

#[hworker::job]
async fn send(to: String, copies: u8, subject: &str, pool: State<u8>) {
    let _ = (to, copies, subject, pool);
}

fn main() {
    let _ = send::enqueue("ada".into(), "1", "subject");
    let _ = send::enqueue("ada".into(), 1);
    let _ = send { to: "ada".into() };
}
