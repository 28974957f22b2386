//! What the jobs of the shop note, so that the demo can tell what ran when.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The notes of all jobs. Cheap to clone; each job has it as its state.
#[derive(Debug, Clone, Default)]
pub struct Shop(Arc<Mutex<Vec<Note>>>);

#[derive(Debug, Clone)]
struct Note {
    at: Instant,
    job: &'static str,
    what: String,
    /// It begins, or it ends.
    begins: bool,
}

impl Shop {
    pub fn begins(&self, job: &'static str, what: &str) {
        self.note(job, what, true);
    }

    pub fn ends(&self, job: &'static str, what: &str) {
        self.note(job, what, false);
    }

    /// Notes the begin and the end of work that takes so long.
    pub async fn works(&self, job: &'static str, what: &str, for_so_long: Duration) {
        self.begins(job, what);
        tokio::time::sleep(for_so_long).await;
        self.ends(job, what);
    }

    fn note(&self, job: &'static str, what: &str, begins: bool) {
        let note = Note { at: Instant::now(), job, what: what.to_owned(), begins };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }

    fn notes(&self) -> Vec<Note> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Before the next scene.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What began, in this order.
    pub fn begun(&self, job: &str) -> Vec<String> {
        let notes = self.notes().into_iter();
        notes.filter(|note| note.begins && note.job == job).map(|note| note.what).collect()
    }

    /// How many jobs of these types ran at the same time, at most. `of` is a text that they noted; an empty one is any.
    pub fn most_at_once(&self, jobs: &[&str], of: &str) -> usize {
        let (mut now, mut most) = (0_usize, 0);
        for note in self.notes() {
            if jobs.contains(&note.job) && (of.is_empty() || note.what == of) {
                now = if note.begins { now + 1 } else { now.saturating_sub(1) };
                most = most.max(now);
            }
        }
        most
    }

    /// How many jobs of a type had ended when one began that noted this.
    pub fn ended_before(&self, job: &str, what: &str) -> usize {
        let notes = self.notes();
        let before = notes.iter().take_while(|note| note.what != what);
        before.filter(|note| !note.begins && note.job == job).count()
    }

    /// The most jobs of a type that began within this time.
    pub fn most_within(&self, job: &str, time: Duration) -> usize {
        let begins = self.begins_of(job);
        let within = |first: &Instant| {
            begins.iter().filter(|at| **at >= *first && **at < *first + time).count()
        };
        begins.iter().map(within).max().unwrap_or(0)
    }

    /// The longest time in which no job of a type began, between the first and the last.
    pub fn longest_break(&self, job: &str) -> Duration {
        let begins = self.begins_of(job);
        begins.windows(2).map(|two| two[1] - two[0]).max().unwrap_or_default()
    }

    fn begins_of(&self, job: &str) -> Vec<Instant> {
        let notes = self.notes().into_iter();
        notes.filter(|note| note.begins && note.job == job).map(|note| note.at).collect()
    }
}
