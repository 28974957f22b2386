//! Enqueues that come at the same time share one write.
//!
//! Who comes alone, or nearly so, sends his own job, on a connection that is there, in his own task. Who comes while
//! others are under way leaves his job in the *gathering* of its queue; a task takes everything that has gathered, sends it with one
//! write, and when that is answered takes what has gathered since. So nobody waits for the sake of a batch, and no job
//! depends on the future of another: the task lives as long as there is something to send, and what is left there can be
//! withdrawn until it is taken.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::Client;
use crate::join::join_all;
use crate::store::{Connection, Fault, FaultKind, Queue, SCRIPT_BYTES, SCRIPT_JOBS};

/// Commands that one write has at most; a command holds 1000 jobs or 4 MB. What is beyond stays withdrawable.
const COMMANDS: usize = 8;

/// Callers that may each send their own job at once. With one, two callers in turn would pay for a task that gathers
/// nothing; with more, fewer jobs share a write.
const ALONE: usize = 2;

/// The pause after a try that did not reach the server; it doubles up to a tenth of `enqueue_within`.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// What is under way gets a moment even at the end: its answer is worth more than none.
const LAST_MOMENT: Duration = Duration::from_millis(100);

/// The gatherings of a client: one for each queue and runtime.
#[derive(Debug, Default)]
pub(super) struct Gathers(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    of: HashMap<Id, HashMap<Box<str>, Arc<Gather>>>,
    count: usize,
    sweep_at: usize,
}

impl Gathers {
    fn of(&self, runtime: Id, queue: &str, make: impl FnOnce() -> Queue) -> Arc<Gather> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gather) = kept.of.get(&runtime).and_then(|queues| queues.get(queue)) {
            return Arc::clone(gather);
        }
        if kept.count >= kept.sweep_at {
            kept.sweep();
        }
        let gather = Arc::new(Gather { queue: make(), state: Mutex::default() });
        kept.of.entry(runtime).or_default().insert(queue.into(), Arc::clone(&gather));
        kept.count += 1;
        gather
    }
}

impl Kept {
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
struct Gather {
    queue: Queue,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many callers send their own jobs just now.
    direct: usize,
    /// The task is there; it always is while something waits.
    task: bool,
    /// In the order of their tickets.
    waiting: VecDeque<Waiting>,
    last_ticket: u64,
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
    pub(crate) async fn push(&self, queue: &str, envelope: Vec<u8>) -> Result<(), Fault> {
        let runtime = Handle::try_current().map_err(|_| Fault::outside_runtime())?;
        let gather = self.inner.gathers.of(runtime.id(), queue, || self.queue(queue));
        let give_up = self.give_up();
        if let Some(direct) = gather.alone() {
            let within = self.inner.enqueue_within.max(LAST_MOMENT);
            let envelopes = std::slice::from_ref(&envelope);
            match gather.queue.enqueue(&direct.connection, envelopes, within).await {
                Err(fault) if fault.passes() => gather.state().kept_from = Some(fault),
                result => return result,
            }
        }
        gather.wait(self, envelope, give_up).await
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
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn of one's own, where hardly anybody's job is under way and the connection is there. What follows is not held up
    /// by it, whether its future is polled or not: it is behind it on the same connection.
    fn alone(&self) -> Option<Direct<'_>> {
        let mut state = self.state();
        if state.direct == ALONE || state.task {
            return None;
        }
        let connection = state.connection.clone().filter(Connection::is_alive)?;
        state.direct += 1;
        Some(Direct { gather: self, connection })
    }

