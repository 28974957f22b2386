//! Whose turn it is on a thread of the runtime: as few wakes as can be. tokio wakes another thread whenever a task wakes
//! two, or yields; where the server needs that core, or the thread finds nothing to do, that costs more than a short body takes.
//!
//! So the loop of a queue and its connection are one task, which wakes itself without a word to the scheduler. And whoever starts bodies
//! gives way to it by waiting until it has had its turn, instead of yielding. A turn is not cut short by the scheduler's budget of a task: it would
//! go on when this thread has nothing else to start, and a body may block the thread before that.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::task::unconstrained;

use crate::store::Seat;

/// The turns of the task that fetches for one queue.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// One is under way: what wakes the task is seen before it ends.
    under_way: AtomicBool,
    /// The task was woken, and the turn has not begun.
    due: AtomicBool,
    begun: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Wakes the task, from its first turn until it has ended.
    task: Option<Waker>,
    /// Who waits for the end of a turn.
    waiting: Vec<Waker>,
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when the task has had a turn, or at once where there is none, or when all are let go. Cancel safe.
    pub(super) async fn give_way(&self) {
        let mut waits = false;
        poll_fn(|context| {
            if std::mem::replace(&mut waits, true) {
                return Poll::Ready(());
            }
            let mut state = self.state();
            let Some(task) = state.task.clone() else { return Poll::Ready(()) };
            // Before the task is woken, so that the turn which follows is not missed.
            state.waiting.push(context.waker().clone());
            drop(state);
            self.wake(&task);
            Poll::Pending
        })
        .await;
    }

    /// Whether the task was woken, and its turn has not begun: it may be what some thread is to run next, from which no other takes it.
    pub(super) fn are_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    fn wake(&self, task: &Waker) {
        self.due.store(true, Ordering::Relaxed);
        task.wake_by_ref();
    }

    /// How many have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    fn begin(&self, waker: &Waker) {
        self.due.store(false, Ordering::Relaxed);
        self.under_way.store(true, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        if !state.task.as_ref().is_some_and(|task| task.will_wake(waker)) {
            state.task = Some(waker.clone());
        }
    }

    fn end(&self) {
        self.under_way.store(false, Ordering::SeqCst);
        self.let_go();
    }

    /// Whoever waits for a turn goes on: a body may block the thread that is to have it.
    pub(super) fn let_go(&self) {
        let waiting = std::mem::take(&mut self.state().waiting);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// So often the parts of the task wake each other in one turn before others get theirs.
const ROUNDS: usize = 16;

/// A loop and the connection on its seat, as one task.
pub(super) struct Seated<F> {
    run: Pin<Box<F>>,
    run_part: Arc<Part>,
    seat: Seat,
    seat_part: Arc<Part>,
    turns: Arc<Turns>,
}

impl<F> Seated<F> {
    pub(super) fn new(run: F, seat: Seat, turns: Arc<Turns>) -> Self {
        let part = || Arc::new(Part { woken: AtomicBool::new(true), turns: Arc::clone(&turns) });
        let (run_part, seat_part) = (part(), part());
        Self { run: Box::pin(run), run_part, seat, seat_part, turns }
    }
}

impl<F: Future<Output = ()>> Future for Seated<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let turn = unconstrained(poll_fn(|context| self.turn(context)));
        pin!(turn).poll(context)
    }
}

impl<F: Future<Output = ()>> Seated<F> {
    fn turn(&mut self, context: &Context<'_>) -> Poll<()> {
        let Self { run, run_part, seat, seat_part, turns } = self;
        turns.begin(context.waker());
        let mut ended = Poll::Pending;
        for _ in 0..ROUNDS {
            if let Some(waker) = seat_part.woken() {
                seat.poll(&mut Context::from_waker(&waker));
            }
            let Some(waker) = run_part.woken() else { break };
            ended = run.as_mut().poll(&mut Context::from_waker(&waker));
            if ended.is_ready() {
                break;
            }
        }
        turns.end();
        // Since the last look, or more often than is fair.
        if ended.is_pending() && (run_part.is_woken() || seat_part.is_woken()) {
            turns.wake(context.waker());
        }
        ended
    }
}

