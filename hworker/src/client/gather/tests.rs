//! What gathers, without a server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::oneshot::error::TryRecvError;

use super::*;

fn gather() -> Gather {
    let client = Client::new("redis://localhost").expect("a client");
    Gather::new(client.queue("a"), None)
}

fn waiting(ticket: u64, bytes: usize) -> (Waiting, oneshot::Receiver<Result<(), Fault>>) {
    let (answer, answered) = oneshot::channel();
    let give_up = Instant::now() + Duration::from_secs(ticket);
    let caller = Caller { ticket, give_up, answer };
    (Waiting { envelope: vec![b'x'; bytes], caller }, answered)
}

fn taken(gather: &Gather) -> Vec<Vec<u64>> {
    let tickets = |jobs: Vec<Waiting>| jobs.iter().map(|job| job.caller.ticket).collect();
    gather.take().into_iter().map(tickets).collect()
}

#[test]
fn a_write_has_bounds_and_leaves_the_rest_where_it_can_be_withdrawn() {
    let gather = gather();
    let half = SCRIPT_BYTES / 2;
    let sizes = [half, half, 1, WRITE_BYTES, 1];
    let (jobs, answers): (Vec<_>, Vec<_>) =
        (1..).zip(sizes).map(|(ticket, bytes)| waiting(ticket, bytes)).unzip();
    gather.state().waiting.extend(jobs);
    let writes: Vec<_> = std::iter::repeat_with(|| taken(&gather)).take(4).collect();
    assert_eq!(writes, [vec![vec![1, 2], vec![3]], vec![vec![4]], vec![vec![5]], vec![]]);
    drop(answers);

    let all = (COMMANDS * SCRIPT_JOBS + 2) as u64;
    let (jobs, mut answers): (Vec<_>, Vec<_>) = (1..=all).map(|ticket| waiting(ticket, 1)).unzip();
    gather.state().waiting.extend(jobs);
    let first = taken(&gather);
    assert_eq!(first.len(), COMMANDS);
    assert!(first.iter().flatten().copied().eq(1..=all - 2));
    answers.remove(answers.len() - 2);
    assert_eq!(taken(&gather), [[all]]);
    assert!(taken(&gather).is_empty());
}

#[test]
fn what_is_put_back_has_its_place_again_and_what_is_over_is_told() {
    let gather = gather();
    let (jobs, mut answers): (Vec<_>, Vec<_>) = (1..=6).map(|ticket| waiting(ticket, 1)).unzip();
    gather.state().waiting.extend(jobs);
    let mut jobs = gather.take().remove(0);
    let late = jobs.split_off(4);
    gather.state().waiting.extend(late);
    gather.put_back(jobs, Fault::not_sent("the cable was cut"));
    let now = Instant::now();
    let next = gather.expire(now + Duration::from_millis(2_500)).expect("some are left");
    assert!(next > now + Duration::from_millis(2_500));
    for answer in &mut answers[..2] {
        let fault = answer.try_recv().expect("told").expect_err("a fault");
        assert!(!fault.sent && fault.to_string() == "the cable was cut");
    }
    assert!(answers[2].try_recv().is_err());
    assert_eq!(taken(&gather), [[3, 4, 5, 6]]);
}

#[test]
fn gatherings_of_queues_with_changing_names_are_forgotten() {
    let client = Client::new("redis://localhost").expect("a client");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let of = |name: &str| {
        client.inner.gathers.of(runtime.handle().id(), name, None, || client.queue(name))
    };
    let held = of("held");
    for number in 0..10_000 {
        of(&number.to_string());
    }
    assert!(Arc::ptr_eq(&held, &of("held")));
    let kept = client.inner.gathers.0.read().expect("no panic");
    let count: usize = kept.of.values().map(HashMap::len).sum();
    assert!(count < 200 && kept.count == count, "{count} {}", kept.count);
}

#[test]
fn a_second_sender_joins_when_half_of_those_who_are_there_wait() {
    let gather = gather();
    let (jobs, _answers): (Vec<_>, Vec<_>) = (1..=100).map(|ticket| waiting(ticket, 1)).unzip();
    let mut jobs = jobs.into_iter();
    let mut wanted_at = |sending: usize, crowd: usize, senders: usize| {
        let mut state = gather.state();
        (state.sending, state.crowd, state.senders) = (sending, crowd, senders);
        state.waiting.clear();
        (1..=9).find(|_| {
            state.waiting.extend(jobs.next());
            state.wants_sender()
        })
    };
    assert_eq!(wanted_at(0, 6, 0), Some(1), "nobody else sends it");
    assert_eq!(wanted_at(1, 1, 1), Some(1));
    assert_eq!(wanted_at(6, 6, 1), Some(3));
    assert_eq!(wanted_at(2, 15, 1), Some(8), "few are in hand, but more are there");
    assert_eq!(
        wanted_at(0, 15, 1),
        Some(8),
        "half of those who come back need not wait for the others"
    );
    assert_eq!(wanted_at(2, 19, 1), None, "ten are needed");
    assert_eq!(wanted_at(6, 6, 2), None, "two are enough");
    gather.state().trying_singly = 1;
    assert_eq!(
        wanted_at(0, 15, 1),
        Some(1),
        "the other is busy with those whom the server refused"
    );
    assert_eq!(wanted_at(0, 15, 2), None);
    gather.state().kept_from = Some(Fault::not_sent("the cable was cut"));
    assert_eq!(wanted_at(1, 1, 1), None, "who cannot reach the server needs no help");
}

