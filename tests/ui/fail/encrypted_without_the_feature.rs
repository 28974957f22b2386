#[hworker::job(encrypted)]
async fn tell(what: String) {
    let _ = what;
}

#[hworker::job(encrypted = "only")]
async fn tell_only(what: String) {
    let _ = what;
}

fn main() {}
