//! What a job costs apart from the server: `cargo bench -p hworker`. Whole workloads are measured elsewhere.
//!
//! The parts are private, so their files are compiled again here.

// Of each file only some is measured, and of its tests nothing is left but what they import.
#![allow(dead_code, missing_docs, unreachable_pub, unused_imports)]

#[path = "../src/envelope/mod.rs"]
mod envelope;
#[path = "../src/fresh_uuid.rs"]
mod fresh_uuid;
#[path = "../src/priority.rs"]
mod priority;
#[path = "../src/strict_json.rs"]
mod strict_json;

use std::hint::black_box;
use std::time::{SystemTime, UNIX_EPOCH};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde::{Deserialize, Serialize};

use self::envelope::{AttemptError, Envelope, JobId, NewEnvelope, Rewrite, VERSION};

/// The arguments of a job as they often are.
#[derive(Debug, Serialize, Deserialize)]
struct Arguments {
    to: String,
    user_id: u64,
    score: f64,
    /// With `None` there is a `null`, for whose sake the value is walked once more.
    note: Option<String>,
}

fn arguments(bytes: usize, note: Option<&str>) -> Arguments {
    let note = note.map(str::to_owned);
    Arguments { to: "a".repeat(bytes), user_id: 4_211_017, score: 0.25, note }
}

fn encode(args: &Arguments) -> Vec<u8> {
    let id = JobId::fresh();
    let envelope = NewEnvelope {
        v: VERSION,
        id: &id,
        job: "send_welcome",
        args_v: None,
        args,
        enqueued_at: 1_795_261_234_567,
        ready_at: None,
        tags: &[],
        meta: None,
        parent: None,
        max_attempts: None,
        timeout: None,
        backoff: None,
        retry_until: None,
        expires_at: None,
        priority: None,
        keep: None,
    };
    strict_json::to_vec(&envelope).expect("JSON").0
}

fn id(c: &mut Criterion) {
    c.bench_function("id", |b| b.iter(JobId::fresh));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    c.bench_function("id of a bulk", |b| b.iter(|| JobId::fresh_at(now)));
}

fn envelopes(c: &mut Criterion) {
    let mut group = c.benchmark_group("envelope");
    for bytes in [20, 1_000, 100_000] {
        let args = arguments(bytes, Some("x"));
        let envelope = encode(&args);
        group.throughput(Throughput::Bytes(envelope.len() as u64));
        let of = |what: &str| BenchmarkId::new(what, envelope.len());
        group.bench_function(of("encode"), |b| b.iter(|| encode(black_box(&args))));
        let null = arguments(bytes, None);
        group.bench_function(of("encode with a null"), |b| b.iter(|| encode(black_box(&null))));
        group.bench_function(of("decode"), |b| {
            b.iter(|| Envelope::decode(black_box(&envelope)).expect("an envelope").attempt);
        });
        group.bench_function(of("decode with its arguments"), |b| {
            b.iter(|| {
                let envelope = Envelope::decode(black_box(&envelope)).expect("an envelope");
                serde_json::from_str::<Arguments>(envelope.args()).expect("its arguments")
            });
        });
        group.bench_function(of("rewrite for a retry"), |b| {
            b.iter(|| retry(black_box(&envelope)));
        });
    }
    group.finish();
}

/// What becomes of an envelope whose first attempt failed.
fn retry(envelope: &[u8]) -> Vec<u8> {
    let mut rewrite = Rewrite::of(envelope).expect("an envelope");
    rewrite.set("attempt", &2);
    rewrite.add_error(&AttemptError {
        attempt: 1,
        started_at: None,
        at: 1_795_261_234_999,
        kind: "error".into(),
        message: "connection refused".into(),
        place: None,
        backtrace: None,
        worker: "host.0123456789abcdef".into(),
    });
    rewrite.to_bytes()
}

criterion_group!(parts, id, envelopes);
criterion_main!(parts);