#[test]
fn of_two_senders_with_nothing_under_way_one_is_enough() {
    let reached = |state: State| {
        let mut state = state;
        let is_enough = state.reached();
        assert!(state.kept_from.is_none(), "the server can be reached");
        is_enough
    };
    let two = || State { senders: 2, ..State::default() };
    assert!(reached(two()));
    assert!(!reached(State { senders: 1, ..two() }));
    assert!(!reached(State { sending: 1, ..two() }), "the other has a write under way");
    assert!(
        !reached(State { trying_singly: 1, ..two() }),
        "the other tries jobs that were refused"
    );
    let cut = Fault::not_sent("the cable was cut");
    assert!(
        !reached(State { kept_from: Some(cut), ..two() }),
        "the other pauses before its next try"
    );
}

#[test]
fn who_is_there_counts_for_some_writes_after_he_has_gone() {
    let mut state = State::default();
    let mut crowds = |sizes: &[usize]| {
        let takes = |&jobs: &usize| {
            state.takes(jobs);
            state.sending -= jobs;
            state.crowd
        };
        sizes.iter().map(takes).collect::<Vec<_>>()
    };
    assert_eq!(crowds(&[64, 32, 60, 1, 1, 1]), [64, 48, 60, 45, 33, 24]);
    assert_eq!(crowds(&[1; 12])[7..], [1; 5]);
}

#[test]
fn where_writes_are_long_no_second_sender_joins_for_those_who_come_back() {
    let gather = gather();
    let mut state = gather.state();
    (0..CallTime::CALLS).for_each(|_| state.write_time.add(2 * LONG_WRITE, 0));
    let (job, _answer) = waiting(1, 1);
    state.waiting.push_back(job);
    (state.senders, state.sending, state.crowd) = (1, 2, 2);
    let second = Duration::from_secs(1);
    state.answered_at = Some(Instant::now() + second);
    assert!(!state.wants_sender() && !state.another_takes_it());
    state.answered_at = Instant::now().checked_sub(second);
    assert!(state.wants_sender(), "nobody was answered just now");
    state.sending = 0;
    assert!(!state.wants_sender(), "the first is about to take it");

    (state.senders, state.sending) = (2, 2);
    assert!(state.another_takes_it());
    state.sending = 0;
    assert!(!state.another_takes_it(), "nobody is answered soon");

    state.sending = 2;
    state.write_time.add(LONG_WRITE / 2, 0);
    assert!(!state.another_takes_it(), "writes can be short");
    (state.senders, state.answered_at) = (1, Some(Instant::now() + second));
    assert!(state.wants_sender());
}

/// Callers whose jobs were enqueued by one command, and what they hear.
fn callers(count: u64) -> (tell::Answered, Vec<oneshot::Receiver<Result<(), Fault>>>) {
    let (jobs, answers): (Vec<_>, Vec<_>) = (1..=count).map(|ticket| waiting(ticket, 1)).unzip();
    let callers = jobs.into_iter().map(|job| Some(job.caller)).collect();
    (vec![(Ok(()), callers)], answers)
}

#[tokio::test]
async fn many_are_told_together_when_other_tasks_have_had_their_turn() {
    // Guard: told at once, the first would see none of the others, which were there before.
    let (answered, answers) = callers(64);
    let others = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&others);
    let mut answers = answers.into_iter();
    let first_answer = answers.next().expect("one");
    let first = tokio::spawn(async move {
        first_answer.await.expect("told").expect("enqueued");
        seen.load(Ordering::Relaxed)
    });
    for _ in 0..10 {
        let others = Arc::clone(&others);
        tokio::spawn(async move { others.fetch_add(1, Ordering::Relaxed) });
    }
    tell::tell_together(answered).await;
    for mut answer in answers {
        answer.try_recv().expect("told").expect("enqueued");
    }
    assert_eq!(first.await.expect("no panic"), 10);
}

