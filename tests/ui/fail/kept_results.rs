//! What a job that keeps its result returns, at the return type.

use serde::Serialize;

#[derive(Serialize)]
struct NotRead;

type Hidden = u32;

#[hworker::job(keep_result = "1h")]
async fn value() -> u32 {
    7
}

#[hworker::job(keep_result = "1h")]
async fn hidden() -> Hidden {
    7
}

#[hworker::job(keep_result = "1h")]
async fn nested() -> Result<Result<u32, String>, String> {
    Ok(Ok(7))
}

#[hworker::job(keep_result = "1h")]
fn outcome() -> hworker::Outcome {
    hworker::Outcome::Success
}

#[hworker::job(keep_result = "1h")]
async fn not_read() -> Result<NotRead, String> {
    Ok(NotRead)
}

#[hworker::job(keep_result = "1h", keep_error)]
async fn error_not_kept() -> Result<u32, std::io::Error> {
    Ok(7)
}

#[hworker::job(keep_error)]
async fn error_alone() -> Result<u32, String> {
    Ok(7)
}

#[hworker::job(keep_result = "0s")]
async fn no_time() -> Result<u32, String> {
    Ok(7)
}

fn main() {}
