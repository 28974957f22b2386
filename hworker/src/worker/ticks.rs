//! The ticks of tokio's clock, on time. Timers go off at ticks of a millisecond, and on Linux a thread that waits for the next one waits
//! whole milliseconds from where it is, since `epoll_wait` knows no less: it comes up to one too late, and of bodies of 10 ms that begin
//! where another has ended a third to a half take 12 ms instead of 11. While a worker has more such bodies than slots a timer of the
//! kernel's ends these waits in between; smol's `polling` and netty have one for the same reason.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// It stays for so long after it was last of use: what it is for comes and goes with each burst of jobs.
const LINGERS: Duration = Duration::from_millis(100);

/// The ticks of the runtime of the bodies.
pub(super) struct Ticks<'a> {
    bodies: &'a Handle,
    /// The task that ends waits for them; there is none while they may be late.
    prompter: Option<JoinSet<()>>,
    matter_until: Instant,
}

impl<'a> Ticks<'a> {
    pub(super) fn new(bodies: &'a Handle) -> Self {
        Self { bodies, prompter: None, matter_until: Instant::now() }
    }

    /// Whether they are seen to, until they have not mattered for a while.
    pub(super) fn are_kept(&self) -> bool {
        self.prompter.is_some()
    }

    /// Whether it matters now that they come on time. To be said again and again.
    pub(super) fn matter(&mut self, matter: bool) {
        let now = Instant::now();
        if matter {
            self.matter_until = now + LINGERS;
            self.prompter.get_or_insert_with(|| {
                let mut prompter = JoinSet::new();
                prompter.spawn_on(prompt(), self.bodies);
                prompter
            });
        } else if now >= self.matter_until {
            self.prompter = None;
        }
    }
}

/// kqueue waits as long as it is told.
#[cfg(not(target_os = "linux"))]
async fn prompt() {}

/// Ends the waits of the runtime that it runs on, until it is dropped.
#[cfg(target_os = "linux")]
async fn prompt() {
    if let Err(error) = timer::keep_going_off().await {
        crate::log::say!(DEBUG, "timers may be a millisecond late: {error}");
    }
}

#[cfg(target_os = "linux")]
mod timer {
    use std::io;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::net::unix::pipe::Receiver;

    /// Whoever ends a wait then finds a tick less than so late. 0.33 ms brings no more, 1 ms nothing.
    const EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 400_000 };

    /// Wakes the thread that waits for the runtime's events, and does nothing then.
    pub(super) async fn keep_going_off() -> io::Result<()> {
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let every = Itimerspec { it_interval: EVERY, it_value: EVERY };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &every)?;
        // It reads like a pipe.
        let timer = Receiver::from_owned_fd_unchecked(timer)?;
        let mut expirations = [0; size_of::<u64>()];
        loop {
            timer.readable().await?;
            // It goes off again when it was read, so a runtime that is busy is not disturbed.
            match timer.try_read(&mut expirations) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::sleep;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn a_runtime_that_waits_is_woken_while_ticks_matter_and_not_after_that() {
        let waits = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&waits);
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all();
        builder.on_thread_park(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let runtime = builder.build().expect("a runtime");
        let mut ticks = Ticks::new(runtime.handle());
        let began = Instant::now();
        // Ten times as long as it has to take: with a timer that goes off every few milliseconds, or once, it is not enough.
        while waits.load(Ordering::Relaxed) < 2_500 {
            assert!(began.elapsed() < SOON, "{waits:?} waits");
            ticks.matter(true);
            sleep(Duration::from_millis(5));
        }
        while ticks.are_kept() {
            ticks.matter(false);
            sleep(Duration::from_millis(5));
        }
        let began = Instant::now();
        while waits.swap(0, Ordering::Relaxed) > 0 {
            assert!(began.elapsed() < SOON, "it goes on");
            sleep(Duration::from_millis(50));
        }
    }
}
