//! How safe a job is once its enqueue has returned.

use std::fmt;
use std::time::Duration;

use crate::time::{millis, parse_duration};

/// How safe a job must be before its enqueue returns `Ok`, beyond being in the server's memory: in the memory of replicas
/// (`WAIT`), or on disk (`WAITAOF`). It costs the time that replicas or disks take, or twice that for a job that comes while
/// others wait, shared by all jobs that are enqueued at the same time.
///
/// What each can lose, measured, is in
/// [docs/high-availability.md](https://github.com/hworker/hworker/blob/main/docs/high-availability.md). As a setting it is written
/// `accepted`, `fsynced`, `replicated=1`, `replicated=2,fsynced,within=1s`.
///
/// ```no_run
/// # use hworker::Durability;
/// # #[hworker::job] async fn pay(order: u64) { let _ = order; }
/// # async fn demo() -> Result<(), hworker::Error> {
/// pay::with(17).durability(Durability::replicated(1)).enqueue().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Durability {
    replicas: u16,
    fsynced: bool,
    within_ms: u32,
}

/// Replicas or disks are waited for so long, if nobody says otherwise.
const WITHIN_MS: u32 = 3_000;

impl Durability {
    /// The server has it in memory: the default. What its configuration says happens next.
    #[must_use]
    pub const fn accepted() -> Self {
        Self { replicas: 0, fsynced: false, within_ms: WITHIN_MS }
    }

    /// So many replicas have it in memory too (`WAIT`).
    #[must_use]
    pub const fn replicated(replicas: u16) -> Self {
        Self { replicas, ..Self::accepted() }
    }

    /// The server has it on its disk (`WAITAOF`, from Redis 7.2 on and in Valkey; takes `appendonly yes`).
    #[must_use]
    pub const fn fsynced() -> Self {
        Self { fsynced: true, ..Self::accepted() }
    }

    /// The server, and as many replicas as were asked for, have it on their disks: `replicated(1).and_fsynced()`.
    #[must_use]
    pub const fn and_fsynced(self) -> Self {
        Self { fsynced: true, ..self }
    }

    /// Waits at most so long; 3 s if this is not said. A job that is not safe by then is enqueued all the same, and
    /// its enqueue ends as [`Error::NotDurable`](crate::Error::NotDurable).
    ///
    /// Jobs that wait equally long share a connection. So that there are few of them however many times are asked for, a time
    /// is shortened to one of 1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8 or 9 ms, times a power of ten.
    #[must_use]
    pub fn within(self, duration: Duration) -> Self {
        let mut unit = 1;
        // Zero would wait for ever.
        let asked = u32::try_from(millis(duration)).unwrap_or(u32::MAX).max(1);
        while asked / unit >= 10 {
            unit *= 10;
        }
        let half = if asked / unit < 3 { (asked % unit) * 2 / unit * unit / 2 } else { 0 };
        Self { within_ms: asked / unit * unit + half, ..self }
    }

    /// `None` where the server's word is enough.
    pub(crate) fn asks(self) -> Option<Self> {
        (self.replicas > 0 || self.fsynced).then_some(self)
    }

    pub(crate) fn replicas(self) -> u16 {
        self.replicas
    }

    pub(crate) fn on_disk(self) -> bool {
        self.fsynced
    }

    pub(crate) fn time(self) -> Duration {
        Duration::from_millis(self.within_ms.into())
    }

    /// Reads it as settings are written.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no durability; write `accepted`, `fsynced`, `replicated=1`, or `replicated=1,fsynced,within=2s`"
            )
        };
        let mut read = Self::accepted();
        for part in text.split(',').map(str::trim) {
            read = match part.split_once('=') {
                None if part == "accepted" => read,
                None if part == "fsynced" => read.and_fsynced(),
                Some(("replicated", count)) => {
                    Self { replicas: count.parse().map_err(|_| wrong())?, ..read }
                }
                Some(("within", time)) => read.within(parse_duration(time)?),
                _ => return Err(wrong()),
            };
        }
        Ok(read)
    }
}

impl Default for Durability {
    fn default() -> Self {
        Self::accepted()
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.replicas, self.fsynced) {
            (0, false) => f.write_str("accepted"),
            (0, true) => f.write_str("fsynced"),
            (replicas, false) => write!(f, "replicated={replicas}"),
            (replicas, true) => write!(f, "replicated={replicas},fsynced"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_it_is_read() {
        for (text, is) in [
            ("accepted", Durability::accepted()),
            ("fsynced", Durability::fsynced()),
            ("replicated=2", Durability::replicated(2)),
            ("replicated=1,fsynced", Durability::replicated(1).and_fsynced()),
        ] {
            assert_eq!((Durability::parse(text), is.to_string().as_str()), (Ok(is), text));
        }
        let quick = Durability::replicated(1).within(Duration::from_millis(250));
        assert_eq!(Durability::parse("within=250ms, replicated=1"), Ok(quick));
        for (asked, waited) in [
            (0, 1),
            (1, 1),
            (9, 9),
            (15, 15),
            (19, 15),
            (250, 250),
            (299, 250),
            (999, 900),
            (3_000, 3_000),
            (3_999, 3_000),
        ] {
            let within = Durability::accepted().within(Duration::from_millis(asked));
            assert_eq!(within.time(), Duration::from_millis(waited), "{asked}");
        }
        for wrong in ["", "synced", "replicated", "replicated=-1", "within=soon"] {
            assert!(Durability::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!((Durability::accepted().asks(), Durability::default().asks()), (None, None));
    }
}