/// How many were back, and what they started done, when the first of the others was told, how many were told before him, and after how many
/// rounds.
async fn told_in_halves(commands: &[u64]) -> (usize, usize, usize) {
    let (answered, answers): (Vec<_>, Vec<_>) = commands.iter().map(|&jobs| callers(jobs)).unzip();
    let (back, before) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let half = (commands.iter().sum::<u64>() / 2) as usize;
    let mut tasks: Vec<_> = Vec::new();
    for answer in answers.into_iter().flatten() {
        let (back, before) = (Arc::clone(&back), Arc::clone(&before));
        tasks.push(tokio::spawn(async move {
            answer.await.expect("told").expect("enqueued");
            let seen = (back.load(Ordering::Relaxed), before.fetch_add(1, Ordering::Relaxed));
            // As a sender has it written.
            tokio::spawn(async move { back.fetch_add(1, Ordering::Relaxed) });
            seen
        }));
    }
    tokio::task::yield_now().await;
    let answered = answered.into_iter().flatten().collect();
    let rounds = AtomicUsize::new(0);
    let are_under_way = || {
        rounds.fetch_add(1, Ordering::Relaxed);
        back.load(Ordering::Relaxed) >= half
    };
    tell::tell_in_halves(answered, are_under_way).await;
    let mut seen = Vec::new();
    for task in tasks {
        seen.push(task.await.expect("no panic"));
    }
    let (back, before) = seen.into_iter().find(|(back, _)| *back > 0).expect("some told later");
    (back, before, rounds.into_inner())
}

#[tokio::test]
async fn half_of_the_callers_come_back_before_the_others_are_told() {
    // Guard: told at once, none would see what others started. The half is of all callers, not of those of each command, and not less than one, as
    // a second sender comes for no less. Of more than a thread starts in one round: `ROUNDS`.
    assert_eq!(told_in_halves(&[40]).await, (20, 20, 1));
    assert_eq!(told_in_halves(&[9, 32]).await, (21, 21, 1));
    assert_eq!(told_in_halves(&[32, 9]).await, (21, 21, 1));
    let (back, before, rounds) = told_in_halves(&[160]).await;
    assert_eq!((back, before), (80, 80));
    assert!(rounds > 1, "{rounds}");
}

#[tokio::test]
async fn the_others_are_told_too_when_the_first_do_not_come_back() {
    let (answered, answers) = callers(64);
    tell::tell_in_halves(answered, || false).await;
    for mut answer in answers {
        answer.try_recv().expect("told").expect("enqueued");
    }
}

#[test]
fn many_callers_come_back_in_halves_where_writes_are_short_and_none_is_under_way() {
    let many = tell::TWO_HALVES;
    let mut state = State::default();
    assert!(state.come_back_in_halves(many, SHORT_WRITE));
    assert!(!state.come_back_in_halves(many - 1, SHORT_WRITE));
    let flushes = Duration::from_micros(200);
    assert!(!state.come_back_in_halves(many, flushes), "two would take longer");
    assert!(!state.come_back_in_halves(2 * many, flushes));
    assert!(state.come_back_in_halves(10 * many, flushes), "so many jobs take as long");
    state.sending = 1;
    assert!(!state.come_back_in_halves(many, SHORT_WRITE), "they are a part already");
}

#[test]
fn nobody_waits_for_a_runtime_that_ends_before_he_is_told() {
    for halves in [false, true] {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (answered, mut answers) = callers(64);
        runtime.block_on(async {
            let mut telling = std::pin::pin!(async {
                if halves {
                    tell::tell_in_halves(answered, || false).await;
                } else {
                    tell::tell_together(answered).await;
                }
            });
            let is_ready = std::future::poll_fn(|context| {
                std::task::Poll::Ready(telling.as_mut().poll(context).is_ready())
            });
            assert!(!is_ready.await, "others have their turn first");
            assert!(matches!(answers[63].try_recv(), Err(TryRecvError::Empty)));
        });
        drop(runtime);
        for mut answer in answers {
            assert!(!matches!(answer.try_recv(), Err(TryRecvError::Empty)));
        }
    }
}

#[test]
fn who_was_held_up_by_other_tasks_is_told_at_once_for_a_while() {
    let mut state = State::default();
    assert!(state.tells_together());
    (0..1_000).for_each(|_| state.told_together(HELD_UP / 2));
    assert!(state.tells_together());
    state.told_together(HELD_UP);
    assert!(!state.tells_together());
    state.held_up_at = Instant::now().checked_sub(AFTER_HELD_UP);
    assert!(state.tells_together());
}

#[test]
fn where_writes_are_long_who_is_held_up_on_average_is_told_at_once() {
    let mut state = State::default();
    (0..2 * CallTime::CALLS).for_each(|_| state.write_time.add(2 * LONG_WRITE, 0));
    // Guard: a thread that waits for its core now and then is held up by no task.
    for _ in 0..10 {
        (0..200).for_each(|_| state.told_together(HELD_UP_ON_AVERAGE / 4));
        state.told_together(4 * HELD_UP);
        assert!(state.tells_together());
    }
    (0..4 * HELD_UP_WRITES).for_each(|_| state.told_together(2 * HELD_UP_ON_AVERAGE));
    assert!(!state.tells_together());
    state.held_up_at = Instant::now().checked_sub(AFTER_HELD_UP);
    assert!(state.tells_together(), "and then it is seen anew");
    state.told_together(HELD_UP_ON_AVERAGE * HELD_UP_WRITES);
    assert!(!state.tells_together(), "who is held up for long once is, too");
}
