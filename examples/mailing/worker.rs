//! The worker: runs the jobs, with a connection to the mail server for each that runs at a time.

use std::net::SocketAddr;

use hworker::Worker;

use crate::jobs;

/// Sending a mail is mostly waiting for the mail server, so many are sent at a time, whatever the number of cores.
const AT_A_TIME: u32 = 100;

pub async fn run(smtp: SocketAddr) -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let worker = Worker::builder()
        .concurrency(AT_A_TIME as usize)
        .state(jobs::mailer(smtp, AT_A_TIME))
        .build()?;
    worker.run().await?;
    Ok(())
}