impl<F> Drop for Seated<F> {
    fn drop(&mut self) {
        // Nobody waits for a turn that does not come.
        self.turns.state().task = None;
        // Others may know the seat still.
        self.seat.clear();
        self.turns.end();
    }
}

/// A part of the task, which wakes it without the scheduler during a turn.
struct Part {
    woken: AtomicBool,
    turns: Arc<Turns>,
}

impl Part {
    /// Its waker, if it was woken since the last time.
    fn woken(self: &Arc<Self>) -> Option<Waker> {
        self.woken.swap(false, Ordering::SeqCst).then(|| Waker::from(Arc::clone(self)))
    }

    fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }
}

impl Wake for Part {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let first = !self.woken.swap(true, Ordering::SeqCst);
        // Of this and the look at the end of a turn, one sees the other.
        if first && !self.turns.under_way.load(Ordering::SeqCst) {
            let task = self.turns.state().task.clone();
            task.inspect(|task| self.turns.wake(task));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use tokio::sync::Notify;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn who_gives_way_goes_on_after_the_next_turn() {
        let (turns, asked, seen) =
            (Arc::new(Turns::default()), Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        turns.give_way().await; // There is nobody to give way to yet.
        let fetch = {
            let (asked, seen) = (Arc::clone(&asked), Arc::clone(&seen));
            async move {
                loop {
                    asked.notified().await;
                    seen.fetch_add(1, Ordering::SeqCst);
                }
            }
        };
        let task = tokio::spawn(Seated::new(fetch, Seat::default(), Arc::clone(&turns)));
        tokio::task::yield_now().await;
        for turn in 1..=100 {
            assert!(!turns.are_due());
            asked.notify_one();
            assert!(turns.are_due(), "woken, and no thread has got to it yet");
            turns.give_way().await;
            assert_eq!(seen.load(Ordering::SeqCst), turn);
        }
        // One that ends lets everybody go.
        task.abort();
        let gave = timeout(Duration::from_secs(10), turns.give_way()).await;
        assert!(gave.is_ok());
        assert!(task.await.is_err_and(|ended| ended.is_cancelled()));
        turns.give_way().await;
    }

    #[tokio::test]
    async fn what_wakes_itself_during_a_turn_is_polled_again_and_others_too() {
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&polls);
        let busy = poll_fn(move |context| {
            context.waker().wake_by_ref();
            match counted.fetch_add(1, Ordering::SeqCst) {
                1000.. => Poll::Ready(()),
                _ => Poll::Pending,
            }
        });
        let mut task = Seated::new(busy, Seat::default(), Arc::default());
        let once = poll_fn(|context| Poll::Ready(Pin::new(&mut task).poll(context)));
        assert!(once.await.is_pending());
        assert_eq!(polls.load(Ordering::SeqCst), ROUNDS);
        tokio::spawn(task).await.expect("it ends");
    }

    #[tokio::test]
    async fn a_turn_is_not_cut_short_however_much_is_done_in_it() {
        // Guard: `unconstrained`.
        let fetch = async {
            for _ in 0..1000 {
                tokio::task::consume_budget().await;
            }
        };
        let mut task = Seated::new(fetch, Seat::default(), Arc::default());
        let once = poll_fn(|context| Poll::Ready(Pin::new(&mut task).poll(context)));
        assert!(once.await.is_ready());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_wake_from_another_thread_is_lost() {
        let (there, back) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let fetch = {
            let (there, back) = (Arc::clone(&there), Arc::clone(&back));
            async move {
                for _ in 0..20_000 {
                    there.notified().await;
                    back.notify_one();
                }
            }
        };
        let turns = Arc::new(Turns::default());
        let task = tokio::spawn(Seated::new(fetch, Seat::default(), Arc::clone(&turns)));
        let giver = tokio::spawn(async move {
            for _ in 0..20_000 {
                turns.give_way().await;
            }
        });
        let all = async {
            for _ in 0..20_000 {
                there.notify_one();
                back.notified().await;
            }
            task.await.expect("it ends");
            giver.await.expect("it ends");
        };
        timeout(Duration::from_secs(60), all).await.expect("every wake arrives");
    }
}
