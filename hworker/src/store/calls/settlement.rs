//! The end of a lease, as a worker asks for it.

use super::lease::Lease;
use crate::keys::Keys;

/// The end of a lease.
#[derive(Debug, Clone)]
pub(crate) struct Settlement {
    pub(crate) lease: Lease,
    pub(crate) end: End,
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
    Failed {
        job: &'static str,
        record: Vec<u8>,
    },
    Broken {
        reason: String,
        /// Of the payload, which stays at the server.
        bytes: usize,
    },
    /// Put aside for a worker that can run it; `None` keeps the bytes.
    Parked {
        envelope: Option<Vec<u8>>,
        /// Of the payload, which stays at the server.
        bytes: usize,
    },
    /// Given back uncounted; `None` keeps the bytes.
    Released {
        delay_ms: u64,
        envelope: Option<Vec<u8>>,
    },
}

impl End {
    pub(super) fn need(&self) -> Need {
        match self {
            Self::Acked { .. } => Need::Nothing,
            Self::Retried { delay_ms: 0, .. } | Self::Released { delay_ms: 0, .. } => Need::Jobs,
            Self::Retried { .. } | Self::Released { .. } => Need::Scheduled,
            Self::Failed { .. } => Need::Failed,
            Self::Broken { .. } => Need::Broken,
            Self::Parked { .. } => Need::Parked,
        }
    }
}

/// What ends need of the server beside their leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    Jobs,
    Scheduled,
    Failed,
    Broken,
    Parked,
}

impl Need {
    pub(super) const ALL: [Self; 6] =
        [Self::Nothing, Self::Jobs, Self::Scheduled, Self::Failed, Self::Broken, Self::Parked];

    /// The names of the keys.
    pub(super) fn keys(self, keys: &Keys) -> String {
        match self {
            Self::Nothing => "the leases".into(),
            Self::Jobs => keys.jobs.clone(),
            Self::Scheduled => format!("{} or {}", keys.scheduled, keys.bell),
            Self::Failed => keys.failed.clone(),
            Self::Broken => format!("{}, {} or {}", keys.broken, keys.parked, keys.token),
            Self::Parked => format!("{} or {}", keys.parked, keys.token),
        }
    }
}

impl Settlement {
    /// About how many bytes it sends, or has the server copy.
    pub(crate) fn size(&self) -> usize {
        let payload = match &self.end {
            End::Acked { .. } => 0,
            End::Retried { envelope, .. } => envelope.len(),
            End::Failed { record, .. } => record.len(),
            // The server copies it, and some others beside it; no more of them are reserved at once, so that settling keeps up.
            End::Broken { reason, bytes } => reason.len() + bytes,
            End::Parked { envelope, bytes } => envelope.as_ref().map_or(0, Vec::len) + bytes,
            End::Released { envelope, .. } => envelope.as_ref().map_or(0, Vec::len),
        };
        payload + self.lease.name_length()
    }

    /// How many bytes it takes to remember it.
    pub(crate) fn kept(&self) -> usize {
        match &self.end {
            // The payload is not here.
            End::Broken { bytes, .. } | End::Parked { bytes, .. } => self.size() - bytes,
            _ => self.size(),
        }
    }

    /// Whether it brings bytes along, for which a server may refuse it.
    pub(crate) fn has_bytes(&self) -> bool {
        self.bytes().is_some() || matches!(self.end, End::Broken { .. } | End::Parked { .. })
    }

    /// What it brings along of its job.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match &self.end {
            End::Retried { envelope, .. } => Some(envelope),
            End::Failed { record, .. } => Some(record),
            End::Released { envelope, .. } | End::Parked { envelope, .. } => envelope.as_deref(),
            End::Acked { .. } | End::Broken { .. } => None,
        }
    }

    /// Whether the job just ends.
    pub(crate) fn is_ack(&self) -> bool {
        matches!(self.end, End::Acked { .. })
    }

    pub(super) fn is_release(&self) -> bool {
        matches!(self.end, End::Released { .. })
    }
}
