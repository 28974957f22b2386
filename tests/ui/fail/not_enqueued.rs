//! What `with(..)` makes is not enqueued by an `.await` alone.

#[hworker::job]
async fn send(to: String) {
    let _ = to;
}

async fn handler() -> Result<(), hworker::Error> {
    send::with("ada".into()).queue("mail").await?;
    Ok(())
}

fn main() {
    let _ = handler();
}
