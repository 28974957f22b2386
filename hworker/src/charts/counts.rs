//! What the totals of a worker come to at one time, for a scrape.

use std::sync::Arc;

use super::tally::Tally;
use super::totals::{Counts, OfType, Rare, Totals, lock};

impl Totals {
    /// All that the worker did.
    pub(crate) fn read(&self) -> Counts {
        let queues = self.queues().into_iter().map(|(name, queue)| (name, queue.read()));
        Counts { queues: queues.collect(), calls: self.calls(), fenced: self.fenced() }
    }

    /// What it did since this was last asked.
    pub(crate) fn news(&self) -> Counts {
        let mut told = lock(&self.told);
        let now = self.read();
        let news = now.clone().without(&told);
        *told = now;
        news
    }
}

impl Counts {
    pub(crate) fn of_types(&self) -> impl Iterator<Item = (&Arc<str>, &'static str, &OfType)> {
        self.queues
            .iter()
            .flat_map(|(queue, jobs)| jobs.iter().map(move |(job, of_type)| (queue, *job, of_type)))
    }

    /// What has come to it since it was this.
    fn without(mut self, before: &Self) -> Self {
        for (queue, jobs) in &mut self.queues {
            let before = before.queues.get(queue);
            for (job, now) in jobs {
                if let Some(before) = before.and_then(|jobs| jobs.get(job)) {
                    now.tally.subtract(&before.tally);
                    for (now, before) in now.rare.iter_mut().zip(before.rare) {
                        *now = now.saturating_sub(before);
                    }
                }
            }
        }
        self.calls.subtract(&before.calls);
        self.fenced = self.fenced.saturating_sub(before.fenced);
        self
    }
}

impl OfType {
    /// How often each outcome came, by its name. The first three are always there.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Tally { ok, retried, failed, .. } = self.tally;
        let rare = [
            (Rare::Broken, "broken"),
            (Rare::Cancelled, "cancelled"),
            (Rare::Expired, "expired"),
            (Rare::Parked, "parked"),
            (Rare::Recovered, "recovered"),
            (Rare::Stale, "stale"),
        ];
        let rare = rare.map(|(what, name)| (name, self.rare[what as usize]));
        let rare = rare.into_iter().filter(|(_, count)| *count > 0);
        [("ok", ok), ("retried", retried), ("failed", failed)].into_iter().chain(rare)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::charts::{Charts, Counted, Times, UNKNOWN};

    const MS: Option<Duration> = Some(Duration::from_millis(1));

    fn ok(totals: &Totals, job: &str) -> u64 {
        totals.read().queues["mail"].get(job).map_or(0, |of_type| of_type.tally.ok)
    }

    #[tokio::test]
    async fn what_is_written_or_dropped_stays_in_the_totals() {
        // Two shards of a queue count; one is written, both are dropped, a new session begins -> nothing is missed or counted twice.
        // Guard: `OfQueue::take`; `drop` of `Charts`.
        let totals = Totals::default();
        let of_queue = || totals.queue(&"mail".into());
        let (one, other) = (Charts::of(of_queue()), Charts::of(of_queue()));
        one.count("a", Counted::Ok, MS, Some(2));
        other.count("a", Counted::Ok, MS, None);
        other.count("b", Counted::Retried, MS, None);
        assert_eq!(ok(&totals, "a"), 2);
        one.flush(true).await.expect("at once").written();
        one.count("a", Counted::Ok, MS, None);
        assert_eq!(ok(&totals, "a"), 3);
        drop((one, other));
        assert_eq!(ok(&totals, "a"), 3);
        Charts::of(of_queue()).count("a", Counted::Ok, MS, None);
        assert_eq!(ok(&totals, "a"), 4);
        let of_type = &totals.read().queues["mail"]["a"];
        assert_eq!((of_type.tally.run.count(), of_type.tally.wait.count()), (4, 1));
    }

    #[test]
    fn news_are_told_once() {
        let totals = Totals::default();
        let queue = totals.queue(&"mail".into());
        queue.expect(["a", "a"].into_iter());
        let charts = Charts::of(Arc::clone(&queue));
        charts.count("a", Counted::Failed, MS, None);
        queue.add("a", Rare::Stale, 2);
        queue.add(UNKNOWN, Rare::Broken, 0);
        totals.was_fenced();
        totals.called(Duration::from_micros(249));
        let news = totals.news();
        assert_eq!((news.fenced, news.calls.sum_ms, news.of_types().count()), (1, 2, 1));
        let outcomes: Vec<_> = news.queues["mail"]["a"].outcomes().collect();
        assert_eq!(outcomes, [("ok", 0), ("retried", 0), ("failed", 1), ("stale", 2)]);

        charts.count("a", Counted::Ok, MS, None);
        let news = totals.news();
        assert_eq!((news.fenced, news.calls), (0, Times::default()));
        let of_type = &news.queues["mail"]["a"];
        let outcomes: Vec<_> = of_type.outcomes().collect();
        assert_eq!(outcomes, [("ok", 1), ("retried", 0), ("failed", 0)]);
        assert_eq!(of_type.tally.run.count(), 1);
        assert_eq!(totals.read().queues["mail"]["a"].tally.ended(), 2);
    }
}