    /// Leaves a job to the task, and starts that where there is none.
    async fn wait(
        self: &Arc<Self>,
        client: &Client,
        envelope: Vec<u8>,
        give_up: Instant,
    ) -> Result<(), Fault> {
        let (answer, answered) = oneshot::channel();
        let first = {
            let mut state = self.state();
            state.last_ticket += 1;
            let caller = Caller { ticket: state.last_ticket, give_up, answer };
            state.waiting.push_back(Waiting { envelope, caller });
            !std::mem::replace(&mut state.task, true)
        };
        if first {
            let gather = Arc::clone(self);
            let sender =
                Sender { gather, client: client.clone(), pause: FIRST_PAUSE, ended: false };
            tokio::spawn(sender.run());
        }
        // Only a runtime that ended while the job was under way gives no answer.
        let ended = |_| Err(Fault::unanswered("the runtime that sent it has ended"));
        answered.await.unwrap_or_else(ended)
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

    /// Takes what one write holds, as the jobs of each command.
    fn take(&self) -> Vec<Vec<Waiting>> {
        let mut state = self.state();
        let mut commands: Vec<Vec<Waiting>> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = state.waiting.front() {
            if next.caller.answer.is_closed() {
                state.waiting.pop_front();
                continue;
            }
            bytes += next.envelope.len();
            let fits =
                |command: &Vec<Waiting>| command.len() < SCRIPT_JOBS && bytes <= SCRIPT_BYTES;
            if !commands.last().is_some_and(fits) {
                if commands.len() == COMMANDS {
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
        commands
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

/// The task that sends what has gathered.
struct Sender {
    gather: Arc<Gather>,
    client: Client,
    pause: Duration,
    /// Nothing waits any more, and who comes next is not ours.
    ended: bool,
}

impl Sender {
    async fn run(mut self) {
        while !self.ended {
            let Some(give_up) = self.gather.expire(Instant::now()) else {
                self.end_if_nothing_waits();
                continue;
            };
            match timeout_at(give_up.into(), self.client.connection(&self.gather.queue)).await {
                Ok(Ok(connection)) => self.send(connection).await,
                Ok(Err(fault)) => self.not_reached(fault).await,
                Err(_) => {}
            }
        }
    }

    fn end_if_nothing_waits(&mut self) {
        let mut state = self.gather.state();
        self.ended = state.waiting.is_empty();
        state.task = !self.ended;
    }

    /// Waits a moment before the next try, or gives up where a further one would not help.
    async fn not_reached(&mut self, fault: Fault) {
        if !fault.passes() {
            let waiting = std::mem::take(&mut self.gather.state().waiting);
            for job in waiting {
                job.caller.tell(Err(fault.clone()));
            }
            return;
        }
        self.gather.state().kept_from = Some(fault);
        // Never so long that somebody could come during the pause and have to give up before its end.
        let longest = LONGEST_PAUSE.min(self.client.inner.enqueue_within / 10);
        let pause = self.pause.min(longest).mul_f64(0.5 + fastrand::f64());
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.gather.expire(Instant::now() + pause);
        tokio::time::sleep(pause).await;
    }

    /// Sends what has gathered, and tells each caller what became of his job.
    async fn send(&mut self, connection: Connection) {
        self.gather.state().connection = Some(connection.clone());
        let mut commands: Vec<_> = self.gather.take().into_iter().map(Command::of).collect();
        let results = self.write(&connection, &mut commands).await;
        let jobs: usize = commands.iter().map(|command| command.envelopes.len()).sum();
        let mut kept_from = None;
        let mut answered = Vec::with_capacity(commands.len());
        for (result, command) in results.into_iter().zip(commands) {
            match result {
                Err(fault) if fault.passes() => {
                    self.gather.put_back(command.jobs(), fault.clone());
                    kept_from = Some(fault);
                }
                Err(fault) if fault.kind == FaultKind::Denied && command.envelopes.len() > 1 => {
                    kept_from = self.send_singly(&connection, command).await.or(kept_from);
                }
                result => answered.push((result, command.callers)),
            }
        }
        if jobs <= 1 {
            // Before the answer: who enqueues one job after the other then sends the next himself.
            self.end_if_nothing_waits();
        }
        for (result, callers) in answered {
            callers.into_iter().flatten().for_each(|caller| caller.tell(result.clone()));
        }
        match kept_from {
            Some(fault) => self.not_reached(fault).await,
            None => self.reached(jobs).await,
        }
    }

    async fn reached(&mut self, jobs: usize) {
        self.pause = FIRST_PAUSE;
        self.gather.state().kept_from = None;
        if jobs > 1 {
            // Those who were answered may have the next at once: then it is better to stay than to be started again.
            tokio::task::yield_now().await;
        }
    }

    /// Writes all commands at once and awaits their replies, longest for those who came last.
    async fn write(
        &self,
        connection: &Connection,
        commands: &mut [Command],
    ) -> Vec<Result<(), Fault>> {
        let began = Instant::now();
        let mut last = began + LAST_MOMENT;
        let (envelopes, mut callers): (Vec<_>, Vec<_>) = commands
            .iter_mut()
            .map(|command| (command.envelopes.as_slice(), &mut command.callers))
            .unzip();
        for caller in callers.iter_mut().flat_map(|callers| callers.iter_mut().flatten()) {
            caller.give_up = caller.give_up.max(began + LAST_MOMENT);
            last = last.max(caller.give_up);
        }
        let within = last - began;
        let queue = &self.gather.queue;
        let calls = envelopes.into_iter().map(|jobs| queue.enqueue(connection, jobs, within));
        let mut calls = pin!(join_all(calls));
        loop {
            let waiting = callers.iter().flat_map(|callers| callers.iter().flatten());
            let next = waiting.map(|caller| caller.give_up).min();
            let Some(next) = next.filter(|next| *next < last) else { return calls.await };
            if let Ok(results) = timeout_at(next.into(), &mut calls).await {
                return results;
            }
            let mut slots = callers.iter_mut().flat_map(|callers| callers.iter_mut());
            while let Some(slot) = slots.find(|slot| matches!(slot, Some(c) if c.give_up <= next)) {
                if let Some(caller) = slot.take() {
                    caller.tell(Err(Fault::no_answer(next - began)));
                }
            }
        }
    }

    /// Sends the jobs of a command that the server refused each alone: it may have refused them for one among them, or
    /// for being so many. Gives what kept some from the server.
    async fn send_singly(&self, connection: &Connection, command: Command) -> Option<Fault> {
        let mut kept_from = None;
        for job in command.jobs() {
            let within = job.caller.give_up.saturating_duration_since(Instant::now());
            let within = within.max(LAST_MOMENT);
            let envelopes = std::slice::from_ref(&job.envelope);
            match self.gather.queue.enqueue(connection, envelopes, within).await {
                Err(fault) if fault.passes() => {
                    self.gather.put_back(vec![job], fault.clone());
                    kept_from = Some(fault);
                }
                result => job.caller.tell(result),
            }
        }
        kept_from
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // The runtime ends before its turn came: nobody else would answer.
        let waiting = {
            let mut state = self.gather.state();
            state.task = false;
            std::mem::take(&mut state.waiting)
        };
        for job in waiting {
            job.caller.tell(Err(Fault::not_sent("the runtime that was to send it has ended")));
        }
    }
}

/// The jobs of one command, and who waits for each: `None` for who has given up.
struct Command {
    envelopes: Vec<Vec<u8>>,
    callers: Vec<Option<Caller>>,
}

impl Command {
    fn of(jobs: Vec<Waiting>) -> Self {
        let (envelopes, callers) =
            jobs.into_iter().map(|job| (job.envelope, Some(job.caller))).unzip();
        Self { envelopes, callers }
    }

    fn jobs(self) -> Vec<Waiting> {
        let jobs = self.envelopes.into_iter().zip(self.callers);
        jobs.filter_map(|(envelope, caller)| Some(Waiting { envelope, caller: caller? })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather() -> Gather {
        let client = Client::new("redis://localhost").expect("a client");
        Gather { queue: client.queue("a"), state: Mutex::default() }
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
        let sizes = [half, half, 1, 3 * half, 1];
        let (jobs, answers): (Vec<_>, Vec<_>) =
            (1..).zip(sizes).map(|(ticket, bytes)| waiting(ticket, bytes)).unzip();
        gather.state().waiting.extend(jobs);
        assert_eq!(taken(&gather), [vec![1, 2], vec![3], vec![4], vec![5]]);
        drop(answers);

        let all = (COMMANDS * SCRIPT_JOBS + 2) as u64;
        let (jobs, mut answers): (Vec<_>, Vec<_>) =
            (1..=all).map(|ticket| waiting(ticket, 1)).unzip();
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
        let (jobs, mut answers): (Vec<_>, Vec<_>) =
            (1..=6).map(|ticket| waiting(ticket, 1)).unzip();
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
            client.inner.gathers.of(runtime.handle().id(), name, || client.queue(name))
        };
        let held = of("held");
        for number in 0..10_000 {
            of(&number.to_string());
        }
        assert!(Arc::ptr_eq(&held, &of("held")));
        let kept = client.inner.gathers.0.lock().expect("no panic");
        let count: usize = kept.of.values().map(HashMap::len).sum();
        assert!(count < 200 && kept.count == count, "{count} {}", kept.count);
    }
}
