//! How long a job waits before its next attempt.
//!
//! `exp(first, cap)` doubles: before attempt `n + 1` it waits `min(cap, first * 2^(n - 1))`, multiplied by a random
//! factor between 0.75 and 1.25 so that jobs that failed together do not come back together, and again at most `cap`.

use std::time::Duration;

use crate::error::BoxError;
use crate::time::{millis, parse_duration};

/// How long to wait before the next attempt; all times in milliseconds.
#[derive(Debug, Clone, Copy)]
pub enum Backoff {
    /// The same delay before every attempt; 0 is at once, at the back of the queue.
    Fixed(u64),
    /// The first, second, ... delay; the last one for all that follow.
    List(&'static [u64]),
    /// Doubling from `first_ms` up to `cap_ms`, with jitter.
    Exponential {
        /// The delay before the second attempt.
        first_ms: u64,
        /// No delay is longer.
        cap_ms: u64,
    },
    /// The user's function of the attempt that has ended (from 1) and its error.
    Custom(fn(u32, &(dyn std::error::Error + Send + Sync + 'static)) -> Duration),
}

/// The longest delay that a program may ask for, ten years, as in the attribute.
const LONGEST_MS: u64 = 3650 * 86_400_000;

impl Backoff {
    /// `exp(5s, 6h)`
    pub const DEFAULT: Self = Self::Exponential { first_ms: 5_000, cap_ms: 6 * 3_600_000 };
}

/// A backoff that came with the job itself, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallBackoff {
    List(Vec<u64>),
    Exponential { first_ms: u64, cap_ms: u64 },
}

impl CallBackoff {
    /// Whether a caller may write this: what the attribute takes, and nothing else. Workers read a little more, which producers
    /// in other languages may have written.
    pub(crate) fn check(text: &str) -> Result<(), String> {
        let longest = match Self::parse(text)? {
            Self::Exponential { first_ms: 0, .. } => {
                return Err("the first delay of `exp` must be longer than zero".into());
            }
            Self::Exponential { cap_ms, .. } => cap_ms,
            Self::List(delays) => delays.into_iter().max().unwrap_or(0),
        };
        if longest > LONGEST_MS {
            return Err(format!("`{text}` is too long, the longest duration is `3650d`"));
        }
        Ok(())
    }

    /// Reads `"30s"`, `"1s, 10s, 1m"` and `"exp(5s, 6h)"`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let inner = text.trim().strip_prefix("exp(").and_then(|rest| rest.strip_suffix(')'));
        let delays: Vec<u64> = inner
            .unwrap_or(text)
            .split(',')
            .map(|part| parse_duration(part).map(millis))
            .collect::<Result<_, _>>()?;
        match (inner, delays.as_slice()) {
            (None, _) => Ok(Self::List(delays)),
            (Some(_), [first_ms, cap_ms]) if first_ms <= cap_ms => {
                Ok(Self::Exponential { first_ms: *first_ms, cap_ms: *cap_ms })
            }
            (Some(_), _) => {
                Err(format!("`{text}` is no backoff; write `exp(first, cap)` with first <= cap"))
            }
        }
    }

    fn delay(&self, ended: u32) -> Duration {
        match self {
            Self::List(delays) => nth(delays, ended),
            Self::Exponential { first_ms, cap_ms } => exponential(*first_ms, *cap_ms, ended),
        }
    }
}

/// The delay after attempt `ended` (from 1) of a job with this policy, unless the job brought its own.
pub(crate) fn delay(
    policy: &Backoff,
    own: Option<&CallBackoff>,
    ended: u32,
    error: &BoxError,
) -> Duration {
    match (own, policy) {
        (Some(own), _) => own.delay(ended),
        (None, Backoff::Fixed(ms)) => Duration::from_millis(*ms),
        (None, Backoff::List(delays)) => nth(delays, ended),
        (None, Backoff::Exponential { first_ms, cap_ms }) => exponential(*first_ms, *cap_ms, ended),
        (None, Backoff::Custom(function)) => function(ended, error.as_ref()),
    }
}

fn nth(delays: &[u64], ended: u32) -> Duration {
    let index = (ended.max(1) as usize - 1).min(delays.len().saturating_sub(1));
    Duration::from_millis(delays.get(index).copied().unwrap_or(0))
}

fn exponential(first_ms: u64, cap_ms: u64, ended: u32) -> Duration {
    let doublings = ended.saturating_sub(1).min(40);
    let base = first_ms.saturating_mul(1 << doublings).min(cap_ms);
    // Per mille, in whole numbers: 750 to 1250.
    let jittered = u128::from(base) * u128::from(fastrand::u32(750..=1250)) / 1000;
    Duration::from_millis(u64::try_from(jittered).unwrap_or(u64::MAX).min(cap_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_doubles_with_jitter_up_to_its_cap() {
        for (ended, base) in [(1, 5_000), (2, 10_000), (3, 20_000), (14, 6 * 3_600_000)] {
            for _ in 0..200 {
                let ms = millis(exponential(5_000, 6 * 3_600_000, ended));
                assert!(
                    ms >= base * 3 / 4 && ms <= (base * 5 / 4).min(6 * 3_600_000),
                    "{ended}: {ms}"
                );
            }
        }
        assert!(millis(exponential(5_000, u64::MAX, u32::MAX)) > 0);
    }

    #[test]
    fn the_last_of_a_list_holds_for_all_that_follow() {
        let list = CallBackoff::parse("1s, 10s, 1m").expect("a list");
        let delays: Vec<_> = (1..=5).map(|ended| list.delay(ended).as_secs()).collect();
        assert_eq!(delays, [1, 10, 60, 60, 60]);
    }

    #[test]
    fn a_caller_may_write_what_the_attribute_takes() {
        // As in `hworker-macros/src/duration.rs`.
        let taken = [
            "0s",
            " 30s ",
            "1s, 10s,1m",
            "exp(5s, 6h)",
            " exp(1s,1s) ",
            "exp( 1s , 2s )",
            "007s",
            "1d2h3m4s5ms",
            "3650d",
            "exp(1ms, 3650d)",
        ];
        for text in taken {
            assert_eq!(CallBackoff::check(text), Ok(()), "{text}");
        }
        let refused = [
            "",
            "1s,",
            "30",
            "1 s",
            "30m1h",
            "1s1s",
            "٣s",
            "5µs",
            "exponential",
            "exp",
            "exp(5s, 6h",
            "exp()",
            "exp(5s)",
            "exp(1s, 2s, 3s)",
            "exp(0s, 2s)",
            "exp(0s, 0s)",
            "exp(5s, 1s)",
            "exp (1s, 1m)",
            "3651d",
            "3650d1ms",
            "1s, 4000d",
            "exp(1s, 4000d)",
            "99999999999999999999s",
        ];
        for text in refused {
            assert!(CallBackoff::check(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_worker_reads_more_than_a_caller_may_write() {
        for text in ["exp(0s, 6h)", "4000d", "exp(1s, 4000d)"] {
            assert!(CallBackoff::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn texts() {
        assert_eq!(CallBackoff::parse("0s"), Ok(CallBackoff::List(vec![0])));
        assert_eq!(
            CallBackoff::parse("exp(5s, 6h)"),
            Ok(CallBackoff::Exponential { first_ms: 5_000, cap_ms: 21_600_000 })
        );
        for text in ["", "exp(5s)", "exp(6h, 5s)", "exp(1s,2s,3s)", "soon", "1s,"] {
            assert!(CallBackoff::parse(text).is_err(), "{text}");
        }
    }
}
