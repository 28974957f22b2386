//! What waits, without a server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::super::Client;
use super::waiting::{COMMANDS, Caller, Coalescer, Waiting};
use crate::priority::Priority;
use crate::store::{Fault, SCRIPT_BYTES, SCRIPT_JOBS, WRITE_BYTES};

fn coalescer() -> Coalescer {
    let client = Client::new("redis://localhost").expect("a client");
    Coalescer::new(client.queue("a"), None)
}

fn waiting(ticket: u64, bytes: usize) -> (Waiting, oneshot::Receiver<Result<(), Fault>>) {
    let (answer, answered) = oneshot::channel();
    let give_up = Instant::now() + Duration::from_secs(ticket);
    let caller = Caller { ticket, give_up, answer };
    (Waiting { envelope: vec![b'x'; bytes], caller }, answered)
}

fn taken(coalescer: &Coalescer) -> Vec<Vec<u64>> {
    let tickets = |jobs: Vec<Waiting>| jobs.iter().map(|job| job.caller.ticket).collect();
    coalescer.take().into_iter().map(tickets).collect()
}

#[test]
fn a_write_has_bounds_and_leaves_the_rest_where_it_can_be_withdrawn() {
    let coalescer = coalescer();
    let half = SCRIPT_BYTES / 2;
    let sizes = [half, half, 1, WRITE_BYTES, 1];
    let (jobs, answers): (Vec<_>, Vec<_>) =
        (1..).zip(sizes).map(|(ticket, bytes)| waiting(ticket, bytes)).unzip();
    coalescer.state().waiting.extend(jobs);
    let writes: Vec<_> = std::iter::repeat_with(|| taken(&coalescer)).take(4).collect();
    assert_eq!(writes, [vec![vec![1, 2], vec![3]], vec![vec![4]], vec![vec![5]], vec![]]);
    drop(answers);

    let all = (COMMANDS * SCRIPT_JOBS + 2) as u64;
    let (jobs, mut answers): (Vec<_>, Vec<_>) = (1..=all).map(|ticket| waiting(ticket, 1)).unzip();
    coalescer.state().waiting.extend(jobs);
    let first = taken(&coalescer);
    assert_eq!(first.len(), COMMANDS);
    assert!(first.iter().flatten().copied().eq(1..=all - 2));
    answers.remove(answers.len() - 2);
    assert_eq!(taken(&coalescer), [[all]]);
    assert!(taken(&coalescer).is_empty());
}

#[test]
fn what_is_put_back_has_its_place_again_and_what_is_over_is_told() {
    let coalescer = coalescer();
    let (jobs, mut answers): (Vec<_>, Vec<_>) = (1..=6).map(|ticket| waiting(ticket, 1)).unzip();
    coalescer.state().waiting.extend(jobs);
    let mut jobs = coalescer.take().remove(0);
    let late = jobs.split_off(4);
    coalescer.state().waiting.extend(late);
    coalescer.put_back(jobs, Fault::not_sent("the cable was cut"));
    let now = Instant::now();
    let next = coalescer.expire(now + Duration::from_millis(2_500)).expect("some are left");
    assert!(next > now + Duration::from_millis(2_500));
    for answer in &mut answers[..2] {
        let fault = answer.try_recv().expect("told").expect_err("a fault");
        assert!(!fault.sent && fault.to_string() == "the cable was cut");
    }
    assert!(answers[2].try_recv().is_err());
    assert_eq!(taken(&coalescer), [[3, 4, 5, 6]]);
}

#[test]
fn coalescers_of_queues_with_changing_names_are_forgotten() {
    let client = Client::new("redis://localhost").expect("a client");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let of = |name: &str| {
        let place = (name, Priority::Normal);
        client.inner.coalescers.of(runtime.handle().id(), place, None, || client.queue(name))
    };
    let held = of("held");
    for number in 0..10_000 {
        of(&number.to_string());
    }
    assert!(Arc::ptr_eq(&held, &of("held")));
    let kept = client.inner.coalescers.0.read().expect("no panic");
    let count: usize = kept.of.values().map(HashMap::len).sum();
    assert!(count < 200 && kept.count == count, "{count} {}", kept.count);
}
