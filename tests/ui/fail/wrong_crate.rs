//! A path that is not that of hworker.

#[hworker::job(crate = ::backround)]
async fn send(to: String) {
    let _ = to;
}

fn main() {}
