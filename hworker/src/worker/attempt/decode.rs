//! Decodes reserved bytes into a job.

use std::ops::Range;
use std::time::Duration;

use crate::backoff::CallBackoff;
use crate::charts::{Rare, UNKNOWN};
use crate::encryption::{self, Encrypted, KeyRing, Opened, Owner, Unopened, What, is_sealed};
use crate::envelope::{Envelope, Header, JobId, bounded, not_utf8};
use crate::job::Definition;
use crate::store::{End, HUSK, Lease};
use crate::worker::attempt::{kept, panic, record};
use crate::worker::state::{Consumer, Core, Job, Reason, Warning};

/// How many bytes are kept and logged of the reason why arguments could not be read.
pub(crate) const REASON_BYTES: usize = 500;

/// Decodes everything but the arguments, and decrypts these if they are encrypted. Returns the payload if it cannot be read.
pub(crate) fn read(core: &Core, lease: Lease, payload: Vec<u8>) -> Result<Job, (Unread, Vec<u8>)> {
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

/// The payload is broken, unless a later version wrote it, or an edit.
fn undecodable(reason: String, payload: &[u8]) -> Unread {
    if payload == HUSK {
        return Unread::Husk;
    }
    Header::of_newer(payload).map_or(Unread::Broken(reason), |newer| unknown(&newer))
}

fn without_payload(core: &Core, lease: Lease, payload: &str) -> Result<Job, Unread> {
    let envelope =
        Envelope::decode_text(payload).map_err(|reason| undecodable(reason, payload.as_bytes()))?;
    let known = core.jobs.get(&*envelope.job).filter(|_| envelope.v <= crate::envelope::VERSION);
    let definition = known.ok_or_else(|| unknown(&Header::from(&envelope)))?;
    let backoff = envelope.backoff.as_deref().map(CallBackoff::parse).transpose();
    // Without the text of the field, which is a part of the payload.
    let wrong = |_| Unread::Broken("the field `backoff` is none: see `backoff` of a job".into());
    let backoff = backoff.map_err(wrong)?;
    let policy = &definition.policy;
    let version = envelope.args_version();
    if version > definition.version {
        return Err(newer(definition, version));
    }
    let opened = open(core.client.keys(), definition, &envelope)?;
    let readable = opened.as_ref().map_or(envelope.args(), Opened::as_str);
    let upgraded = upgraded(definition, version, readable);
    let args = envelope.given_args().map(|args| within(payload, args));
    Ok(Job {
        // One that is known by its id may have been pushed without it.
        id: lease.id().or(envelope.id.as_deref()).map_or_else(JobId::fresh, JobId::from),
        definition,
        number: envelope.attempt,
        max_attempts: envelope.max_attempts.unwrap_or(policy.max_attempts).max(1),
        timeout: Duration::from_millis(envelope.timeout.unwrap_or(policy.timeout_ms).max(1)),
        backoff,
        retry_until: envelope.retry_until,
        expires_at: envelope.expires_at,
        waits_since: envelope.waits_since(),
        of: envelope.of.as_deref().map(Box::from),
        priority: envelope.priority().unwrap_or(definition.priority),
        // Of the copies for each worker none has a result that is the job's.
        keep: envelope.keep.or(definition.keep_ms).filter(|_| !lease.is_copy()),
        crashes: envelope.crashes,
        args,
        opened,
        upgraded,
        lease,
        payload: String::new(),
    })
}

/// Arguments of an older version as their type upgrades them. Each attempt does so anew, and the payload stays as it is.
fn upgraded(definition: &Definition, from: u32, args: &str) -> Option<Result<String, String>> {
    if from == definition.version {
        return None;
    }
    let made = panic::catch(|| definition.upgraded(from, args));
    let made = made.unwrap_or_else(|panic| Some(Err(format!("it panicked: {}", panic.message))));
    made.map(|made| {
        made.map_err(|why| {
            let why = format!(
                "the arguments do not fit the job: their upgrade from version {from} failed: {why}"
            );
            bounded(&why, REASON_BYTES)
        })
    })
}

/// Decrypts the arguments, if they are encrypted.
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
    let owner = Owner { what: What::Args, job: &envelope.job, id };
    match encryption::open(keys, args, owner) {
        Ok(opened) => Ok(Some(opened)),
        Err(Unopened::Refused(why)) => broken(why),
        // This worker may not have the new key yet.
        Err(Unopened::Lacking(what)) => {
            let what = format!("arguments of job `{}` {what}", definition.name);
            Err(Unread::Elsewhere { reason: Reason::Encrypted, what })
        }
    }
}

/// The range of `part` in the payload from which it was borrowed.
fn within(payload: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - payload.as_ptr() as usize;
    start..start + part.len()
}

/// A producer has a newer release of the program than this worker.
fn newer(definition: &Definition, version: u32) -> Unread {
    let Definition { name, version: known, .. } = definition;
    let what =
        format!("version {version} of the arguments of job `{name}` is unknown, {known} is known");
    Unread::Elsewhere { reason: Reason::Version, what }
}

/// Another worker may know the job, because a deploy may be under way.
fn unknown(header: &Header) -> Unread {
    // Any client may have written the name, and even put a line of a log there.
    let name = bounded(&header.job, 200).escape_debug().to_string();
    let what = if header.v > crate::envelope::VERSION {
        format!("unknown version {} of the envelope of job `{name}`", header.v)
    } else {
        format!("unknown job `{name}`")
    };
    Unread::Elsewhere { reason: Reason::Unknown, what }
}

/// Why a payload cannot run here.
pub(crate) enum Unread {
    Broken(String),
    /// It stands for a job that was taken out of the list by hand.
    Husk,
    /// Another worker may be able to run it.
    Elsewhere {
        reason: Reason,
        what: String,
    },
}

impl Unread {
    /// The end of the lease. A job that another worker may be able to run is parked.
    pub(crate) fn end(self, core: &Core, consumer: &Consumer, payload: &[u8]) -> End {
        match self {
            Self::Broken(reason) => {
                let kept = kept::of_broken(core.clock.unix_ms(), payload, &reason);
                record::broken(&reason, payload, kept)
            }
            Self::Husk => End::Husk,
            Self::Elsewhere { reason, what } => {
                let advice = match reason {
                    Reason::Unknown => "; a job that was renamed keeps its old name in `aliases`",
                    Reason::Version => "; deploy workers before what enqueues",
                    _ => "",
                };
                park(core, consumer, reason, Warning { text: what, ..Warning::default() }, advice);
                record::parked(payload)
            }
        }
    }

    /// The reason as text.
    pub(crate) fn why(self) -> String {
        match self {
            Self::Broken(why) | Self::Elsewhere { what: why, .. } => bounded(&why, 500),
            Self::Husk => "it stands for a job that was deleted".to_owned(),
        }
    }
}

/// Logs that a job is parked, why, and what helps; and counts it.
pub(crate) fn park(core: &Core, consumer: &Consumer, reason: Reason, why: Warning, advice: &str) {
    consumer.charts.totals().add(why.job.unwrap_or(UNKNOWN), Rare::Parked, 1);
    let unknown_for = core.config.unknown_for;
    let text = format!(
        "{}: parked for a worker that can run it; broken if there is none within {unknown_for:?}{advice}",
        why.text
    );
    core.log_limit.warn(1, &consumer.queue.name, reason, Warning { text, ..why });
}
