//! The one error type of the crate, with a variant for everything that a caller can do about it.

use std::error::Error as StdError;
use std::fmt;

use crate::envelope::JobId;
use crate::job_state::JobState;

/// Any error, as a job may return it.
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// What went wrong, sorted by what the caller can do about it.
///
/// For an enqueue every variant but [`Error::Uncertain`] and [`Error::NotDurable`] means that the job was *not* enqueued; for a
/// [`Bulk`](crate::Bulk) every one but [`Error::Bulk`], [`Error::Stopped`] and [`Error::Unanswered`] means that
/// *none* of its jobs was.
///
/// `Debug` says what `Display` says, for that is what a `main` prints that returns it. Both have the cause in them, so `source()` is
/// `None`: through `anyhow` and the like it stands once too.
#[non_exhaustive]
pub enum Error {
    /// The server could not be reached or could not serve us in time. Nothing was changed: try again.
    Unavailable {
        /// What was attempted.
        doing: String,
        /// What the connection said.
        source: Cause,
    },
    /// The bytes of the enqueue may have reached the server, but its answer did not reach us: the job may
    /// or may not be enqueued. It is never half enqueued.
    Uncertain {
        /// The id that the job has if it is enqueued.
        id: JobId,
        /// What the connection said.
        source: Cause,
    },
    /// The job *is* enqueued and will run, but not known to be as safe as its [`Durability`](crate::Durability) asks: too few
    /// replicas, or no disk, had it in time. A failover could still lose it. Enqueued again, it would run twice.
    NotDurable {
        /// The job's id.
        id: JobId,
        /// Who had it and who did not.
        source: Cause,
    },
    /// A change that was asked of [`Inspect`](crate::Inspect) may have been made: its answer did not reach us, or it was made in
    /// part. Look before you try again.
    Unanswered {
        /// What was attempted.
        doing: String,
        /// What the connection said.
        source: Cause,
    },
    /// The server or a limit refused it: out of memory, not allowed, payload too large; or what listens there is no Redis server.
    Refused {
        /// What was attempted.
        doing: String,
        /// Who refused it and why.
        source: Cause,
    },
    /// As many jobs wait as may, of the key of this job or on its queue. Nothing was written: enqueue it later, or leave it.
    Full {
        /// What was attempted.
        doing: String,
        /// The key of which too many wait, as the server keeps it; `None` where it is the queue.
        key: Option<String>,
        /// How many wait.
        waiting: u64,
        /// How many may.
        max_waiting: u64,
    },
    /// Another job holds the key of this one, which is to be refused then ([`OnConflict::Refuse`](crate::OnConflict::Refuse)). Nothing was
    /// written.
    Conflict {
        /// What was attempted.
        doing: String,
        /// The other job.
        id: JobId,
        /// In which state that is; `None` where it has ended, and its period has not.
        state: Option<JobState>,
    },
    /// A function that the client was given with [`outgoing`](crate::ClientBuilder::outgoing) refused it. Nothing was written.
    Vetoed {
        /// The name of the job.
        job: String,
        /// What the function said.
        source: Cause,
    },
    /// An argument could not be turned into JSON (a float that is not a number, a map with keys that are no names), or into JSON
    /// that no worker could read (more than 126 lists or objects one inside the other, an `i128` or a map with numbers for keys in a tagged
    /// enum).
    Encode {
        /// The name of the job.
        job: &'static str,
        /// What the serialiser said, or the deserialiser, without the arguments.
        source: Cause,
    },
    /// Jobs of a bulk that cannot be enqueued as they are; none of the bulk was.
    Invalid {
        /// Which jobs of the bulk, from 0, and what is wrong with each: all that are wrong, in their order.
        jobs: Vec<(usize, Error)>,
    },
    /// Some jobs of a bulk are or may be enqueued, and others may not be. Those of [`Fate::NotEnqueued`] can be enqueued
    /// again at once; an uncertain one is looked for by its id, or enqueued again where running it twice does no harm.
    Bulk {
        /// What became of each job, in the order of the bulk.
        jobs: Vec<(JobId, Fate)>,
        /// What went wrong first.
        source: Cause,
    },
    /// A bulk whose jobs were taken one after the other ([`Bulk::lazy`](crate::Bulk::lazy)) stopped: what comes behind those that are named here is not
    /// enqueued, nor asked for.
    Stopped {
        /// The first so many jobs are enqueued: to go on, leave out these.
        enqueued: u64,
        /// What became of those behind them that were on their way, in their order.
        jobs: Vec<(JobId, Fate)>,
        /// Which job cannot be enqueued, from 0, if it was for one.
        index: Option<u64>,
        /// What is wrong with it, what the function said that gave up, or what went wrong with the server first.
        source: Cause,
    },
    /// The program or its environment is set up wrongly; every problem that was found is listed.
    Config(Problems),
    /// There is no job, record or queue like that.
    NotFound {
        /// What was looked for.
        what: String,
    },
    /// The server answered something that this version does not understand.
    Protocol {
        /// The operation whose reply it was.
        operation: &'static str,
        /// What was wrong with it.
        detail: String,
    },
}

