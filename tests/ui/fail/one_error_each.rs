//! Jobs with an error in the attribute or in one parameter can be used like sound ones, so that nothing hides the error.

use std::time::{Duration, SystemTime};

#[hworker::job(timeot = "1s", max_attempts = 0)]
pub async fn wrong_keys(to: String, subject: &str) -> Result<(), std::io::Error> {
    let _ = (to, subject);
    Ok(())
}

#[hworker::job]
pub async fn wrong_parameter(to: String, subject: Option<&str>) {
    let _ = (to, subject);
}

async fn uses() -> Result<(), hworker::Error> {
    let id = wrong_keys::enqueue("ada".into(), "hello").await?;
    let _ = wrong_keys { to: id.to_string(), subject: "hello".into() };
    wrong_keys("ada".into(), "hello").await.ok();
    let id: hworker::JobId = wrong_parameter::enqueue_at(SystemTime::now(), "ada".into(), Some("hello")).await?;
    wrong_parameter::with("ada".into(), None::<String>).delay(Duration::ZERO).enqueue().await?;
    wrong_parameter("ada".into(), None).await;
    let _ = (id, wrong_parameter::NAME, wrong_keys::NAME);
    Ok(())
}

fn main() {
    let _ = uses();
}
