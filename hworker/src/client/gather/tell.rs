//! Tells many callers what became of their jobs, so that their next jobs are on their way as soon as possible.
//!
//! Whatever a task of a tokio runtime wakes, it wakes a sleeping thread of the runtime for it, too. That thread finds the one task that
//! is there by then, runs it, and sleeps again until the next caller is told: for 64 callers up to 40 times, each with two switches of
//! threads, which takes longer than all that the callers do. What is woken by a thread that goes on with tasks that have yielded, is
//! there as a whole before another thread is called to help. So callers are told by the waker of a task that yields.
//!
//! In a current-thread runtime the thread has the next jobs of all callers before it writes any of them, and the server nothing to do
//! meanwhile. There callers are told in two halves, so that the server works for one while the thread works for the other.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use tokio::task::yield_now;

use super::Caller;
use crate::store::Fault;

/// From so many on callers are told together.
pub(super) const MANY: usize = 8;

/// From so many on two writes are better than one where one thread tells all: with 16 it is a little worse.
pub(super) const TWO_HALVES: usize = 32;

/// How often the thread goes round at most: it starts some sixty tasks each time, so that of more it is not done after the first.
const ROUNDS: usize = 3;

/// What became of the jobs of each command, and who waits for that.
pub(super) type Answered = Vec<(Result<(), Fault>, Vec<Option<Caller>>)>;

/// Tells each caller, now.
pub(super) fn tell(answered: Answered) {
    for (result, callers) in answered {
        callers.into_iter().flatten().for_each(|caller| caller.tell(result.clone()));
    }
}

/// Tells all callers when the thread has nothing else to start, or has started so much else that others have their turn.
pub(super) async fn tell_together(answered: Answered) {
    let (mut answered, mut telling) = (Some(answered), None);
    let mut yielded = pin!(yield_now());
    poll_fn(|context| {
        let telling = telling.get_or_insert_with(|| {
            let answered = Mutex::new(answered.take().unwrap_or_default());
            Arc::new(Telling { answered, sender: context.waker().clone() })
        });
        let waker = Waker::from(Arc::clone(telling));
        yielded.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await;
    // If it had its turn without having been woken.
    if let Some(telling) = telling {
        telling.tell();
    }
}

/// Tells half of the callers, and the others when the next jobs of the first are under way, or the thread has gone round a few times: each time
/// until it has nothing else to start, or has started so much else that others have their turn.
pub(super) async fn tell_in_halves(mut answered: Answered, are_under_way: impl Fn() -> bool) {
    let all: usize = answered.iter().map(|(_, callers)| callers.len()).sum();
    let mut left = all.div_ceil(2);
    let later = answered.iter_mut().map(|(result, callers)| {
        let first = callers.len().min(left);
        left -= first;
        (result.clone(), callers.split_off(first))
    });
    let later = later.collect();
    tell(answered);
    for _ in 0..ROUNDS {
        yield_now().await;
        if are_under_way() {
            break;
        }
    }
    tell(later);
}

/// A waker that tells callers.
struct Telling {
    answered: Mutex<Answered>,
    sender: Waker,
}

impl Telling {
    fn tell(&self) {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let answered = std::mem::take(&mut *answered);
        tell(answered);
    }
}

impl Wake for Telling {
    fn wake(self: Arc<Self>) {
        self.tell();
        self.sender.wake_by_ref();
    }
}
