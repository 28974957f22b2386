//! The processes of a worker that wait for jobs.

use std::fmt::Write;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use tokio::time::sleep;

use super::child::{Child, program, resident};
use crate::fnv;
use crate::job::{Definition, Isolation};
use crate::log::say;

/// The pause before the next try to start one.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// The processes that run no job now, the last used last, and whether they can be started.
#[derive(Debug)]
pub(crate) struct Pool {
    identity: String,
    idle: Mutex<Vec<Child>>,
    /// How many run a job.
    busy: AtomicUsize,
    /// No more than there are slots.
    most: AtomicUsize,
    /// Why the last one could not be started.
    trouble: Mutex<Option<String>>,
    /// Not in tests: their `main` is that of the harness.
    is_harness: bool,
}

impl Pool {
    /// That of a worker with these job types, if one of them has `isolate`. `settings`: what else its processes know it by.
    pub(crate) fn of<'a>(
        jobs: &(impl Iterator<Item = &'a Definition> + Clone),
        settings: &str,
        slots: usize,
    ) -> Option<Arc<Self>> {
        let identity = || identity(jobs.clone(), settings);
        let is_needed = jobs.clone().any(|definition| definition.isolate.is_some());
        is_needed.then(|| {
            Arc::new(Self {
                identity: identity(),
                idle: Mutex::default(),
                busy: AtomicUsize::new(0),
                most: AtomicUsize::new(slots),
                trouble: Mutex::default(),
                is_harness: is_harness(),
            })
        })
    }

    /// The worker has so many slots now.
    pub(crate) fn scale(&self, slots: usize) {
        self.most.store(slots, Ordering::Relaxed);
    }

    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// Whether there can be processes here. None in a test, where each would run the tests again.
    pub(super) fn is_refused(&self) -> bool {
        self.is_harness
    }

    /// Starts the first process.
    ///
    /// # Errors
    /// Why it does not come up.
    pub(crate) async fn warm_up(&self) -> Result<(), String> {
        if self.is_refused() {
            return Ok(());
        }
        let child = self.start().await?;
        self.idle().push(child);
        Ok(())
    }

    /// A process for a job, and what counts it as busy.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn take(self: &Arc<Self>) -> Result<(Child, Busy), String> {
        // Before one is started, so that none is started beside it that nobody needs.
        self.busy.fetch_add(1, Ordering::Relaxed);
        let busy = Busy(Arc::clone(self));
        let idle = || self.idle().pop();
        while let Some(mut child) = idle() {
            // Somebody may have killed it while it waited.
            if child.lives() {
                return Ok((child, busy));
            }
        }
        Ok((self.start().await?, busy))
    }

    async fn start(&self) -> Result<Child, String> {
        let started = Child::start(&self.identity).await;
        *self.trouble() = started.as_ref().err().cloned();
        started
    }

    /// Puts one back that has run a job of such a type, unless it is used up: then it is replaced.
    pub(super) async fn put_back(self: &Arc<Self>, child: Child, busy: Busy, isolation: Isolation) {
        let is_old = isolation.recycle.is_some_and(|most| child.jobs >= most);
        let is_large = match (isolation.memory, child.id()) {
            (Some(most), Some(id)) => resident(id).await.is_some_and(|resident| resident > most),
            _ => false,
        };
        drop(busy);
        if is_old || is_large {
            drop(child);
            self.replace();
        } else {
            self.keep(child);
        }
    }

    /// Keeps one for the next job, unless there are as many as slots.
    fn keep(&self, child: Child) {
        let mut idle = self.idle();
        if idle.len() + self.busy.load(Ordering::Relaxed) < self.most.load(Ordering::Relaxed) {
            idle.push(child);
        }
    }

    /// Starts another in place of one that is no more, so that the next job finds one.
    pub(super) fn replace(self: &Arc<Self>) {
        let pool = Arc::downgrade(self);
        tokio::spawn(async move {
            while let Some(pool) = pool.upgrade().filter(|pool| pool.idle().is_empty()) {
                match pool.start().await {
                    Ok(child) => return pool.keep(child),
                    Err(why) => {
                        say!(WARN, "a process for jobs with `isolate` cannot be started: {why}");
                    }
                }
                drop(pool);
                // Without jobs nobody else would try, and the worker would stay unready.
                sleep(AGAIN_AFTER).await;
            }
        });
    }

    /// Ends those that wait.
    pub(crate) fn clear(&self) {
        self.idle().clear();
    }

    /// Why there is none, and none can be started.
    pub(crate) fn why_not(&self) -> Option<String> {
        if self.idle().is_empty() { self.trouble().clone() } else { None }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Child>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a process as one that runs a job.
#[derive(Debug)]
pub(super) struct Busy(Arc<Pool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells a worker from others of the same program, and from those of another build: of its file, its job types, and what else it is told by.
fn identity<'a>(definitions: impl Iterator<Item = &'a Definition>, settings: &str) -> String {
    let mut text = format!("{} {settings}", env!("CARGO_PKG_VERSION"));
    let file = program().and_then(fs::metadata);
    if let Ok(file) = file {
        let changed = file.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        _ = write!(text, " {} {changed:?}", file.len());
    }
    for definition in definitions {
        _ = write!(text, " {} {}", definition.name, definition.place);
    }
    format!("{:016x}", fnv::hash(text.as_bytes()))
}

/// Whether this program is one of tests, as cargo makes it.
fn is_harness() -> bool {
    let Ok(path) = std::env::current_exe() else { return false };
    let in_deps = path.parent().is_some_and(|folder| folder.ends_with("deps"));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let hash = stem.rsplit_once('-').map_or("", |(_, hash)| hash);
    in_deps && hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}
