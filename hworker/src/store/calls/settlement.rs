//! The end of a lease, as a worker asks for it.

use std::sync::Arc;

use super::lease::Lease;
use crate::envelope::JobId;
use crate::kept::Kept;
use crate::keys::{Ended, Keys};
use crate::limit::List;
use crate::unique::KeyLock;

/// The end of a lease.
#[derive(Debug, Clone)]
pub(crate) struct Settlement {
    pub(crate) lease: Lease,
    pub(crate) end: End,
    /// The lines that tell of it, where events are written.
    pub(crate) event: Option<Arc<String>>,
}

/// What was decided of an attempt.
#[derive(Debug)]
pub(crate) struct Concluded {
    pub(crate) end: End,
    /// The lines that tell of it, where events are written.
    pub(crate) event: Option<Arc<String>>,
}

impl From<End> for Concluded {
    fn from(end: End) -> Self {
        Self { end, event: None }
    }
}

/// How a lease ends. `job` is always a registered name, for it becomes the name of a counter.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Acked {
        job: &'static str,
    },
    Retried {
        job: &'static str,
        delay_ms: u64,
        envelope: Vec<u8>,
    },
    /// It does not run again, and a record tells of it.
    Recorded {
        job: &'static str,
        record: Box<NewRecord>,
        /// No other of its key starts before somebody resumes the key.
        halts: bool,
        /// What is kept of it, where its result is.
        kept: Option<Box<Kept>>,
        /// What its batch is to be told.
        note: Option<Arc<str>>,
        /// What is enqueued with it.
        follows: Option<Vec<u8>>,
    },
    Broken {
        reason: String,
        /// The same.
        kept: Option<Box<Kept>>,
        /// Of the payload, which stays at the server.
        bytes: usize,
        /// What its batch is to be told.
        note: Option<Arc<str>>,
    },
    /// Put aside for a worker that can run it; `None` keeps the bytes.
    Parked {
        envelope: Option<Vec<u8>>,
        /// Of the payload, which stays at the server.
        bytes: usize,
    },
    /// Its batch is paused: it stands beside the queue until that is resumed. `None` keeps the bytes.
    Held {
        batch: Box<str>,
        envelope: Option<Vec<u8>>,
        /// Of the payload, which stays at the server.
        bytes: usize,
    },
    /// It was met in another list than this one, to which it belongs.
    Routed {
        list: List,
        /// It is the next there.
        front: bool,
        /// How many jobs of its key run at once, where its arguments say so.
        at_once: Option<u32>,
        /// Of the payload, which stays at the server.
        bytes: usize,
    },
    /// It was met in the plain list, and is to be known by its id.
    Submitted(Box<NewLock>),
    /// It runs again, uncounted, and no job with its limits, or of its type where it has none, starts before that.
    Slowed {
        job: &'static str,
        delay_ms: u64,
        envelope: Vec<u8>,
    },
    /// It stands for a job that was taken out of the list by hand.
    Husk,
    /// Given back uncounted; `None` keeps the bytes.
    Released {
        delay_ms: u64,
        envelope: Option<Vec<u8>>,
    },
}

/// By what a job is to be known, and where it waits then.
#[derive(Debug, Clone)]
pub(crate) struct NewLock {
    pub(crate) list: List,
    pub(crate) id: JobId,
    pub(crate) lock: KeyLock,
    /// With the id, where the payload has not this one.
    pub(crate) envelope: Option<Vec<u8>>,
    /// Of the payload, which stays at the server.
    pub(crate) bytes: usize,
}

/// The record of a job that has ended.
#[derive(Debug, Clone)]
pub(crate) struct NewRecord {
    pub(crate) ended: Ended,
    pub(crate) id: String,
    /// What it has in common with other failures, or `-`.
    pub(crate) group: String,
    /// What is shown of its group: JSON.
    pub(crate) sample: Vec<u8>,
    /// JSON.
    pub(crate) text: Vec<u8>,
}

impl NewRecord {
    /// None, of a job that ended so: it is counted alone.
    pub(crate) fn none(ended: Ended, id: &JobId) -> Self {
        let (group, id) = ("-".to_owned(), id.as_str().to_owned());
        Self { ended, id, group, sample: Vec::new(), text: Vec::new() }
    }
}

impl End {
    /// What is kept of the job, where it ends with this and its result is kept.
    pub(crate) fn kept(&self) -> Option<&Kept> {
        match self {
            Self::Recorded { kept, .. } | Self::Broken { kept, .. } => kept.as_deref(),
            _ => None,
        }
    }

