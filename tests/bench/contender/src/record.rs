//! What is measured of the bodies: how many ran, when the first began and the last ended, how long jobs waited.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::{Options, hear, now, say};

static RECORD: OnceLock<Record> = OnceLock::new();

struct Record {
    options: Options,
    began: Instant,
    /// Nanoseconds after `began`, plus one; 0: not yet.
    first: AtomicU64,
    done: AtomicU64,
    waits: Histogram,
}

/// The body of every job: of the arguments it wants the number and the time at which it was enqueued.
pub async fn body(n: u64, at: u64) {
    let record = RECORD.get().expect("a worker has begun");
    record.start(n, at);
    if !record.options.sleep.is_zero() {
        tokio::time::sleep(record.options.sleep).await;
    }
    record.end(n);
}

pub(crate) fn begin(options: &Options) {
    let record = RECORD.get_or_init(|| Record {
        options: options.clone(),
        began: Instant::now(),
        first: AtomicU64::new(0),
        done: AtomicU64::new(0),
        waits: Histogram::new(),
    });
    hear(|line| match line {
        "report" => record.report(),
        "again" => record.again(),
        _ => panic!("unknown line {line}"),
    });
    if let Some(every) = options.progress {
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(every);
                say(&json!({ "event": "progress", "jobs": record.done.load(Ordering::Relaxed) }));
            }
        });
    }
}

impl Record {
    fn start(&self, n: u64, at: u64) {
        if self.first.load(Ordering::Relaxed) == 0 {
            let nanos = self.began.elapsed().as_nanos() as u64 + 1;
            let _ = self.first.compare_exchange(0, nanos, Ordering::Relaxed, Ordering::Relaxed);
        }
        if self.options.waits.is_some_and(|from| n >= from) {
            self.waits.add(now().saturating_sub(at));
        }
        if self.options.trace {
            say(&json!({ "event": "start", "n": n, "at": now() }));
        }
    }

    fn end(&self, n: u64) {
        if self.options.trace {
            say(&json!({ "event": "end", "n": n, "at": now() }));
        }
        if self.done.fetch_add(1, Ordering::Relaxed) + 1 == self.options.jobs {
            self.report();
        }
    }

    /// Counts anew, from the next job on. None runs at this time.
    fn again(&self) {
        self.done.store(0, Ordering::Relaxed);
        self.first.store(0, Ordering::Relaxed);
        say(&json!({ "event": "ready" }));
    }

    fn report(&self) {
        let first = Duration::from_nanos(self.first.load(Ordering::Relaxed));
        let mut report = json!({
            "event": "done",
            "jobs": self.done.load(Ordering::Relaxed),
            "seconds": self.began.elapsed().saturating_sub(first).as_secs_f64(),
        });
        if self.options.waits.is_some() {
            report["wait_us"] = self.waits.summary();
        }
        say(&report);
    }
}

/// Counts of microseconds, 64 buckets for each doubling, so that a figure is off by less than 2 %.
struct Histogram {
    buckets: Vec<AtomicU64>,
    max: AtomicU64,
}

const STEPS: u64 = 64;

impl Histogram {
    fn new() -> Self {
        Self {
            buckets: (0..STEPS * 40).map(|_| AtomicU64::new(0)).collect(),
            max: AtomicU64::new(0),
        }
    }

    fn add(&self, value: u64) {
        self.max.fetch_max(value, Ordering::Relaxed);
        let last = self.buckets.len() - 1;
        self.buckets[bucket(value).min(last)].fetch_add(1, Ordering::Relaxed);
    }

    fn summary(&self) -> serde_json::Value {
        let counts: Vec<u64> = self.buckets.iter().map(|n| n.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let percentile = |share: f64| {
            let wanted = (total as f64 * share).ceil().max(1.0) as u64;
            let mut seen = 0;
            let place = counts.iter().position(|n| {
                seen += n;
                seen >= wanted
            });
            place.map_or(0, lowest)
        };
        json!({
            "count": total,
            "p50": percentile(0.5),
            "p90": percentile(0.9),
            "p99": percentile(0.99),
            "max": self.max.load(Ordering::Relaxed),
        })
    }
}

/// Values below 128 have a bucket each; beyond, the 6 bits after the leading one count.
fn bucket(value: u64) -> usize {
    if value < 2 * STEPS {
        return value as usize;
    }
    let shift = u64::from(value.ilog2() - STEPS.ilog2());
    (shift * STEPS + (value >> shift)) as usize
}

fn lowest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    (bucket - shift * STEPS) << shift
}

#[cfg(test)]
mod tests {
    use super::{bucket, lowest};

    #[test]
    fn a_value_lies_in_its_bucket() {
        for value in [0, 1, 127, 128, 129, 130, 1000, 12_345, 99_999_999] {
            let place = bucket(value);
            assert!(lowest(place) <= value && value < lowest(place + 1), "{value} in {place}");
        }
    }
}
