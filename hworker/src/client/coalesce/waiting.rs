//! The jobs that wait to be sent together.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use tokio::runtime::Id;
use tokio::sync::{OnceCell, oneshot};

use crate::durability::Durability;
use crate::priority::Priority;
use crate::store::{Connection, Fault, Queue, SCRIPT_BYTES, SCRIPT_JOBS, WRITE_BYTES};

/// How many commands one write has at most; a command holds 1000 jobs or 1 MB, a write 4 MB. Further jobs wait, and can still be
/// withdrawn.
pub(super) const COMMANDS: usize = 8;

/// How many callers may each send their own job at once. With one, two callers would pay for a task that has nothing to share; with more,
/// fewer jobs share a write.
const ALONE: usize = 2;

/// The coalescers of a client: one for each queue, or shard of one, priority, and runtime.
#[derive(Debug, Default)]
pub(in crate::client) struct Coalescers(pub(super) RwLock<Kept>);

#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) of: HashMap<Id, HashMap<Box<str>, Arc<Coalescer>>>,
    pub(super) count: usize,
    sweep_at: usize,
}

impl Coalescers {
    pub(super) fn of(
        &self,
        runtime: Id,
        (queue, priority): (&str, Priority),
        confirms: Option<Durability>,
        make: impl FnOnce() -> Queue,
    ) -> Arc<Coalescer> {
        // A caller that waits for replicas does not hold up others. No queue has a blank in its name.
        let is_plain = confirms.is_none() && priority == Priority::Normal;
        let of_its_own = (!is_plain).then(|| format!("{queue} {priority} {confirms:?}"));
        let queue = of_its_own.as_deref().unwrap_or(queue);
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(coalescer) = kept.get(runtime, queue) {
            return coalescer;
        }
        drop(kept);
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(coalescer) = kept.get(runtime, queue) {
            return coalescer;
        }
        if kept.count >= kept.sweep_at {
            kept.sweep();
        }
        let coalescer = Arc::new(Coalescer::new(make().at(priority), confirms));
        kept.of.entry(runtime).or_default().insert(queue.into(), Arc::clone(&coalescer));
        kept.count += 1;
        coalescer
    }
}

impl Kept {
    fn get(&self, runtime: Id, queue: &str) -> Option<Arc<Coalescer>> {
        self.of.get(&runtime)?.get(queue).cloned()
    }

    /// Forgets those that nobody uses, of queues with changing names and of runtimes that have ended.
    fn sweep(&mut self) {
        self.of.retain(|_, queues| {
            queues.retain(|_, coalescer| Arc::strong_count(coalescer) > 1);
            !queues.is_empty()
        });
        self.count = self.of.values().map(HashMap::len).sum();
        self.sweep_at = (2 * self.count).max(64);
    }
}

/// The jobs that wait to be enqueued into one queue, in one runtime.
#[derive(Debug)]
pub(in crate::client) struct Coalescer {
    pub(super) queue: Queue,
    /// How safe its jobs have to be.
    pub(super) confirms: Option<Durability>,
    /// The registry of queues has its queue.
    pub(super) registered: OnceCell<()>,
    pub(super) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// How many callers send their own jobs just now.
    direct: usize,
    /// There is a sender; always while something waits.
    pub(super) has_sender: bool,
    /// In the order of their tickets.
    pub(super) waiting: VecDeque<Waiting>,
    last_ticket: u64,
    /// The connection that was used last.
    pub(super) connection: Option<Connection>,
    /// What kept the last try from the server, since the last that reached it.
    pub(super) kept_from: Option<Fault>,
}

/// A job that waits for its turn.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) envelope: Vec<u8>,
    pub(super) caller: Caller,
}

impl AsRef<[u8]> for Waiting {
    fn as_ref(&self) -> &[u8] {
        &self.envelope
    }
}

/// The caller that waits for the result of a job.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) ticket: u64,
    pub(super) give_up: Instant,
    pub(super) answer: oneshot::Sender<Result<(), Fault>>,
}

