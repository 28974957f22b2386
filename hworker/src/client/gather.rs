//! Enqueues that come at the same time share one write.
//!
//! Who comes alone, or nearly so, sends his own job, on a connection that is there, in his own task. Who comes while
//! others are under way leaves his job in the *gathering* of its queue; a sender, which is a task, takes everything that has
//! gathered, sends it with one write, and when that is answered takes what has gathered since. A second sender joins it when
//! half of all who are there have gathered: then the server works for one half while the other is answered. It joins for anybody
//! while the first tries jobs one by one that the server refused together. So nobody waits for the sake of a batch, and no job depends
//! on the future of another: a sender lives as long as there is something to send, and what is left there can be withdrawn until it is taken.
//!
//! Where writes take long, on a server that flushes its file before it answers, callers who come back when they are answered are better off
//! together in one write than in two that wait for each other: there a sender lets those come back whom it has answered, and leaves them
//! to the other, if that has a write under way; and no other is started for them. Who came while writes were under way does not wait for that.
//!
//! In a current-thread runtime all who were answered together come back before the next job of any is sent. There they are [told](tell) in two
//! halves, if there are many, writes are short, and none is under way.

mod sender;
mod tell;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, Id};
use tokio::sync::{OnceCell, oneshot};

use self::sender::Sender;
use self::tell::TWO_HALVES;
use super::Client;
use crate::durability::Durability;
use crate::store::{
    CallTime, Connection, Fault, FaultKind, LAST_MOMENT, Queue, SCRIPT_BYTES, SCRIPT_JOBS,
    WRITE_BYTES,
};

/// Commands that one write has at most; a command holds 1000 jobs or 1 MB, a write 4 MB. What is beyond stays
/// withdrawable.
const COMMANDS: usize = 8;

/// Callers that may each send their own job at once. With one, two callers in turn would pay for a task that gathers
/// nothing; with more, fewer jobs share a write.
const ALONE: usize = 2;

/// Writes under way at once.
const SENDERS: usize = 2;

/// A write that takes longer, besides what its jobs take, is long: sooner, those who were answered and have a next job are not all back.
const LONG_WRITE: Duration = Duration::from_micros(100);

/// A write that takes less, and so much for each job, is short: then two, of which the server has one while the callers of the
/// other come back, are better than one. Where the server flushes, a flush for each of them takes longer than what that brings.
const SHORT_WRITE: Duration = Duration::from_micros(75);
const SHORT_WRITE_JOB: Duration = Duration::from_nanos(700);

/// Within this time after an answer, those who come are those who were answered.
const BACK_WITHIN: Duration = Duration::from_micros(200);

/// Where it takes longer until callers are told together, other tasks hold up the thread: those who could be taken over by another thread
/// at once are told at once, for the time after that.
const HELD_UP: Duration = Duration::from_millis(1);
const AFTER_HELD_UP: Duration = Duration::from_secs(10);

/// Where writes are long, and callers better off if they come back together: where it takes longer on average, over about so many of the
/// last writes. A thread that waited for its core, once in a while for some milliseconds, was held up by no task.
const HELD_UP_ON_AVERAGE: Duration = Duration::from_micros(200);
const HELD_UP_WRITES: u32 = 64;

/// The gatherings of a client: one for each queue, or shard of one, and runtime.
#[derive(Debug, Default)]
pub(super) struct Gathers(RwLock<Kept>);

#[derive(Debug, Default)]
struct Kept {
    of: HashMap<Id, HashMap<Box<str>, Arc<Gather>>>,
    count: usize,
    sweep_at: usize,
}

impl Gathers {
    fn of(
        &self,
        runtime: Id,
        queue: &str,
        confirms: Option<Durability>,
        make: impl FnOnce() -> Queue,
    ) -> Arc<Gather> {
        // Who waits for replicas does not hold up others. No queue has a blank in its name.
        let of_its_own = confirms.map(|asked| format!("{queue} {asked:?}"));
        let queue = of_its_own.as_deref().unwrap_or(queue);
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(gather) = kept.get(runtime, queue) {
            return gather;
        }
        drop(kept);
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(gather) = kept.get(runtime, queue) {
            return gather;
        }
        if kept.count >= kept.sweep_at {
            kept.sweep();
        }
        let gather = Arc::new(Gather::new(make(), confirms));
        kept.of.entry(runtime).or_default().insert(queue.into(), Arc::clone(&gather));
        kept.count += 1;
        gather
    }
}

impl Kept {
    fn get(&self, runtime: Id, queue: &str) -> Option<Arc<Gather>> {
        self.of.get(&runtime)?.get(queue).cloned()
    }

