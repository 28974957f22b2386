//! A connection that is polled by the task which uses it, instead of by one of its own: the two wake each other so often that a
//! scheduler in between is what costs most.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use super::line::Meter;

/// The part of a connection that reads and writes.
type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a connection is put by whoever makes it, to be polled by the task that uses it. It has room for one: the next takes its
/// place, and ends it.
#[derive(Clone, Default)]
pub(crate) struct Seat {
    seated: Arc<Mutex<Seated>>,
    /// Of its connections, one after the other.
    meter: Arc<Meter>,
}

#[derive(Default)]
struct Seated {
    driver: Option<Driver>,
    /// Who polls here.
    waker: Option<Waker>,
}

impl Seat {
    fn seated(&self) -> MutexGuard<'_, Seated> {
        self.seated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grows as long as its connections are not silent.
    pub(crate) fn passed(&self) -> u64 {
        self.meter.passed()
    }

    pub(super) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    pub(super) fn take(&self, driver: Driver) {
        let mut seated = self.seated();
        let before = seated.driver.replace(driver);
        let waker = seated.waker.take();
        drop(seated);
        drop(before);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ends the connection that is here, whatever it has not sent yet.
    pub(crate) fn clear(&self) {
        let driver = self.seated().driver.take();
        drop(driver);
    }

    /// Drives the connection that is here; whoever polls is woken when there is more to do.
    pub(crate) fn poll(&self, context: &mut Context<'_>) {
        let mut seated = self.seated();
        // For a connection that takes the place of this one too.
        if !seated.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            seated.waker = Some(context.waker().clone());
        }
        if let Some(driver) = &mut seated.driver
            && driver.as_mut().poll(context).is_ready()
        {
            seated.driver = None;
        }
    }
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seat").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Poll, Wake};

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn whoever_polls_is_woken_for_the_next_even_if_the_one_before_never_ends() {
        let (seat, counted) = (Seat::default(), Arc::new(Wakes::default()));
        let waker = Waker::from(Arc::clone(&counted));
        let mut context = Context::from_waker(&waker);
        seat.poll(&mut context);
        // One that cannot write what it has, say.
        seat.take(Box::pin(pending()));
        assert_eq!(counted.0.load(Ordering::SeqCst), 1);
        seat.poll(&mut context);
        let polled = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&polled);
        seat.take(Box::pin(poll_fn(move |_| {
            counts.fetch_add(1, Ordering::SeqCst);
            Poll::Pending
        })));
        assert_eq!(counted.0.load(Ordering::SeqCst), 2);
        seat.poll(&mut context);
        assert_eq!(polled.load(Ordering::SeqCst), 1);
        seat.clear();
        assert_eq!(Arc::strong_count(&polled), 1, "what is cleared is dropped");
    }
}