/// What became of a job of a bulk. See [`Error::Bulk`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The server has it.
    Enqueued,
    /// The server has it, but not known to be as safe as was asked for: see [`Error::NotDurable`].
    NotDurable,
    /// The server does not have it.
    NotEnqueued,
    /// Its bytes may have reached the server, but the server's answer did not reach us.
    Uncertain,
}

impl Error {
    pub(crate) fn config(problem: impl Into<String>) -> Self {
        Self::Config(Problems(vec![problem.into()]))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable { doing, source } => {
                write!(f, "could not {doing}, nothing was changed, try again: {source}")
            }
            Self::Uncertain { id, source } => write!(
                f,
                "job {id} may or may not be enqueued, the server's answer was lost: {source}"
            ),
            Self::NotDurable { id, source } => {
                write!(f, "job {id} is enqueued, but it may not be safe yet: {source}")
            }
            Self::Unanswered { doing, source } => {
                write!(
                    f,
                    "whether it was possible to {doing} is not known, look before you try again: {source}"
                )
            }
            Self::Refused { doing, source } => write!(f, "could not {doing}, refused: {source}"),
            Self::Full { doing, key, waiting, max_waiting } => {
                write!(f, "could not {doing}: {waiting} jobs wait ")?;
                match key {
                    Some(key) => write!(f, "of the key {key}")?,
                    None => write!(f, "on the queue")?,
                }
                write!(f, ", and {max_waiting} may")
            }
            Self::Conflict { doing, id, state } => {
                write!(f, "could not {doing}: the job {id} holds its key, and ")?;
                match state {
                    Some(state) => write!(f, "is {state}"),
                    None => write!(f, "has ended within its period"),
                }
            }
            Self::Vetoed { job, source } => {
                write!(f, "the job {job} was refused by the program itself: {source}")
            }
            Self::Encode { job, source } => {
                write!(
                    f,
                    "the arguments of job {job} cannot be written as JSON and read again: {source}"
                )
            }
            Self::Invalid { jobs } => {
                write!(
                    f,
                    "nothing of the bulk is enqueued, {} of its jobs cannot be:",
                    jobs.len()
                )?;
                jobs.iter().try_for_each(|(index, error)| write!(f, "\n  - job {index}: {error}"))
            }
            Self::Bulk { jobs, source } => {
                let count = |of| jobs.iter().filter(|(_, fate)| *fate == of).count();
                let [enqueued, not, uncertain] =
                    [Fate::Enqueued, Fate::NotEnqueued, Fate::Uncertain].map(count);
                write!(f, "of {} jobs of a bulk {enqueued} are enqueued, ", jobs.len())?;
                match count(Fate::NotDurable) {
                    0 => {}
                    some => write!(f, "{some} are but may not be safe yet, ")?,
                }
                write!(f, "{not} are not, and {uncertain} may or may not be: {source}")
            }
            Self::Stopped { enqueued, jobs, index, source } => {
                write!(f, "the bulk stopped, its first {enqueued} jobs are enqueued")?;
                match jobs.iter().filter(|(_, fate)| *fate != Fate::NotEnqueued).count() {
                    0 => {}
                    some => write!(f, ", {some} others may be")?,
                }
                match index {
                    None => write!(f, ": {source}"),
                    Some(index) => write!(f, ", job {index} cannot be: {source}"),
                }
            }
            Self::Config(problems) => problems.fmt(f),
            Self::NotFound { what } => write!(f, "{what} not found"),
            Self::Protocol { operation, detail } => {
                write!(f, "the server's reply to {operation} is not understood: {detail}")
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Without a source: the text has the cause in it, and whoever prints an error with its sources would print it twice.
impl StdError for Error {}

/// The error of a library below hworker, opaque so that its releases are not ours.
pub struct Cause(BoxError);

impl Cause {
    pub(crate) fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }

    #[cfg(feature = "web")]
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Without a source, for the same reason.
impl StdError for Cause {}

/// Why something is refused before the server is asked.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A payload has more bytes than it may.
    TooLarge(String),
    /// Workers serve the queue.
    Served(String),
    /// What is to be changed stands as it does not allow it.
    Stands(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::TooLarge(why) | Self::Served(why) | Self::Stands(why)) = self;
        f.write_str(why)
    }
}

impl StdError for Refusal {}

/// Everything that was found wrong at once, so that it can be mended at once.
#[derive(Debug)]
pub struct Problems(pub(crate) Vec<String>);

impl Problems {
    /// Each problem as a line that says what to write instead.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The result of the last check, unless something was found wrong before it.
    pub(crate) fn and<T>(mut self, last: Result<T, Error>) -> Result<T, Error> {
        match last {
            Ok(checked) if self.0.is_empty() => return Ok(checked),
            Ok(_) => {}
            Err(Error::Config(more)) => self.0.extend(more.0),
            Err(error) => return Err(error),
        }
        Err(Error::Config(self))
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => f.write_str(one),
            many => {
                write!(f, "{} problems:", many.len())?;
                many.iter().try_for_each(|problem| write!(f, "\n  - {problem}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of an error with those of its sources, as `anyhow` and others print it.
    fn chain(error: &dyn StdError) -> String {
        error.source().map_or(error.to_string(), |source| format!("{error}: {}", chain(source)))
    }

    #[test]
    fn a_cause_stands_once_in_every_error() {
        // With a source of its own, as errors of the redis crate have one, which repeat it.
        let cause = || Cause::new(BoxError::from(std::io::Error::other("the why")));
        let (doing, job) = (|| "do it".to_owned(), "job");
        let unavailable = || Error::Unavailable { doing: doing(), source: cause() };
        for error in [
            unavailable(),
            Error::Uncertain { id: JobId::fresh(), source: cause() },
            Error::NotDurable { id: JobId::fresh(), source: cause() },
            Error::Unanswered { doing: doing(), source: cause() },
            Error::Refused { doing: doing(), source: cause() },
            Error::Full { doing: "the why".into(), key: None, waiting: 3, max_waiting: 3 },
            Error::Encode { job, source: cause() },
            Error::Vetoed { job: job.into(), source: cause() },
            Error::Invalid { jobs: vec![(0, unavailable())] },
            Error::Bulk { jobs: Vec::new(), source: cause() },
            Error::Stopped { enqueued: 7, jobs: Vec::new(), index: Some(7), source: cause() },
            Error::config("the why"),
            Error::NotFound { what: "the why".into() },
            Error::Protocol { operation: "a call", detail: "the why".into() },
        ] {
            assert_eq!(chain(&error).matches("the why").count(), 1, "{error}");
            assert_eq!(format!("{error:?}").matches("the why").count(), 1, "{error}");
        }
        assert_eq!(chain(&cause()), "the why");
    }
}