    /// Forgets the gatherings in which nobody is, of queues with changing names and of runtimes that have ended.
    fn sweep(&mut self) {
        self.of.retain(|_, queues| {
            queues.retain(|_, gather| Arc::strong_count(gather) > 1);
            !queues.is_empty()
        });
        self.count = self.of.values().map(HashMap::len).sum();
        self.sweep_at = (2 * self.count).max(64);
    }
}

/// What gathers for one queue in one runtime.
#[derive(Debug)]
pub(super) struct Gather {
    queue: Queue,
    /// How safe its jobs have to be.
    confirms: Option<Durability>,
    /// The registry of queues has its queue.
    registered: OnceCell<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many callers send their own jobs just now.
    direct: usize,
    /// How many senders there are; always one while something waits.
    senders: usize,
    /// How many jobs are in their hands.
    sending: usize,
    /// How many senders try jobs singly that were refused together. Nobody waits for such a one where another can be started.
    trying_singly: usize,
    /// How many were there at once lately, in their hands or waiting.
    crowd: usize,
    /// In the order of their tickets.
    waiting: VecDeque<Waiting>,
    last_ticket: u64,
    /// What the senders' writes take.
    write_time: CallTime,
    /// When the last of them was answered.
    answered_at: Option<Instant>,
    /// For how long those who were told together were held up, in the last `HELD_UP_WRITES` together.
    held_up: Duration,
    /// When it was too long, last.
    held_up_at: Option<Instant>,
    /// The connection that was used last.
    connection: Option<Connection>,
    /// What kept the last try from the server, since the last that reached it.
    kept_from: Option<Fault>,
}

/// A job that waits for its turn.
#[derive(Debug)]
struct Waiting {
    envelope: Vec<u8>,
    caller: Caller,
}

/// Who waits for what becomes of a job.
#[derive(Debug)]
struct Caller {
    ticket: u64,
    give_up: Instant,
    answer: oneshot::Sender<Result<(), Fault>>,
}

impl Client {
    /// Puts a job at the back of a queue, with those that others put there at the same time.
    ///
    /// # Cancel safety
    /// When it is dropped, the job is enqueued or not, and certainly not if its turn had not come.
    pub(crate) async fn push(
        &self,
        runtime: Id,
        queue: &str,
        envelope: Vec<u8>,
        confirms: Option<Durability>,
    ) -> Result<(), Fault> {
        let gathers = &self.inner.gathers;
        let gather = match self.next_shard(queue) {
            None => gathers.of(runtime, queue, confirms, || self.queue(queue)),
            Some(shard) => gathers.of(runtime, &shard.label, confirms, || shard.clone()),
        };
        if gather.registered.initialized() {
            return self.push_to(&gather, envelope).await;
        }
        let pushed = Box::pin(self.push_to(&gather, envelope));
        Box::pin(self.register_beside(&gather, pushed)).await
    }

    /// What gathers for this queue, if the registry may not have the queue yet.
    pub(super) fn unregistered(
        &self,
        queue: &Queue,
        confirms: Option<Durability>,
    ) -> Option<Arc<Gather>> {
        let runtime = Handle::try_current().ok()?.id();
        let gather = self.inner.gathers.of(runtime, &queue.label, confirms, || queue.clone());
        (!gather.registered.initialized()).then_some(gather)
    }

    /// Enqueues, and adds the queue to the registry. The jobs do not wait for that, nor does it matter to them what becomes of it: if it
    /// is not done with them, the next enqueue tries again. On one server both go over the same connection, and the registry is first.
    pub(super) async fn register_beside<T>(
        &self,
        gather: &Gather,
        mut enqueue: impl Future<Output = T> + Unpin,
    ) -> T {
        let registered = gather.registered.get_or_try_init(|| async {
            match self.register_queues(&[&gather.queue.name], gather.confirms).await {
                // Who may do no more than enqueue.
                Err(fault) if fault.kind == FaultKind::Denied => Ok(()),
                registered => registered,
            }
        });
        tokio::select! {
            biased;
            _ = registered => enqueue.await,
            enqueued = &mut enqueue => enqueued,
        }
    }

