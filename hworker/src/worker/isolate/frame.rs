//! What a worker and a process for its bodies say to each other: JSON, behind its length in bytes.

use std::io::{self, Read};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::outcome::ReturnValue;
use crate::worker::attempt::decide::{Evidence, Transition};

/// No payload is longer, and nothing else is nearly as long.
const LONGEST: u32 = 1 << 30;

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    Run(Run),
    /// Somebody cancelled the job. The body goes on, and can ask.
    Cancel,
    /// The worker was told to stop. The same.
    Stop,
}

/// A job to run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) lease: String,
    pub(crate) id: String,
    pub(crate) queue: String,
    pub(crate) shard: String,
    pub(crate) worker: String,
    /// The time until its deadline, in ms.
    pub(crate) left_ms: u64,
    /// The server's time, in ms.
    pub(crate) now: u64,
    pub(crate) payload: String,
}

/// What the process says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    /// It can run jobs.
    Ready,
    /// It has the job, and begins.
    Begins,
    /// A body has ended, and what becomes of the job; none where it was cut off.
    Ended(Option<Becomes>),
    /// The arguments do not fit.
    Unfit(String),
}

/// A [`Transition`], as it is sent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Becomes {
    Ack(Option<ReturnValue>),
    Retry(Duration, Why),
    Snooze(Duration),
    SlowDown(Duration),
    Fail(Why),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Why {
    kind: String,
    message: String,
    place: Option<String>,
    backtrace: Option<String>,
    error: Option<Box<ReturnValue>>,
}

impl Becomes {
    /// None of what no body leads to.
    pub(crate) fn of(transition: Transition) -> Option<Self> {
        Some(match transition {
            Transition::Ack(value) => Self::Ack(value),
            Transition::Retry(delay, why) => Self::Retry(delay, why.into()),
            Transition::Snooze(delay) => Self::Snooze(delay),
            Transition::SlowDown(delay) => Self::SlowDown(delay),
            Transition::Fail(why) => Self::Fail(why.into()),
            Transition::Cancel(_) | Transition::Expire(_) => return None,
        })
    }

    pub(crate) fn transition(self) -> Transition {
        match self {
            Self::Ack(value) => Transition::Ack(value),
            Self::Retry(delay, why) => Transition::Retry(delay, why.into()),
            Self::Snooze(delay) => Transition::Snooze(delay),
            Self::SlowDown(delay) => Transition::SlowDown(delay),
            Self::Fail(why) => Transition::Fail(why.into()),
        }
    }
}

impl From<Evidence> for Why {
    fn from(evidence: Evidence) -> Self {
        let Evidence { kind, message, place, backtrace, error } = evidence;
        Self { kind: kind.to_owned(), message, place, backtrace, error }
    }
}

impl From<Why> for Evidence {
    fn from(why: Why) -> Self {
        let Why { kind, message, place, backtrace, error } = why;
        let kinds = ["error", "panic", "failure", "retry", "timeout"];
        let kind = kinds.into_iter().find(|known| *known == kind).unwrap_or("error");
        Self { kind, message, place, backtrace, error }
    }
}

pub(super) fn bytes(of: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, of)?;
    let length = u32::try_from(bytes.len() - 4).ok().filter(|length| *length <= LONGEST);
    let length = length.ok_or_else(|| io::Error::other("it is too long for a process"))?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// The next frame. An error at the end, too.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut head = [0; 4];
    from.read_exact(&mut head)?;
    let mut bytes = vec![0; length(head)?];
    from.read_exact(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// The same. Not cancel safe.
pub(super) async fn read_async<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<T> {
    let mut head = [0; 4];
    from.read_exact(&mut head).await?;
    let mut bytes = vec![0; length(head)?];
    from.read_exact(&mut bytes).await?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn length(head: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(head);
    let is_one = length <= LONGEST;
    is_one.then_some(length as usize).ok_or_else(|| io::Error::other("this is no frame"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_is_read() {
        let why = Evidence::new("panic", "größer");
        let said = Said::Ended(Becomes::of(Transition::Retry(Duration::from_millis(7), why)));
        let mut bytes = bytes(&said).expect("written");
        bytes.extend(super::bytes(&Said::Ready).expect("written"));
        let mut from = bytes.as_slice();
        let Said::Ended(Some(becomes)) = read(&mut from).expect("a frame") else {
            panic!("{bytes:?}")
        };
        let Transition::Retry(delay, evidence) = becomes.transition() else { panic!("{bytes:?}") };
        assert_eq!((delay, evidence.kind), (Duration::from_millis(7), "panic"));
        assert_eq!(evidence.message, "größer");
        assert!(matches!(read_async(&mut from).await, Ok(Said::Ready)));
        assert!(read::<Said>(&mut from).is_err(), "the end");
        assert!(read::<Said>(&mut [0xff; 8].as_slice()).is_err(), "no frame");
    }
}
