//! Wakes a task at a time that changes again and again: the deadline of the body that it runs, or when it is to look after what waits.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use tokio::task::unconstrained;
use tokio::time::{Sleep, sleep_until};

/// The alarm of a task. One that is set for an earlier time than it has to be is left as it is, and set anew when it has gone off: of many that are
/// over in time only the first costs a timer, and one with less time than those before. For to set a timer that is due before all others wakes the
/// thread that waits for timers. One that nobody asks for any more wakes the task once, for nothing.
#[derive(Default)]
pub(super) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Completes at that time. Always asked by the same task. Cancel safe.
    pub(super) async fn reached(&mut self, deadline: Instant) {
        poll_fn(|cx| self.poll_reached(deadline, cx)).await;
    }

    /// Whether it is so late; if not, the task is woken by then. Always asked by the same task.
    pub(super) fn poll_reached(
        &mut self,
        deadline: Instant,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<()> {
        let deadline = deadline.into();
        let sleep = match &mut self.0 {
            Some(sleep) if sleep.is_elapsed() && sleep.deadline() >= deadline => {
                return Poll::Ready(());
            }
            Some(sleep) if !sleep.is_elapsed() && sleep.deadline() <= deadline => {
                return Poll::Pending;
            }
            Some(sleep) => {
                sleep.as_mut().reset(deadline);
                sleep
            }
            None => self.0.insert(Box::pin(sleep_until(deadline))),
        };
        // Else a body that has used up the budget of its task would keep it from being set.
        Pin::new(&mut unconstrained(sleep.as_mut())).poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    async fn reached(alarm: &mut Alarm, deadline: Instant) {
        let reached = alarm.reached(deadline);
        tokio::time::timeout(LONG / 2, reached).await.expect("the task is woken");
    }

    /// Asks once, and then no more.
    async fn sets(alarm: &mut Alarm, deadline: Instant) {
        let mut reached = std::pin::pin!(alarm.reached(deadline));
        poll_fn(|cx| {
            assert!(reached.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
    }

    fn set_for(alarm: &Alarm) -> Option<Instant> {
        alarm.0.as_ref().map(|sleep| sleep.deadline().into_std())
    }

    #[tokio::test]
    async fn an_alarm_serves_one_body_after_the_other() {
        let (mut alarm, now) = (Alarm::default(), Instant::now());
        let [first, second, third] = [30, 60, 90].map(|ms| now + Duration::from_millis(ms));
        sets(&mut alarm, first).await;
        // The first is over in time: left for the second as it is, then set for that.
        sets(&mut alarm, second).await;
        assert_eq!(set_for(&alarm), Some(first));
        reached(&mut alarm, second).await;
        assert!(Instant::now() >= second && set_for(&alarm) == Some(second));
        // One that ran over its deadline leaves one that has gone off.
        reached(&mut alarm, third).await;
        assert!(Instant::now() >= third);
    }

    #[tokio::test]
    async fn an_alarm_is_set_for_a_body_with_less_time_than_the_last() {
        let (mut alarm, now) = (Alarm::default(), Instant::now());
        sets(&mut alarm, now + LONG).await;
        reached(&mut alarm, now + Duration::from_millis(20)).await;
        assert!(now.elapsed() >= Duration::from_millis(20));
        sets(&mut alarm, now + LONG).await;
    }

    #[tokio::test]
    async fn an_alarm_is_set_where_the_body_has_used_up_the_budget_of_the_task() {
        // Guard: `unconstrained`.
        let (mut alarm, deadline) = (Alarm::default(), Instant::now() + Duration::from_millis(20));
        let reached = poll_fn(|cx| {
            while tokio::task::coop::has_budget_remaining() {
                let mut consumes = std::pin::pin!(tokio::task::consume_budget());
                let _ = consumes.as_mut().poll(cx);
            }
            alarm.poll_reached(deadline, cx)
        });
        tokio::time::timeout(LONG / 2, reached).await.expect("it goes off");
    }
}
