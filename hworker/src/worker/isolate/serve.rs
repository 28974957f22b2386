//! What a process does that runs bodies for a worker.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{
    Resource, Rlimit, Signal, getpgrp, getpid, getrlimit, kill_process_group, setrlimit,
};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::frame::{self, Becomes, Order, Run, Said};
use super::marker::of_worker;
use crate::context::{Context, Scope, in_body_of};
use crate::envelope::JobId;
use crate::error::Error;
use crate::log::say;
use crate::reports;
use crate::store::Lease;
use crate::worker::attempt::decode::read;
use crate::worker::attempt::finish::decided;
use crate::worker::attempt::run::{Here, here, reported_as};
use crate::worker::signals::Signals;
use crate::worker::state::Core;

/// Runs jobs for the worker that started this process, until that ends.
///
/// # Errors
/// Where it cannot.
pub(crate) async fn serve(core: Arc<Core>) -> Result<(), Error> {
    // Those of a person or a service manager are for the worker, which ends this process.
    let _signals = Signals::listen()?;
    let own = core.children.as_ref().map(|children| children.identity());
    if own.is_none() || own != of_worker() {
        // It may be another worker of the program, of which the one that is meant follows.
        say!(
            INFO,
            "a worker that does not serve here: in a process for bodies it is the one with the same server, queues, job types and build"
        );
        std::future::pending::<()>().await;
    }
    let failed =
        |error: io::Error| Error::config(format!("a process for bodies cannot serve: {error}"));
    let socket = take_input().map_err(failed)?;
    let running = Running::default();
    let mut jobs =
        listen(socket.try_clone().map_err(failed)?, Arc::clone(&running)).map_err(failed)?;
    tell(&socket, &Said::Ready).map_err(failed)?;
    while let Some(run) = jobs.recv().await {
        tell(&socket, &Said::Begins).map_err(failed)?;
        let said = perform(&core, run, &running).await;
        locked(&running).context = None;
        tell(&socket, &said).map_err(failed)?;
    }
    Ok(())
}

/// The job that runs, for the thread that listens.
type Running = Arc<Mutex<RunningJob>>;

#[derive(Default)]
struct RunningJob {
    /// From the start of its body on.
    context: Option<Context>,
    /// Somebody cancelled it, perhaps before.
    is_cancelled: bool,
    /// The worker was told to stop, perhaps before.
    stopping: CancellationToken,
}

impl RunningJob {
    fn tell(&self) {
        if let (Some(context), true) = (&self.context, self.is_cancelled) {
            context.order_end();
        }
    }
}

fn locked(running: &Running) -> MutexGuard<'_, RunningJob> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The socket to the worker. A body, and what it starts, finds an empty input in its place.
fn take_input() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let socket = UnixStream::from(socket);
    socket.set_nonblocking(false)?;
    Ok(socket)
}

fn tell(mut socket: &UnixStream, said: &Said) -> io::Result<()> {
    socket.write_all(&frame::bytes(said)?)
}

/// Reads what the worker says, on a thread, as a body may block the runtime. At its end the worker is no more, and nor is this process.
fn listen(mut socket: UnixStream, running: Running) -> io::Result<mpsc::UnboundedReceiver<Run>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::Builder::new().name("hworker-orders".into()).spawn(move || {
        loop {
            match frame::read(&mut socket) {
                Ok(Order::Run(run)) => {
                    {
                        let mut running = locked(&running);
                        running.is_cancelled = false;
                        running.stopping = CancellationToken::new();
                    }
                    let _ = sender.send(run);
                }
                Ok(Order::Cancel) => {
                    let mut running = locked(&running);
                    running.is_cancelled = true;
                    running.tell();
                }
                Ok(Order::Stop) => locked(&running).stopping.cancel(),
                Err(_) => die(),
            }
        }
    })?;
    Ok(receiver)
}

/// Ends this process, and what it started.
fn die() -> ! {
    if getpgrp() == getpid() {
        let _ = kill_process_group(getpid(), Signal::KILL);
    }
    std::process::exit(1)
}

async fn perform(core: &Core, run: Run, running: &Running) -> Said {
    let Run { lease, id, queue, shard, worker, left_ms, now, payload } = run;
    core.clock.heard(now);
    let states = Arc::clone(&core.states);
    let scope = Scope {
        queue: queue.into(),
        shard: shard.into(),
        worker: worker.into(),
        states: Arc::clone(&states),
        stopping: locked(running).stopping.clone(),
        runtime: Handle::try_current().ok(),
    };
    let mut job = match read(core, Lease::parse(&lease), payload.into_bytes()) {
        Ok(job) => job,
        Err((why, _)) => return Said::Unfit(why.why()),
    };
    job.id = JobId::from(&*id);
    let job = Arc::new(job);
    bound_time(job.definition.isolate.and_then(|isolation| isolation.cpu_s));
    let deadline = Instant::now() + Duration::from_millis(left_ms);
    let note = |context: &Context| {
        let mut running = locked(running);
        running.context = Some(context.clone());
        running.tell();
    };
    match in_body_of(states, here(core, &job, &Arc::new(scope), deadline, note)).await {
        Here::Unfit(why) => Said::Unfit(why),
        Here::Ended(context, finish) => {
            let transition =
                finish.map(|finish| decided(core, &job, finish, &job.definition.policy));
            reports::last(&context, reported_as(transition.as_ref())).await;
            Said::Ended(transition.and_then(Becomes::of))
        }
    }
}

/// The system ends this process by SIGXCPU when it has used so many more seconds of a processor.
fn bound_time(seconds: Option<u64>) {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec.unsigned_abs();
    let Rlimit { maximum, .. } = getrlimit(Resource::Cpu);
    // The second that it is in is counted.
    let current = seconds.map(|more| used.saturating_add(more).saturating_add(1));
    let current = match (current, maximum) {
        (Some(current), Some(maximum)) => Some(current.min(maximum)),
        (current, maximum) => current.or(maximum),
    };
    // Where that is refused the deadline bounds it.
    let _ = setrlimit(Resource::Cpu, Rlimit { current, maximum });
}
