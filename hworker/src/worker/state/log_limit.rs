//! The log limit, for log lines that a client could cause in any number. The first line is written at once. Then there is one every few
//! seconds for each queue and reason, with the number of jobs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::field::display;

use crate::envelope::JobId;
use crate::log::{one_line, say};

/// The time between two lines of one queue and reason.
const EVERY: Duration = Duration::from_secs(5);

/// The reason of a line. The contents of a payload do not add reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    /// The payload is broken.
    Broken,
    /// The payload is larger than `max_payload`.
    TooLarge,
    /// The arguments do not fit the job.
    Args,
    /// The name or the version is unknown here.
    Unknown,
    /// The arguments are of a version that is unknown here.
    Version,
    /// The arguments cannot be decrypted here.
    Encrypted,
    /// The job takes long on the line to the server.
    SlowLine,
    /// No process could be started for the job.
    NoProcess,
}

/// The contents of a line, from the last of its jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Warning {
    pub(crate) job: Option<&'static str>,
    pub(crate) id: Option<JobId>,
    pub(crate) text: String,
}

/// The log limit of one worker.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    topics: Mutex<HashMap<Topic, State>>,
    held_back: Notify,
}

/// The queue and the reason of a line. A worker has few.
type Topic = (Arc<str>, Reason);

#[derive(Debug, Default)]
struct State {
    /// When a line was last written.
    said: Option<Instant>,
    /// How many jobs there were since, and the warning of the last.
    jobs: u64,
    last: Option<Warning>,
}

impl State {
    /// The line to write now, and how many jobs it is about.
    fn due(&mut self, now: Instant) -> Option<(Warning, u64)> {
        if self.said.is_some_and(|said| now.duration_since(said) < EVERY) {
            return None;
        }
        let warning = self.last.take()?;
        self.said = Some(now);
        Some((warning, std::mem::take(&mut self.jobs)))
    }
}

impl LogLimit {
    /// Writes a line about this many jobs, or counts them for the next one.
    pub(crate) fn warn(&self, jobs: u64, queue: &Arc<str>, reason: Reason, warning: Warning) {
        match self.note(jobs, queue, reason, warning, Instant::now()) {
            Some((warning, jobs)) => write(queue, warning, jobs),
            None => self.held_back.notify_one(),
        }
    }

    /// Writes lines that were held back when their time has come, so that the last of many jobs are logged too.
    pub(crate) async fn keep_telling(&self) {
        // An earlier session may have ended while a line was held back.
        self.held_back.notify_one();
        loop {
            self.held_back.notified().await;
            sleep(EVERY).await;
            self.tell(Instant::now());
        }
    }

    /// Writes all lines that are held back: no more will come.
    pub(crate) fn tell_all(&self) {
        self.tell(Instant::now() + EVERY);
    }

    fn tell(&self, now: Instant) {
        for ((queue, _), state) in self.topics().iter_mut() {
            match state.due(now) {
                Some((warning, jobs)) => write(queue, warning, jobs),
                None if state.last.is_some() => self.held_back.notify_one(),
                None => {}
            }
        }
    }

    fn note(
        &self,
        jobs: u64,
        queue: &Arc<str>,
        reason: Reason,
        warning: Warning,
        now: Instant,
    ) -> Option<(Warning, u64)> {
        let mut topics = self.topics();
        let state = topics.entry((Arc::clone(queue), reason)).or_default();
        state.jobs += jobs;
        state.last = Some(warning);
        state.due(now)
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<Topic, State>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(queue: &Arc<str>, Warning { job, id, text }: Warning, jobs: u64) {
    say!(WARN, { queue = queue.clone(), id = id.map(display), text = one_line(&text) }, job.name = job, job.id = id, job.queue = %queue, jobs, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_at_once_and_then_one_in_a_while_with_how_many_there_were() {
        let (log_limit, start) = (LogLimit::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let (here, there): (Arc<str>, Arc<str>) = ("here".into(), "there".into());
        let warning = |text: &str| Warning { text: text.into(), ..Warning::default() };
        let note =
            |queue, reason, text, now| log_limit.note(1, queue, reason, warning(text), at(now));
        assert_eq!(note(&here, Reason::Broken, "1", 0), Some((warning("1"), 1)));
        assert_eq!(note(&here, Reason::Broken, "2", 1), None);
        assert!(note(&here, Reason::Unknown, "of another reason", 1).is_some());
        assert!(note(&there, Reason::Broken, "of another queue", 1).is_some());
        assert_eq!(note(&here, Reason::Broken, "3", 4), None);
        assert_eq!(note(&here, Reason::Broken, "4", 5), Some((warning("4"), 3)));
        assert_eq!(note(&here, Reason::Broken, "5", 6), None);
        // The last warning does not wait for another one.
        for (now, held_back) in [(9, 1), (10, 0)] {
            log_limit.tell(at(now));
            assert_eq!(log_limit.topics()[&(Arc::clone(&here), Reason::Broken)].jobs, held_back);
        }
        assert_eq!(note(&here, Reason::Broken, "6", 11), None);
        assert_eq!(note(&here, Reason::Broken, "7", 15), Some((warning("7"), 2)));
    }
}
