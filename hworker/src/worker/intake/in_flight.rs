//! One call on the connection of a queue: its settlements, its claim request and its answers.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use crate::store::{
    CALL_WITHIN, Connection, Fault, Reserved, SCRIPT_JOBS, Settled, Settlement, Want,
};
use crate::time::day;
use crate::worker::state::{Consumer, Core, Slot};

pub(crate) type Replies = (Result<Settled, Fault>, Result<Option<Reserved>, Fault>);

/// The future of the replies.
pub(crate) type Answers = Pin<Box<dyn Future<Output = Replies> + Send>>;

/// A call in flight.
pub(crate) struct CallInFlight {
    pub(crate) sent_at: Instant,
    pub(crate) batch: Arc<Vec<Settlement>>,
    /// For the first of the jobs that the call reserves.
    pub(crate) slots: Vec<Slot>,
    pub(crate) ahead: usize,
    /// The call looks at the server, which may have no jobs.
    pub(crate) looks: bool,
    /// The call claims jobs.
    pub(crate) asks: bool,
    pub(crate) replies: Answers,
    pub(crate) answer: Option<Replies>,
}

impl CallInFlight {
    /// Sends the call: the first poll of its future does it.
    pub(crate) async fn sent(mut self) -> Self {
        let first = poll_fn(|cx| Poll::Ready(self.replies.as_mut().poll(cx))).await;
        if let Poll::Ready(answer) = first {
            self.answer = Some(answer);
        }
        self
    }

    /// How many jobs the call claims.
    pub(crate) fn asked(&self) -> usize {
        self.slots.len() + self.ahead
    }

    pub(crate) fn into_batch(self) -> Vec<Settlement> {
        drop(self.replies);
        Arc::unwrap_or_clone(self.batch)
    }
}

/// The answers of the first call; the server answers in order. Cancel safe.
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

/// The claim request of a call.
#[derive(Debug)]
pub(crate) struct ClaimRequest {
    /// How many free slots to take for the jobs.
    pub(crate) slots: usize,
    /// How many jobs to reserve beyond them.
    pub(crate) ahead: usize,
    /// Ask the server, even without room.
    pub(crate) look: bool,
}

/// Where a call goes.
pub(crate) struct Target<'a> {
    pub(crate) core: &'a Core,
    pub(crate) consumer: &'a Arc<Consumer>,
    pub(crate) connection: &'a Connection,
    pub(crate) session_number: u64,
}

/// Makes a call: settles the outbox and reserves, in one write.
pub(crate) fn call(
    to: &Target<'_>,
    ask: &ClaimRequest,
    slots: Vec<Slot>,
    held_up: usize,
    refused: bool,
) -> CallInFlight {
    let Target { consumer, connection, .. } = *to;
    let batch = Arc::new(consumer.outbox.take());
    // After lost answers the server may hold more jobs for this worker. They go back before it reserves more.
    let holds_more = consumer.outbox.count() > consumer.slots.total() || held_up > SCRIPT_JOBS;
    let (slots, ahead) = if holds_more { (Vec::new(), 0) } else { (slots, ask.ahead) };
    let want = Want { slots: slots.len(), ahead };
    let asks = ask.look || want.slots + want.ahead > 0;
    if asks {
        consumer.claims.one_is_sent();
    }
    let only_acks = !batch.is_empty() && batch.iter().all(Settlement::is_ack);
    let sending = Arc::clone(&batch);
    // The fast path: acks, with the next reserve. Other settlements may fail alone, and confirmed ones are waited for alone. If no job can
    // be reserved, acks are settled all the same.
    let replies = if only_acks && asks && !refused && !connection.is_confirming() {
        ack_and_reserve(to, want, sending)
    } else {
        settle_beside_reserve(to, asks.then_some(want), sending)
    };
    let looks = ask.look;
    let sent_at = Instant::now();
    CallInFlight { sent_at, batch, slots, ahead, looks, asks, replies, answer: None }
}

/// Acks and reserves in one call.
fn ack_and_reserve(to: &Target<'_>, want: Want, acks: Arc<Vec<Settlement>>) -> Answers {
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

/// Settles and reserves in calls of their own, so that each may fail alone; `None` reserves nothing.
fn settle_beside_reserve(
    to: &Target<'_>,
    want: Option<Want>,
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

/// The calls in flight on a connection. Dropping this puts their settlements back, also in a panic.
pub(crate) struct CallsInFlight {
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) under_way: VecDeque<CallInFlight>,
}

impl Drop for CallsInFlight {
    fn drop(&mut self) {
        // Calls in flight may have reached the server or not. Their settlements are sent again.
        while let Some(call) = self.under_way.pop_back() {
            self.consumer.outbox.put_back(call.into_batch());
        }
    }
}
