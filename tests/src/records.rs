//! Records as most tests want them: all that are asked for at once, without pages.

use std::future::Future;

use hworker::{AttemptError, Crash, Error, Inspect, JobInfo, JobState};

/// The record of a failed job.
#[derive(Debug, Clone)]
pub struct Failed {
    pub id: String,
    pub job: String,
    pub queue: String,
    pub worker: String,
    pub kind: String,
    pub message: String,
    pub place: Option<String>,
    pub backtrace: Option<String>,
    pub failed_at: u64,
    pub attempts: u32,
    pub crashes: Vec<Crash>,
    info: JobInfo,
}

/// A payload that could not be decoded, or that no worker could run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub payload: Vec<u8>,
    pub times: u64,
    pub at: u64,
    pub reason: String,
}

impl Failed {
    fn of(info: JobInfo) -> Self {
        Self {
            id: info.id.as_ref().expect("an id").as_str().to_owned(),
            job: info.job.clone().expect("a job"),
            queue: info.queue.clone(),
            worker: info.worker.clone().expect("a worker"),
            kind: info.kind.clone().expect("a kind"),
            message: info.message.clone().expect("a message"),
            place: info.place.clone(),
            backtrace: info.backtrace.clone(),
            failed_at: info.at.expect("a time"),
            attempts: info.attempt,
            crashes: info.crashes.clone(),
            info,
        }
    }

    pub fn args(&self) -> &str {
        self.info.args()
    }

    pub fn envelope(&self) -> &str {
        std::str::from_utf8(self.info.payload()).expect("text")
    }

    pub fn errors(&self) -> Vec<AttemptError> {
        self.info.errors()
    }
}

pub trait Records {
    /// Failed jobs, the newest first.
    fn failed(
        &self,
        offset: usize,
        count: usize,
    ) -> impl Future<Output = Result<Vec<Failed>, Error>> + Send;

    /// Broken payloads, the latest first.
    fn broken(&self) -> impl Future<Output = Result<Vec<Broken>, Error>> + Send;
}

impl Records for Inspect {
    async fn failed(&self, offset: usize, count: usize) -> Result<Vec<Failed>, Error> {
        let mut failed = all(self, JobState::Failed, offset + count).await?;
        Ok(failed.drain(offset.min(failed.len())..).map(Failed::of).collect())
    }

    async fn broken(&self) -> Result<Vec<Broken>, Error> {
        let mut broken: Vec<Broken> = Vec::new();
        for info in all(self, JobState::Broken, usize::MAX).await? {
            let times = info.times.expect("how many times");
            match broken.iter_mut().find(|known| known.payload == info.payload()) {
                // The same in another shard.
                Some(known) => known.times += times,
                None => broken.push(Broken {
                    payload: info.payload().to_vec(),
                    times,
                    at: info.at.expect("a time"),
                    reason: info.message.expect("a reason"),
                }),
            }
        }
        broken.sort_by_key(|broken| std::cmp::Reverse(broken.at));
        Ok(broken)
    }
}

/// The jobs in one state, at most so many.
async fn all(queue: &Inspect, state: JobState, most: usize) -> Result<Vec<JobInfo>, Error> {
    let mut jobs = Vec::new();
    let mut asked = queue.jobs(state).limit(1000);
    loop {
        let page = asked.page().await?;
        jobs.extend(page.items);
        match page.next {
            Some(next) if jobs.len() < most => asked = asked.after(next),
            _ => break,
        }
    }
    jobs.truncate(most);
    Ok(jobs)
}
