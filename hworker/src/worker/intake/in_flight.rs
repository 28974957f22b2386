//! One round trip on the connection of a queue: what it settles and asks for, and its answers.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use crate::store::{CALL_WITHIN, Connection, Fault, Reserved, SCRIPT_JOBS, Settled, Settlement};
use crate::time::day;
use crate::worker::state::consumer::Consumer;
use crate::worker::state::core::Core;
use crate::worker::state::slots::Slot;

pub(crate) type Replies = (Result<Settled, Fault>, Result<Option<Reserved>, Fault>);

/// Replies that are awaited.
pub(crate) type Answers = Pin<Box<dyn Future<Output = Replies> + Send>>;

/// A round trip under way.
pub(crate) struct CallInFlight {
    pub(crate) sent_at: Instant,
    pub(crate) batch: Arc<Vec<Settlement>>,
    /// For the first of the jobs that it reserves.
    pub(crate) slots: Vec<Slot>,
    pub(crate) ahead: usize,
    /// It was sent to look at the server, where there may be nothing.
    pub(crate) looks: bool,
    /// It asks for jobs.
    pub(crate) asks: bool,
    pub(crate) replies: Answers,
    pub(crate) answer: Option<Replies>,
}

impl CallInFlight {
    /// Sends it: a call is sent when its future is first polled.
    pub(crate) async fn sent(mut self) -> Self {
        let first = poll_fn(|cx| Poll::Ready(self.replies.as_mut().poll(cx))).await;
        if let Poll::Ready(answer) = first {
            self.answer = Some(answer);
        }
        self
    }

    /// How many jobs it asks for.
    pub(crate) fn asked(&self) -> usize {
        self.slots.len() + self.ahead
    }

    pub(crate) fn into_batch(self) -> Vec<Settlement> {
        drop(self.replies);
        Arc::unwrap_or_clone(self.batch)
    }
}

/// The answers of the first round trip; the server answers in order. Cancel safe.
pub(crate) async fn answered(calls: &mut VecDeque<CallInFlight>) -> Replies {
    poll_fn(|cx| match calls.front_mut() {
        Some(call) => match call.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => call.replies.as_mut().poll(cx),
        },
        None => Poll::Pending,
    })
    .await
}

/// What a round trip is to ask for.
#[derive(Debug)]
pub(crate) struct ClaimRequest {
    /// How many free slots to take for what it reserves.
    pub(crate) slots: usize,
    /// How many jobs to reserve beyond them.
    pub(crate) ahead: usize,
    /// To ask the server even without room.
    pub(crate) look: bool,
}

/// Where a round trip goes.
pub(crate) struct Target<'a> {
    pub(crate) core: &'a Core,
    pub(crate) consumer: &'a Arc<Consumer>,
    pub(crate) connection: &'a Connection,
    pub(crate) session_number: u64,
}

/// A round trip about to be made: settles what is in the outbox and reserves, in one write.
pub(crate) fn call(
    to: &Target<'_>,
    ask: &ClaimRequest,
    slots: Vec<Slot>,
    held_up: usize,
    refused: bool,
) -> CallInFlight {
    let Target { consumer, connection, .. } = *to;
    let batch = Arc::new(consumer.outbox.take());
    // What the server holds for this worker beyond that, as after answers that were lost, goes back before there is more.
    let holds_more = consumer.outbox.count() > consumer.slots.total() || held_up > SCRIPT_JOBS;
    let (slots, ahead) = if holds_more { (Vec::new(), 0) } else { (slots, ask.ahead) };
    let want = slots.len() + ahead;
    let asks = ask.look || want > 0;
    if asks {
        consumer.claims.one_is_sent();
    }
    let only_acks = !batch.is_empty() && batch.iter().all(Settlement::is_ack);
    let sending = Arc::clone(&batch);
    // The fast path: acks, with the next reserve. What else is settled may fail alone, and what is confirmed is waited for alone. Where no
    // job can be reserved, acks are settled all the same.
    let replies = if only_acks && asks && !refused && !connection.is_confirming() {
        ack_and_reserve(to, want, sending)
    } else {
        settle_beside_reserve(to, asks.then_some(want), sending)
    };
    let looks = ask.look;
    let sent_at = Instant::now();
    CallInFlight { sent_at, batch, slots, ahead, looks, asks, replies, answer: None }
}

/// In one call.
fn ack_and_reserve(to: &Target<'_>, want: usize, acks: Arc<Vec<Settlement>>) -> Answers {
    let (consumer, connection, session_number) =
        (Arc::clone(to.consumer), to.connection.clone(), to.session_number);
    let today = day(to.core.clock.unix_ms());
    Box::pin(async move {
        let (queue, keys) = (&consumer.queue, &consumer.keys);
        let both = queue.ack_and_reserve(&connection, keys, &today, &acks, session_number, want);
        match both.await {
            Ok((settled, reserved)) => (Ok(settled), Ok(Some(reserved))),
            Err(fault) => (Err(fault.clone()), Err(fault)),
        }
    })
}

/// In calls of their own, so that each may fail alone; `None` reserves nothing.
fn settle_beside_reserve(
    to: &Target<'_>,
    want: Option<usize>,
    batch: Arc<Vec<Settlement>>,
) -> Answers {
    let (consumer, connection, session_number) =
        (Arc::clone(to.consumer), to.connection.clone(), to.session_number);
    let today = day(to.core.clock.unix_ms());
    Box::pin(async move {
        let settle = async {
            if batch.is_empty() {
                return Ok(Settled::default());
            }
            consumer.queue.settle(&connection, &consumer.keys, &today, &batch).await
        };
        let reserve = async {
            let Some(want) = want else { return Ok(None) };
            let within = CALL_WITHIN;
            consumer
                .queue
                .reserve(&connection, &consumer.keys, session_number, want, within)
                .await
                .map(Some)
        };
        tokio::join!(settle, reserve)
    })
}

/// The round trips of a connection, however that is left, also by a panic.
pub(crate) struct CallsInFlight {
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) under_way: VecDeque<CallInFlight>,
}

impl Drop for CallsInFlight {
    fn drop(&mut self) {
        // What was under way may have reached the server or not; it is sent again.
        while let Some(call) = self.under_way.pop_back() {
            self.consumer.outbox.put_back(call.into_batch());
        }
    }
}
