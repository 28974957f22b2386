//! What a worker has added up of one queue and not written yet.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::tally::Tally;
use super::totals::{OfQueue, Open};
use crate::time::millis;

/// It is written so often, and a little later at random, so that workers that start together do not write together.
const EVERY: Duration = Duration::from_secs(10);

/// So many portions are kept while the server is away, ten minutes; then the oldest are put together.
const KEPT: usize = 60;

/// What jobs of one queue did since it was last written.
#[derive(Debug)]
pub(crate) struct Charts {
    open: Arc<Open>,
    totals: Arc<OfQueue>,
    flush: tokio::sync::Mutex<Flush>,
}

/// What is to be written.
#[derive(Debug, Default)]
pub(crate) struct Flush {
    portions: VecDeque<Portion>,
    last_number: u64,
    next_at: Option<Instant>,
}

/// What is written in one step.
#[derive(Debug)]
pub(crate) struct Portion {
    /// The server takes each number of a worker once.
    pub(crate) number: u64,
    /// When it was taken.
    pub(crate) at: Instant,
    pub(crate) jobs: Vec<(&'static str, Tally)>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    Ok,
    Retried,
    Failed,
}

impl Charts {
    /// Those of a consumer of the queue that has these totals.
    pub(crate) fn of(totals: Arc<OfQueue>) -> Self {
        Self { open: totals.open(), totals, flush: tokio::sync::Mutex::default() }
    }

    pub(crate) fn totals(&self) -> &OfQueue {
        &self.totals
    }

    /// A job ended so, or an attempt. How long its body ran, and for how many ms it had waited, where that is known.
    pub(crate) fn count(
        &self,
        job: &'static str,
        counted: Counted,
        run: Option<Duration>,
        wait_ms: Option<u64>,
    ) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |(name, _): &(&str, Tally)| std::ptr::eq(*name, job) || *name == job;
        let at = open.iter().position(is_it).unwrap_or_else(|| {
            open.push((job, Tally::default()));
            open.len() - 1
        });
        let tally = &mut open[at].1;
        match counted {
            Counted::Ok => tally.ok += 1,
            Counted::Retried => tally.retried += 1,
            Counted::Failed => tally.failed += 1,
        }
        if let Some(run) = run {
            tally.run.took(millis(run));
        }
        if let Some(wait_ms) = wait_ms {
            tally.wait.took(wait_ms);
        }
    }

    /// What is to be written, where it is time for that, or `at_once`. Whoever has it writes the portions one after the other.
    pub(crate) async fn flush(&self, at_once: bool) -> Option<tokio::sync::MutexGuard<'_, Flush>> {
        let mut flush = self.flush.lock().await;
        let now = Instant::now();
        let jitter = || EVERY.mul_f64(fastrand::f64() / 5.0);
        let is_due = flush.next_at.is_some_and(|at| at <= now);
        if !is_due && !at_once {
            flush.next_at.get_or_insert_with(|| now + EVERY + jitter());
            return None;
        }
        flush.next_at = Some(now + EVERY + jitter());
        flush.take_in(now, self.totals.take(&self.open));
        Some(flush)
    }
}

impl Drop for Charts {
    fn drop(&mut self) {
        self.totals.close(&self.open);
    }
}

impl Flush {
    fn take_in(&mut self, at: Instant, mut jobs: Vec<(&'static str, Tally)>) {
        while !jobs.is_empty() {
            let rest = jobs.split_off(jobs.len().min(Portion::TYPES));
            self.last_number += 1;
            self.portions.push_back(Portion { number: self.last_number, at, jobs });
            jobs = rest;
        }
        while self.portions.len() > KEPT
            && let Some(oldest) = self.portions.pop_front()
            && let Some(next) = self.portions.front_mut()
        {
            // Under the number of the later: that of the oldest may have been written, and then counts twice, which is better than not at all.
            for (name, tally) in oldest.jobs {
                match next.jobs.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, known)) => known.add(&tally),
                    None => next.jobs.push((name, tally)),
                }
            }
        }
    }

    /// The oldest portion.
    pub(crate) fn next(&self) -> Option<&Portion> {
        self.portions.front()
    }

    /// It is written.
    pub(crate) fn written(&mut self) {
        self.portions.pop_front();
    }
}

impl Portion {
    /// So many types are written in one step.
    const TYPES: usize = 100;
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Option<Duration> = Some(Duration::from_millis(1));

    #[tokio::test]
    async fn it_is_written_every_ten_seconds_and_what_is_not_written_stays() {
        let charts = Charts::of(Arc::default());
        charts.count("a", Counted::Ok, MS, Some(2));
        assert!(charts.flush(false).await.is_none(), "not yet");
        charts.count("a", Counted::Failed, MS, Some(2));
        let flush = charts.flush(true).await.expect("at once");
        let portion = flush.next().expect("a portion");
        assert_eq!((portion.number, portion.jobs.len()), (1, 1));
        assert_eq!((portion.jobs[0].1.ok, portion.jobs[0].1.failed), (1, 1));
        drop(flush);
        charts.count("b", Counted::Ok, MS, Some(2));
        let mut flush = charts.flush(true).await.expect("at once");
        assert_eq!(
            flush.next().map(|portion| portion.number),
            Some(1),
            "the first was not written"
        );
        flush.written();
        assert_eq!(flush.next().map(|portion| (portion.number, portion.jobs[0].0)), Some((2, "b")));
        flush.written();
        assert!(flush.next().is_none());
    }

    #[tokio::test]
    async fn an_outage_keeps_sixty_portions() {
        let charts = Charts::of(Arc::default());
        for _ in 0..100 {
            charts.count("a", Counted::Ok, MS, Some(2));
            drop(charts.flush(true).await);
        }
        let flush = charts.flush(true).await.expect("at once");
        assert_eq!(flush.portions.len(), KEPT);
        let ok: u64 = flush.portions.iter().map(|portion| portion.jobs[0].1.ok).sum();
        assert_eq!(ok, 100);
    }
}