    async fn push_to(&self, gather: &Arc<Gather>, envelope: Vec<u8>) -> Result<(), Fault> {
        let give_up = self.give_up();
        let waits = match gather.enter(envelope, give_up) {
            Turn::Waits(waits) => waits,
            Turn::Direct(direct, envelope) => {
                let within = self.inner.enqueue_within.max(LAST_MOMENT);
                let envelopes = std::slice::from_ref(&envelope);
                match gather.queue.enqueue(&direct.connection, envelopes, within).await {
                    Err(fault) if fault.passes() => {
                        drop(direct);
                        let mut state = gather.state();
                        state.kept_from = Some(fault);
                        state.wait(envelope, give_up)
                    }
                    result => return result,
                }
            }
        };
        if waits.needs_sender {
            Sender::start(Arc::clone(gather), self.clone());
        }
        // Only a runtime that ended while the job was under way gives no answer.
        let ended = |_| Err(Fault::unanswered("the runtime that sent it has ended"));
        waits.answer.await.unwrap_or_else(ended)
    }
}

/// What a caller is to do with his job.
enum Turn<'a> {
    /// Send it himself.
    Direct(Direct<'a>, Vec<u8>),
    Waits(Waits),
}

/// A caller whose job is with the senders.
struct Waits {
    answer: oneshot::Receiver<Result<(), Fault>>,
    /// He has to start another sender.
    needs_sender: bool,
}

impl State {
    /// Leaves a job to the senders.
    fn wait(&mut self, envelope: Vec<u8>, give_up: Instant) -> Waits {
        let (answered, answer) = oneshot::channel();
        self.last_ticket += 1;
        let caller = Caller { ticket: self.last_ticket, give_up, answer: answered };
        self.waiting.push_back(Waiting { envelope, caller });
        Waits { answer, needs_sender: self.counts_another() }
    }

    /// Whether another sender has to be started; from now on it counts as there.
    fn counts_another(&mut self) -> bool {
        let is_needed = self.wants_sender();
        self.senders += usize::from(is_needed);
        is_needed
    }

    /// Whether another sender would be of use: the first always, a further one for no less than half of those who are there. One
    /// that went sooner would leave the larger part to the other, and have the server wait for that. Where writes are long, not for
    /// those who have just been answered.
    fn wants_sender(&self) -> bool {
        match self.senders {
            _ if self.waiting.is_empty() => false,
            0 => true,
            SENDERS.. => false,
            _ if self.kept_from.is_some() => false,
            _ if self.trying_singly > 0 => true,
            _ => {
                2 * self.waiting.len() >= self.crowd.max(2)
                    && !(self.writes_are_long() && (self.sending == 0 || self.some_come_back()))
            }
        }
    }

    /// A write has reached the server. Says whether the sender can leave the rest to another that has nothing under way either: one
    /// is enough for those who come back, as it takes the second half when another has joined it for the first.
    fn reached(&mut self) -> bool {
        let all_reach_it = self.kept_from.take().is_none();
        all_reach_it && self.senders > 1 && self.sending == 0 && self.trying_singly == 0
    }

    /// A sender has so many more in hand.
    fn takes(&mut self, jobs: usize) {
        self.sending += jobs;
        let there = self.sending + self.waiting.len();
        // Those who were just answered are not back yet: it falls slowly.
        self.crowd = there.max(self.crowd - self.crowd.div_ceil(4));
    }

    fn writes_are_long(&self) -> bool {
        self.write_time.beside_jobs() >= LONG_WRITE
    }

    fn some_come_back(&self) -> bool {
        self.answered_at.is_some_and(|at| at.elapsed() < BACK_WITHIN)
    }

    /// Whether so many, who were answered by a write that took so long, are to come back in two halves: not where another part of them is
    /// under way.
    fn come_back_in_halves(&self, answered: usize, took: Duration) -> bool {
        let jobs = SHORT_WRITE_JOB.saturating_mul(u32::try_from(answered).unwrap_or(u32::MAX));
        answered >= TWO_HALVES && self.sending == 0 && took < SHORT_WRITE + jobs
    }

    /// Whether callers are told together, not each at once.
    fn tells_together(&self) -> bool {
        self.held_up_at.is_none_or(|at| at.elapsed() >= AFTER_HELD_UP)
    }

    fn told_together(&mut self, took: Duration) {
        let forgotten = self.held_up / HELD_UP_WRITES;
        self.held_up = self.held_up.saturating_sub(forgotten) + took;
        let too_long = if self.writes_are_long() {
            self.held_up >= HELD_UP_ON_AVERAGE * HELD_UP_WRITES
        } else {
            took >= HELD_UP
        };
        if too_long {
            self.held_up = Duration::ZERO;
            self.held_up_at = Some(Instant::now());
        }
    }

    /// Whether another sender is to take what waits together with those whom he answers next.
    fn another_takes_it(&self) -> bool {
        self.senders > 1 && self.sending > 0 && self.writes_are_long()
    }
}

