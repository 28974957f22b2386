//! Limits: how many jobs run at once, how fast they start, and how many wait, over all workers.

mod declared;
mod list;
mod rate;
mod values;

pub(crate) use declared::DeclaredLimits;
pub(crate) use list::{List, is_written_key, terms, written_key};
pub use rate::Rate;
pub use values::{Key, LimitValues, OfOption, OfValue, key, limit};

/// A limit of a job type, as the attribute writes it.
///
/// What several job types share has a name; else it is called as the job type. A limit with a key is one for each value of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Its name.
    pub name: &'static str,
    /// Which jobs it counts together.
    pub scope: Scope,
    /// How many run at once.
    pub at_once: AtOnce,
    /// How many start in a time.
    pub rate: Option<Rate>,
    /// What becomes of jobs that wait while as many run as may.
    pub when_full: WhenFull,
    /// How many may wait for each key.
    pub max_waiting: Option<u32>,
    /// After a job that failed for good no other of its key starts until somebody resumes the key.
    pub halts: bool,
}

/// Which jobs a limit counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All that have the limit.
    All,
    /// Those that one worker runs.
    Worker,
    /// Those of one value of the key.
    Key,
    /// Those of one value of the key, which run in the order in which they were enqueued: one that is to run again is waited for.
    OrderedKey,
}

/// How many jobs run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtOnce {
    /// As many as there are.
    Any,
    /// So many; at least 1.
    Of(u32),
    /// As the arguments of the last job of the key say.
    OfArguments,
}

/// What becomes of the jobs of a key that wait while as many run as may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// They wait.
    Wait,
    /// The newest waits, the others are cancelled.
    KeepNewest,
    /// The one that waits already stays, newer ones are cancelled.
    KeepOldest,
}

impl Limit {
    /// Whether it is one for each value of a key.
    pub(crate) fn has_key(&self) -> bool {
        matches!(self.scope, Scope::Key | Scope::OrderedKey)
    }

    /// Its name where the server keeps what is in force: with `=` behind it where it has a key, `@` where it is one for each worker.
    pub(crate) fn kept_as(&self) -> String {
        let mark = match self.scope {
            Scope::All => "",
            Scope::Worker => "@",
            Scope::Key | Scope::OrderedKey => "=",
        };
        [self.name, mark].concat()
    }
}