    /// The name under which it is counted, `""` where that is not known; `None` of what is no operation of its own.
    pub(super) fn counted_as(&self) -> Option<&'static str> {
        match self {
            Self::Acked { .. } | Self::Released { .. } => None,
            Self::Retried { job, .. } | Self::Recorded { job, .. } | Self::Slowed { job, .. } => {
                Some(job)
            }
            Self::Broken { .. }
            | Self::Parked { .. }
            | Self::Held { .. }
            | Self::Husk
            | Self::Routed { .. }
            | Self::Submitted(_) => Some(""),
        }
    }

    /// The names of the keys that it needs.
    fn needs(&self, keys: &Keys) -> String {
        match self {
            Self::Acked { .. } => "the leases".into(),
            Self::Routed { list, .. } => keys.list(list),
            Self::Submitted(job) => keys.list(&job.list),
            Self::Slowed { .. } => format!("{} or {}", keys.jobs, keys.bell),
            Self::Retried { delay_ms: 0, .. } | Self::Released { delay_ms: 0, .. } => {
                keys.jobs.clone()
            }
            Self::Retried { .. } | Self::Released { .. } => {
                format!("{} or {}", keys.scheduled, keys.bell)
            }
            Self::Recorded { record, halts, note, follows, .. } => {
                let of_list =
                    follows.as_ref().map_or_else(String::new, |_| keys.jobs.clone() + ", ");
                let of_halt = if *halts { keys.overrides() + ", " } else { String::new() };
                let of_note = note.as_ref().map_or_else(String::new, |_| keys.notes() + ", ");
                let (of_outcome, records) = (keys.ended(record.ended), &keys.record);
                format!("{of_list}{of_halt}{of_note}{of_outcome}, {records} or {}", keys.groups)
            }
            Self::Broken { .. } | Self::Husk => {
                format!("{}, {} or {}", keys.broken, keys.parked, keys.token)
            }
            Self::Parked { .. } => format!("{} or {}", keys.parked, keys.token),
            Self::Held { batch, .. } => {
                format!("{}, {} or {}", keys.stopped(), keys.paused_of(batch), keys.jobs)
            }
        }
    }
}

impl Settlement {
    /// The names of the keys that it needs.
    pub(super) fn needs(&self, keys: &Keys) -> String {
        let of_end = self.end.needs(keys);
        match self.lease.list() {
            Some(list) if list.is_another() => {
                format!("{of_end}, {0}:held, {0}:ids, {0}:unique or {0}:lists", keys.jobs)
            }
            Some(_) => format!("{of_end} or {}:lists", keys.jobs),
            None => of_end,
        }
    }

    /// About how many bytes it sends, or has the server copy.
    pub(crate) fn size(&self) -> usize {
        let copied = match &self.end {
            // Some others are copied beside it; no more of them are reserved at once, so that settling keeps up.
            End::Broken { bytes, .. }
            | End::Parked { bytes, .. }
            | End::Held { bytes, .. }
            | End::Routed { bytes, .. } => *bytes,
            End::Submitted(job) => job.bytes,
            _ => 0,
        };
        self.kept() + copied
    }

    /// How many bytes it takes to remember it.
    pub(crate) fn kept(&self) -> usize {
        let brought = match &self.end {
            End::Broken { reason, .. } => reason.len(),
            _ => self.bytes().map_or(0, <[u8]>::len),
        };
        let kept = self.end.kept().map_or(0, |kept| kept.text.len());
        let told = self.event.as_ref().map_or(0, |event| event.len());
        brought + kept + told + self.follows().map_or(0, <[u8]>::len) + self.lease.name_length()
    }

    /// Whether it brings bytes along, for which a server may refuse it.
    pub(crate) fn has_bytes(&self) -> bool {
        self.bytes().is_some()
            || matches!(
                self.end,
                End::Broken { .. }
                    | End::Parked { .. }
                    | End::Held { .. }
                    | End::Routed { .. }
                    | End::Submitted(_)
            )
    }

    /// What it brings along of its job.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match &self.end {
            End::Retried { envelope, .. } | End::Slowed { envelope, .. } => Some(envelope),
            End::Recorded { record, .. } => Some(&record.text),
            End::Released { envelope, .. }
            | End::Parked { envelope, .. }
            | End::Held { envelope, .. } => envelope.as_deref(),
            End::Acked { .. }
            | End::Husk
            | End::Broken { .. }
            | End::Routed { .. }
            | End::Submitted(_) => None,
        }
    }

    /// How many bytes the largest has of what it brings along.
    pub(crate) fn largest(&self) -> usize {
        let kept = self.end.kept().map_or(0, |kept| kept.text.len());
        let follows = self.follows().map_or(0, <[u8]>::len);
        self.bytes().map_or(0, <[u8]>::len).max(kept).max(follows)
    }

    /// What is enqueued with its end.
    pub(crate) fn follows(&self) -> Option<&[u8]> {
        match &self.end {
            End::Recorded { follows, .. } => follows.as_deref(),
            _ => None,
        }
    }

    /// Whether the job just ends.
    pub(crate) fn is_ack(&self) -> bool {
        matches!(self.end, End::Acked { .. })
    }

    /// What its batch is to be told.
    pub(crate) fn note(&self) -> Option<&Arc<str>> {
        match &self.end {
            End::Recorded { note, .. } | End::Broken { note, .. } => note.as_ref(),
            _ => None,
        }
    }
}