/// The turn of a caller who sends his own job.
struct Direct<'a> {
    gather: &'a Gather,
    connection: Connection,
}

impl Drop for Direct<'_> {
    fn drop(&mut self) {
        self.gather.state().direct -= 1;
    }
}

impl Gather {
    fn new(queue: Queue, confirms: Option<Durability>) -> Self {
        Self { queue, confirms, registered: OnceCell::new(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn of one's own, where hardly anybody's job is under way and the connection is there. What follows is not held up
    /// by it, whether its future is polled or not: it is behind it on the same connection. Where it would be, since the server
    /// waits for replicas, more go together.
    fn enter(&self, envelope: Vec<u8>, give_up: Instant) -> Turn<'_> {
        let mut state = self.state();
        if self.confirms.is_none() && state.direct < ALONE && state.senders == 0 {
            let connection = state.connection.clone().filter(Connection::is_alive);
            if let Some(connection) = connection {
                state.direct += 1;
                return Turn::Direct(Direct { gather: self, connection }, envelope);
            }
        }
        Turn::Waits(state.wait(envelope, give_up))
    }

    /// Sends those away whose time is over at this moment; gives the earliest time of the others.
    fn expire(&self, at: Instant) -> Option<Instant> {
        let mut state = self.state();
        // Who has dropped his future has withdrawn his job.
        state.waiting.retain(|job| !job.caller.answer.is_closed());
        let first = state.waiting.iter().map(|job| job.caller.give_up).min()?;
        if first > at {
            return Some(first);
        }
        let fault = state.kept_from.clone();
        let fault =
            fault.unwrap_or_else(|| Fault::not_sent("the server could not be reached in time"));
        let (over, left): (VecDeque<_>, _) =
            state.waiting.drain(..).partition(|job| job.caller.give_up <= at);
        state.waiting = left;
        let next = state.waiting.iter().map(|job| job.caller.give_up).min();
        drop(state);
        for job in over {
            job.caller.tell(Err(fault.clone()));
        }
        next
    }

    /// A sender tries jobs singly from now on. Says whether another has to be started for those who wait.
    fn tries_singly(&self) -> bool {
        let mut state = self.state();
        state.trying_singly += 1;
        state.counts_another()
    }

    /// Takes what one write holds, as the jobs of each command.
    fn take(&self) -> Vec<Vec<Waiting>> {
        let mut state = self.state();
        let mut commands: Vec<Vec<Waiting>> = Vec::new();
        let (mut bytes, mut sent) = (0, 0);
        while let Some(next) = state.waiting.front() {
            if next.caller.answer.is_closed() {
                state.waiting.pop_front();
                continue;
            }
            bytes += next.envelope.len();
            let fits = |command: &Vec<Waiting>| {
                command.len() < SCRIPT_JOBS && bytes <= SCRIPT_BYTES && sent + bytes <= WRITE_BYTES
            };
            if !commands.last().is_some_and(fits) {
                sent += bytes - next.envelope.len();
                let is_full = sent > 0 && sent + next.envelope.len() > WRITE_BYTES;
                if is_full || commands.len() == COMMANDS {
                    break;
                }
                bytes = next.envelope.len();
                commands.push(Vec::with_capacity(state.waiting.len().min(SCRIPT_JOBS)));
            }
            let (Some(command), Some(next)) = (commands.last_mut(), state.waiting.pop_front())
            else {
                break;
            };
            command.push(next);
        }
        state.takes(commands.iter().map(Vec::len).sum());
        commands
    }

    /// A write of so many jobs is over. Says whether nobody came while it was under way.
    fn has_written(&self, jobs: usize, took: Duration) -> bool {
        let mut state = self.state();
        state.sending -= jobs;
        if jobs > 0 {
            state.write_time.add(took, jobs);
            state.answered_at = Some(Instant::now());
        }
        state.waiting.is_empty()
    }

    /// How many jobs wait that are better off in one write; none where writes are short.
    fn to_go_together(&self) -> usize {
        let state = self.state();
        if state.writes_are_long() { state.waiting.len() } else { 0 }
    }

    /// Puts back what certainly was not sent, each job in the place that it had.
    fn put_back(&self, jobs: Vec<Waiting>, fault: Fault) {
        let mut state = self.state();
        state.waiting.extend(jobs);
        state.waiting.make_contiguous().sort_by_key(|job| job.caller.ticket);
        state.kept_from = Some(fault);
    }
}

impl Caller {
    fn tell(self, result: Result<(), Fault>) {
        // Who has dropped his future does not want to know.
        let _ = self.answer.send(result);
    }
}
