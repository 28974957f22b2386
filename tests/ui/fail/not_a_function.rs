//! Where `#[hworker::job]` cannot stand.

#[hworker::job]
struct Job;

#[hworker::job]
pub mod jobs {}

#[hworker::job]
const JOB: u8 = 0;

trait Jobs {
    #[hworker::job]
    fn job();
}

fn main() {
    let (Job, _) = (Job, JOB);
}
