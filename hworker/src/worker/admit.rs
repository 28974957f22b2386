//! What a reserved job is, and whether it may run here and now.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::decide::{Evidence, Transition};
use super::incarnation::{Core, Incarnation, Lane};
use super::settle;
use super::throttle::{Reason, Warning};
use crate::backoff::CallBackoff;
use crate::encryption::{self, Encrypted, KeyRing, Opened, Owner, Unopened, is_sealed};
use crate::envelope::{Crash, Envelope, Header, JobId, NO_ARGS, bounded, not_utf8};
use crate::job::{Definition, OnFault};
use crate::log::say;
use crate::store::{End, Lease, Settlement};

/// A suspect of crashes for which there is no room waits so long.
const SUSPECT_PAUSE_MS: u64 = 2_000;

/// Deaths of its worker count against a job for so long.
const CRASHES_COUNT_FOR_MS: u64 = 86_400_000;

/// A job that is this worker's, decoded.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) lease: Lease,
    pub(super) id: JobId,
    pub(super) definition: &'static Definition,
    pub(super) number: u32,
    pub(super) max_attempts: u32,
    pub(super) timeout: Duration,
    pub(super) backoff: Option<CallBackoff>,
    pub(super) retry_until: Option<u64>,
    pub(super) crashes: Vec<Crash>,
    pub(super) payload: String,
    /// Where in it the arguments are, if there are any.
    args: Option<Range<usize>>,
    /// The arguments, where those in the payload are encrypted.
    opened: Option<Opened>,
}

impl Job {
    /// Whether its arguments came encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.opened.is_some()
    }

    /// The arguments as JSON.
    pub(super) fn args(&self) -> Option<&str> {
        match (&self.opened, &self.args) {
            (Some(opened), _) => Some(opened.as_str()),
            (None, Some(args)) => self.payload.get(args.clone()),
            (None, None) => Some(NO_ARGS),
        }
    }
}

/// A job that may run here and now.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) job: Arc<Job>,
    /// Its place among the suspects of crashes, if it is one.
    pub(super) suspect: Option<OwnedSemaphorePermit>,
}

/// Decodes a job that was reserved and decides whether it may run here and now. If not, gives its settlement.
pub(super) fn admit(
    incarnation: &Incarnation,
    lane: &Lane,
    lease: Lease,
    payload: Vec<u8>,
) -> Result<Admitted, Option<Settlement>> {
    check(incarnation, lane, lease.clone(), payload).map_err(|end| {
        if let End::Broken { reason, .. } = &end {
            let text = format!("a job is broken: {reason}");
            let warning = Warning { text, ..Warning::default() };
            incarnation.core.throttle.warn(&lane.queue.name, Reason::Broken, warning);
        }
        settlement(lane, lease, end)
    })
}

/// The settlement of a lease, unless somebody else sees to it.
pub(super) fn settlement(lane: &Lane, lease: Lease, end: End) -> Option<Settlement> {
    lane.leases.end(&lease).then_some(Settlement { lease, end })
}

/// Whether the job may run here and now; if not, how its lease ends.
fn check(
    incarnation: &Incarnation,
    lane: &Lane,
    lease: Lease,
    payload: Vec<u8>,
) -> Result<Admitted, End> {
    let job = read(&incarnation.core, lease, payload);
    let job = Arc::new(job.map_err(|(why, payload)| why.end(incarnation, lane, &payload))?);
    let at_most_once = job.definition.policy.on_crash == OnFault::Fail;
    if at_most_once && lane.fetches_ahead {
        // It was sent here from its own queue: what is ahead of the slots would share its crash.
        lane.suspects.note();
    }
    if job.crashes.is_empty() && job.retry_until.is_none() {
        return Ok(Admitted { job, suspect: None });
    }
    let now = incarnation.core.clock.unix_ms();

    let recent =
        |crash: &&Crash| !crash.stopping && now.saturating_sub(crash.at) < CRASHES_COUNT_FOR_MS;
    let crashes = job.crashes.iter().filter(recent).count();
    let limit = incarnation.core.config.crash_limit;
    // At most once does not wear off after a day.
    let fails = at_most_once && !job.crashes.is_empty();
    if fails || crashes >= limit {
        let message = if fails {
            "its worker died while it ran, and it runs at most once".to_owned()
        } else {
            format!("its workers died {crashes} times within a day while they had it")
        };
        say!(ERROR, { name = job.definition.name, id = job.id.clone(), queue = lane.queue.name.clone(), message = message.clone() },
            job = name, %id, %queue, crashes, "job failed: {message}");
        let evidence = Evidence::new("crash", message);
        return Err(settle::end(incarnation, lane, &job, Transition::Fail(evidence)));
    }
    if job.retry_until.is_some_and(|until| now > until) {
        let message = "the time until which it may be tried is over";
        say!(ERROR, { name = job.definition.name, id = job.id.clone(), queue = lane.queue.name.clone() },
            job = name, %id, %queue, "job failed: {message}");
        let evidence = Evidence::new("deadline", message);
        return Err(settle::end(incarnation, lane, &job, Transition::Fail(evidence)));
    }
    let suspect =
        lane.suspects.room_for(crashes, limit).map_err(|()| released(&job, SUSPECT_PAUSE_MS))?;
    Ok(Admitted { job, suspect })
}

pub(super) fn released(job: &Job, delay_ms: u64) -> End {
    End::Released { delay_ms, envelope: settle::identified(job) }
}

