//! Log lines of which whoever may enqueue decides how many there could be: the first is written at once, then one every few
//! seconds for each queue and reason, which says how many there were.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::field::display;

use crate::envelope::JobId;
use crate::log::{one_line, say};

/// From one line to the next of the same queue and reason.
const EVERY: Duration = Duration::from_secs(5);

/// What lines are told apart by; what a payload says of itself makes no more of them.
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
    /// The arguments cannot be decrypted here.
    Encrypted,
    /// What it brings along takes long on its way.
    SlowLine,
}

/// What a line says, of the last job that it is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Warning {
    pub(crate) job: Option<&'static str>,
    pub(crate) id: Option<JobId>,
    pub(crate) text: String,
}

/// The lines of one worker.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    topics: Mutex<HashMap<Topic, State>>,
    held_back: Notify,
}

/// The queue, and why there is a line. A worker has few.
type Topic = (Arc<str>, Reason);

#[derive(Debug, Default)]
struct State {
    /// When a line was last written.
    said: Option<Instant>,
    /// How many there were since, and the last of them.
    jobs: u64,
    last: Option<Warning>,
}

impl State {
    /// The line that may be written now, and how many jobs it is about.
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
    /// Writes a line, or counts it for the next.
    pub(crate) fn warn(&self, queue: &Arc<str>, reason: Reason, warning: Warning) {
        self.warn_of(1, queue, reason, warning);
    }

    /// The same for so many jobs at once.
    pub(crate) fn warn_of(&self, jobs: u64, queue: &Arc<str>, reason: Reason, warning: Warning) {
        match self.note(jobs, queue, reason, warning, Instant::now()) {
            Some((warning, jobs)) => write(queue, warning, jobs),
            None => self.held_back.notify_one(),
        }
    }

    /// Writes what was held back when its time has come, so that the last of many are told too.
    pub(crate) async fn keep_telling(&self) {
        // A session before this one may have ended while something was.
        self.held_back.notify_one();
        loop {
            self.held_back.notified().await;
            sleep(EVERY).await;
            self.tell(Instant::now());
        }
    }

    /// Writes all that is held back: nothing more will come.
    pub(crate) fn tell_all(&self) {
        let later = Instant::now() + EVERY;
        self.tell(later);
    }

    fn tell(&self, now: Instant) {
        let due = |((queue, _), state): (&Topic, &mut State)| {
            let due = state.due(now);
            if state.last.is_some() {
                self.held_back.notify_one();
            }
            due.map(|due| (Arc::clone(queue), due))
        };
        let due: Vec<_> = self.topics().iter_mut().filter_map(due).collect();
        for (queue, (warning, jobs)) in due {
            write(&queue, warning, jobs);
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
    say!(WARN, { queue = queue.clone(), id = id.map(display), text = one_line(&text) }, job, id, %queue, jobs, "{text}");
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
        assert_eq!(
            note(&here, Reason::Unknown, "of another reason", 1).map(|said| said.1),
            Some(1)
        );
        assert_eq!(note(&there, Reason::Broken, "of another queue", 1).map(|said| said.1), Some(1));
        assert_eq!(note(&here, Reason::Broken, "3", 4), None);
        assert_eq!(note(&here, Reason::Broken, "4", 5), Some((warning("4"), 3)));
        assert_eq!(note(&here, Reason::Broken, "5", 6), None);
        // What came last does not wait for another.
        log_limit.tell(at(9));
        assert_eq!(log_limit.topics()[&(Arc::clone(&here), Reason::Broken)].jobs, 1);
        log_limit.tell(at(10));
        assert_eq!(log_limit.topics()[&(Arc::clone(&here), Reason::Broken)].jobs, 0);
        assert_eq!(note(&here, Reason::Broken, "6", 11), None);
        assert_eq!(note(&here, Reason::Broken, "7", 15), Some((warning("7"), 2)));
    }
}
