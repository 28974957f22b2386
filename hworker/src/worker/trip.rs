//! One round trip on the connection of a queue: what it settles and asks for, and its answers.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use super::slots::Slot;
use crate::store::{Fault, Reserved, Settled, Settlement};

pub(super) type Replies = (Result<Settled, Fault>, Result<Option<Reserved>, Fault>);

/// Replies that are awaited.
pub(super) type Answers = Pin<Box<dyn Future<Output = Replies> + Send>>;

/// A round trip under way.
pub(super) struct Trip {
    pub(super) sent_at: Instant,
    pub(super) batch: Arc<Vec<Settlement>>,
    /// For the first of the jobs that it reserves.
    pub(super) slots: Vec<Slot>,
    pub(super) ahead: usize,
    /// It was sent to look at the server, where there may be nothing.
    pub(super) looks: bool,
    /// It asks for jobs.
    pub(super) asks: bool,
    pub(super) replies: Answers,
    pub(super) answer: Option<Replies>,
}

impl Trip {
    /// Sends it: a call is sent when its future is first polled.
    pub(super) async fn sent(mut self) -> Self {
        let first = poll_fn(|cx| Poll::Ready(self.replies.as_mut().poll(cx))).await;
        if let Poll::Ready(answer) = first {
            self.answer = Some(answer);
        }
        self
    }

    /// How many jobs it asks for.
    pub(super) fn asked(&self) -> usize {
        self.slots.len() + self.ahead
    }

    pub(super) fn into_batch(self) -> Vec<Settlement> {
        drop(self.replies);
        Arc::unwrap_or_clone(self.batch)
    }
}

/// The answers of the first round trip; the server answers in order. Cancel safe.
pub(super) async fn answered(trips: &mut VecDeque<Trip>) -> Replies {
    poll_fn(|cx| match trips.front_mut() {
        Some(trip) => match trip.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => trip.replies.as_mut().poll(cx),
        },
        None => Poll::Pending,
    })
    .await
}