/// Decodes everything but the arguments, which are opened where they are encrypted. What cannot be read is given back.
pub(super) fn read(core: &Core, lease: Lease, payload: Vec<u8>) -> Result<Job, (Unread, Vec<u8>)> {
    let payload = String::from_utf8(payload).map_err(|error| {
        let reason = not_utf8(&error.utf8_error());
        let payload = error.into_bytes();
        (undecodable(reason, &payload), payload)
    })?;
    match without_payload(core, lease, &payload) {
        Ok(job) => Ok(Job { payload, ..job }),
        Err(why) => Err((why, payload.into_bytes())),
    }
}

/// Broken, unless a later version wrote it.
fn undecodable(reason: String, payload: &[u8]) -> Unread {
    Header::of_newer(payload).map_or(Unread::Broken(reason), |newer| unknown(&newer))
}

fn without_payload(core: &Core, lease: Lease, payload: &str) -> Result<Job, Unread> {
    let envelope =
        Envelope::decode_text(payload).map_err(|reason| undecodable(reason, payload.as_bytes()))?;
    let known = core.jobs.get(&*envelope.job).filter(|_| envelope.v <= crate::envelope::VERSION);
    let definition = known.ok_or_else(|| unknown(&Header::from(&envelope)))?;
    let backoff = envelope.backoff.as_deref().map(CallBackoff::parse).transpose();
    // Without the text itself, which is the payload's.
    let wrong = |_| Unread::Broken("the field `backoff` is none: see `backoff` of a job".into());
    let backoff = backoff.map_err(wrong)?;
    let policy = &definition.policy;
    let opened = open(core.client.keys(), definition, &envelope)?;
    let args = envelope.given_args().map(|args| within(payload, args));
    Ok(Job {
        id: envelope.id.as_deref().map_or_else(JobId::fresh, JobId::from),
        definition,
        number: envelope.attempt,
        max_attempts: envelope.max_attempts.unwrap_or(policy.max_attempts).max(1),
        timeout: Duration::from_millis(envelope.timeout.unwrap_or(policy.timeout_ms).max(1)),
        backoff,
        retry_until: envelope.retry_until,
        crashes: envelope.crashes,
        args,
        opened,
        lease,
        payload: String::new(),
    })
}

/// The arguments in plain, where they are encrypted.
fn open(
    keys: Option<&KeyRing>,
    definition: &Definition,
    envelope: &Envelope<'_>,
) -> Result<Option<Opened>, Unread> {
    let args = envelope.args();
    let broken = |reason: String| Err(Unread::Broken(reason));
    if !is_sealed(args) {
        return match definition.encrypted {
            Encrypted::Only => broken(format!(
                "the arguments are not encrypted, and job `{}` takes no others",
                definition.name
            )),
            Encrypted::Yes | Encrypted::No => Ok(None),
        };
    }
    let Some(id) = envelope.id.as_deref() else {
        return broken("encrypted arguments belong to an id, and the field `id` is missing".into());
    };
    let owner = Owner { job: &envelope.job, id };
    match encryption::open(keys, args, owner) {
        Ok(opened) => Ok(Some(opened)),
        Err(Unopened::Refused(why)) => broken(why),
        // Its workers may not have the new key yet.
        Err(Unopened::Lacking(what)) => {
            let what = format!("arguments of job `{}` {what}", definition.name);
            Err(Unread::Elsewhere { reason: Reason::Encrypted, what })
        }
    }
}

/// Where in the payload a part that was borrowed from it is.
fn within(payload: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - payload.as_ptr() as usize;
    start..start + part.len()
}

/// A deploy may be under way, so another worker may know it.
fn unknown(header: &Header) -> Unread {
    // Anybody may have written it, a line of a log too.
    let name = bounded(&header.job, 200).escape_debug().to_string();
    let what = if header.v > crate::envelope::VERSION {
        format!("unknown version {} of the envelope of job `{name}`", header.v)
    } else {
        format!("unknown job `{name}`")
    };
    Unread::Elsewhere { reason: Reason::Unknown, what }
}

/// Why a payload is no job that can run here.
pub(super) enum Unread {
    Broken(String),
    /// Another worker may be able to run it.
    Elsewhere {
        reason: Reason,
        what: String,
    },
}

impl Unread {
    /// How the lease ends: what another worker may be able to run is parked.
    fn end(self, incarnation: &Incarnation, lane: &Lane, payload: &[u8]) -> End {
        match self {
            Self::Broken(reason) => {
                End::Broken { reason: bounded(&reason, 500), bytes: payload.len() }
            }
            Self::Elsewhere { reason, what } => {
                let cure = match reason {
                    Reason::Unknown => "; a job that was renamed keeps its old name in `aliases`",
                    _ => "",
                };
                park(incarnation, lane, reason, Warning { text: what, ..Warning::default() }, cure);
                settle::parked(payload)
            }
        }
    }

    /// In words.
    pub(super) fn why(self) -> String {
        match self {
            Self::Broken(why) | Self::Elsewhere { what: why, .. } => bounded(&why, 500),
        }
    }
}

/// Says that a job is parked, why, and what helps.
pub(super) fn park(
    incarnation: &Incarnation,
    lane: &Lane,
    reason: Reason,
    why: Warning,
    cure: &str,
) {
    let unknown_for = incarnation.core.config.unknown_for;
    let text = format!(
        "{}: parked for a worker that can run it; broken if there is none within {unknown_for:?}{cure}",
        why.text
    );
    incarnation.core.throttle.warn(&lane.queue.name, reason, Warning { text, ..why });
}
