use tokio::time::timeout;

use super::*;
use crate::config::Share;

fn jobs(tokens: std::ops::Range<u64>) -> Vec<WaitingJob> {
    tokens.map(|token| WaitingJob::Reserved(Lease::Token(token), vec![0; 10])).collect()
}

fn tokens(jobs: &[WaitingJob]) -> Vec<u64> {
    jobs.iter().map(|job| job.lease().token()).collect()
}

#[test]
fn the_foremost_have_the_slots_and_what_is_too_much_goes_back() {
    let (ready, slots) = (Buffer::default(), Slots::new(3));
    ready.push(jobs(0..4), slots.take(2));
    assert_eq!((ready.ahead(), ready.count(), slots.free()), ((2, 40), 4, 1));
    let mut kept = slots.try_acquire();
    let mut started = Vec::new();
    for expected in 0..4 {
        match ready.next(&mut kept, Instant::now()) {
            Next::Start { job, slot, .. } => {
                assert_eq!(job.lease().token(), expected);
                started.push(slot);
            }
            Next::NeedsSlot => assert_eq!(expected, 3, "all three slots are in use"),
            Next::Empty => panic!("{expected}"),
        }
    }
    started.pop();
    kept = slots.try_acquire();
    assert!(matches!(ready.next(&mut kept, Instant::now()), Next::Start { .. }));
    assert!(matches!(ready.next(&mut kept, Instant::now()), Next::Empty));
    ready.push(Vec::new(), slots.take(1));
    drop(started);
    assert_eq!((slots.free(), ready.ahead()), (3, (0, 0)), "no job, so the slot goes back");
}

#[tokio::test]
async fn one_runner_is_called_and_others_only_if_asked_for_or_late() {
    let ready = Buffer::default();
    (0..3).for_each(|_| ready.begin_runner());
    let mut runners: Vec<_> = (0..3).map(|_| Box::pin(ready.called())).collect();
    let waiting = async |runners: &mut Vec<_>| {
        let mut left = Vec::new();
        for mut runner in runners.drain(..) {
            if timeout(Duration::ZERO, &mut runner).await.is_err() {
                left.push(runner);
            }
        }
        *runners = left;
        runners.len()
    };
    assert_eq!(waiting(&mut runners).await, 3);
    ready.push(jobs(0..5), None);
    assert!(ready.call_runner(false), "none is awake");
    assert_eq!(waiting(&mut runners).await, 2);
    assert!(!ready.call_runner(false), "one is awake");
    assert_eq!(waiting(&mut runners).await, 2);
    assert!(ready.call_runner(true));
    assert_eq!(waiting(&mut runners).await, 1);
    assert!(!ready.call_all_runners(Duration::from_secs(60)));
    assert_eq!(waiting(&mut runners).await, 1, "nothing has waited that long");
    assert!(ready.call_all_runners(Duration::ZERO));
    assert_eq!(waiting(&mut runners).await, 0);
}

#[tokio::test]
async fn a_slot_that_comes_with_others_is_not_waited_for() {
    // Guard: `slotted`.
    let (ready, slots) = (Buffer::default(), Slots::new(1));
    let taken: Vec<_> = slots.take(1).collect();
    ready.push(jobs(0..1), None);
    assert!(matches!(ready.next(&mut None, Instant::now()), Next::NeedsSlot));
    let (waited, ()) = tokio::join!(
        timeout(Duration::from_secs(10), ready.slot(&slots)),
        // The other future is polled first, and waits.
        async { ready.push(Vec::new(), taken) }
    );
    assert!(matches!(waited, Ok(None)), "it is kept with the job");
    assert!(matches!(ready.next(&mut None, Instant::now()), Next::Start { .. }));
}

#[tokio::test]
async fn a_task_counts_as_waiting_until_it_has_the_slot_that_came_free() {
    // Guard: `freed`, `Slots::are_awaited`: a waiting task is woken on a thread that the next body may block.
    let (ready, slots) = (Buffer::default(), Slots::new(2));
    let mut kept = slots.try_acquire();
    ready.push(jobs(0..1), slots.take(1));
    let mut waits = Box::pin(slots.acquire());
    assert!(timeout(Duration::ZERO, &mut waits).await.is_err());
    assert!(matches!(ready.next(&mut kept, Instant::now()), Next::Start { freed: true, .. }));
    assert!(slots.are_awaited());
    assert!(waits.await.is_some());
    assert!(!slots.are_awaited());
    // A task that waits for the limit of its own queue does not count for the others.
    let limited = slots.of_queue(Share::default(), Some(0));
    let mut waits = Box::pin(limited.acquire());
    assert!(timeout(Duration::ZERO, &mut waits).await.is_err());
    assert_eq!((limited.are_awaited(), slots.are_awaited()), (true, false));
    drop(waits);
    assert!(!limited.are_awaited());
}

#[tokio::test]
async fn a_runner_that_yields_is_called_if_its_thread_is_blocked() {
    // Guard: `late`: a yielding task is woken by its own thread only.
    let ready = std::sync::Arc::new(Buffer::default());
    ready.push(jobs(0..1), None);
    let yields = std::pin::pin!(ready.yield_now());
    let woken = std::sync::Arc::new(Woken::default());
    let waker = std::task::Waker::from(std::sync::Arc::clone(&woken));
    let mut context = std::task::Context::from_waker(&waker);
    assert!(yields.poll(&mut context).is_pending());
    assert!(!woken.0.load(Ordering::SeqCst));
    ready.call_all_runners(Duration::ZERO);
    assert!(woken.0.load(Ordering::SeqCst));
}

/// Whether the waker was called.
#[derive(Default)]
struct Woken(std::sync::atomic::AtomicBool);

impl std::task::Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn what_has_waited_without_a_slot_is_taken_out_with_all_behind_it() {
    let (ready, slots) = (Buffer::default(), Slots::new(1));
    ready.push(jobs(0..3), slots.take(1));
    // The first jobs have waited longer than the others, by a clock.
    std::thread::sleep(Duration::from_millis(2));
    ready.push(jobs(3..5), None);
    assert!(ready.take_late(Duration::from_secs(60), true).is_empty());
    assert_eq!(tokens(&ready.take_late(Duration::from_millis(1), false)), [1, 2, 3, 4]);
    assert_eq!((ready.count(), ready.ahead()), (1, (0, 10)));
    assert_eq!(tokens(&ready.take_all()), [0]);
    assert_eq!((ready.count(), slots.free()), (0, 1));
}