/// What a caller is to do with its job.
pub(super) enum Turn<'a> {
    /// Send it.
    Direct(Direct<'a>, Vec<u8>),
    Waits(Waits),
}

/// A caller whose job is with the sender.
pub(super) struct Waits {
    pub(super) answer: oneshot::Receiver<Result<(), Fault>>,
    /// It has to start the sender.
    pub(super) needs_sender: bool,
}

/// The turn of a caller that sends its own job.
pub(super) struct Direct<'a> {
    coalescer: &'a Coalescer,
    pub(super) connection: Connection,
}

impl Drop for Direct<'_> {
    fn drop(&mut self) {
        self.coalescer.state().direct -= 1;
    }
}

impl State {
    /// Leaves a job to the sender.
    pub(super) fn wait(&mut self, envelope: Vec<u8>, give_up: Instant) -> Waits {
        let (answered, answer) = oneshot::channel();
        self.last_ticket += 1;
        let caller = Caller { ticket: self.last_ticket, give_up, answer: answered };
        self.waiting.push_back(Waiting { envelope, caller });
        Waits { answer, needs_sender: !std::mem::replace(&mut self.has_sender, true) }
    }
}

impl Coalescer {
    pub(super) fn new(queue: Queue, confirms: Option<Durability>) -> Self {
        Self { queue, confirms, registered: OnceCell::new(), state: Mutex::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a caller send its own job if fewer than [`ALONE`] others do, a connection exists and no confirmation is asked; else leaves the
    /// job to the sender. Later jobs go behind it on the same connection, so they do not wait for its future to be polled.
    pub(super) fn enter(&self, envelope: Vec<u8>, give_up: Instant) -> Turn<'_> {
        let mut state = self.state();
        if self.confirms.is_none() && state.direct < ALONE && !state.has_sender {
            let connection = state.connection.clone().filter(Connection::is_alive);
            if let Some(connection) = connection {
                state.direct += 1;
                return Turn::Direct(Direct { coalescer: self, connection }, envelope);
            }
        }
        Turn::Waits(state.wait(envelope, give_up))
    }

    /// Answers the callers whose time is over at this moment; gives the earliest time of the others.
    pub(super) fn expire(&self, at: Instant) -> Option<Instant> {
        let mut state = self.state();
        // A caller that dropped its future has withdrawn its job.
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
    pub(super) fn take(&self) -> Vec<Vec<Waiting>> {
        let mut state = self.state();
        let mut commands: Vec<Vec<Waiting>> = Vec::new();
        let (mut in_command, mut in_write) = (0, 0);
        while let Some(job) = state.waiting.pop_front() {
            if job.caller.answer.is_closed() {
                continue;
            }
            let bytes = job.envelope.len();
            let is_full = commands.last().is_none_or(|command| {
                command.len() == SCRIPT_JOBS || in_command + bytes > SCRIPT_BYTES
            });
            let is_over = in_write > 0 && in_write + bytes > WRITE_BYTES;
            if is_over || is_full && commands.len() == COMMANDS {
                state.waiting.push_front(job);
                break;
            }
            if is_full {
                commands.push(Vec::new());
                in_command = 0;
            }
            in_command += bytes;
            in_write += bytes;
            if let Some(command) = commands.last_mut() {
                command.push(job);
            }
        }
        commands
    }

    /// Puts back what certainly was not sent, each job in the place that it had.
    pub(super) fn put_back(&self, jobs: Vec<Waiting>, fault: Fault) {
        let mut state = self.state();
        state.waiting.extend(jobs);
        state.waiting.make_contiguous().sort_by_key(|job| job.caller.ticket);
        state.kept_from = Some(fault);
    }
}

impl Caller {
    pub(super) fn tell(self, result: Result<(), Fault>) {
        // A caller that dropped its future is gone.
        let _ = self.answer.send(result);
    }
}
