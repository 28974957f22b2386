//! How many jobs start in a time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What is said of any other text.
const NO_RATE: &str = "a rate is a number and a time, as in `100/m`, `10/30s` or `10/s+20`, which lets 20 more start at once after a quiet time";

/// How many jobs start in a time, over all workers: no stretch of the time has more starts than the number and the burst together.
///
/// Without a burst they are spaced evenly; what falls into 10 ms may start together, and of 20 or more a twentieth.
///
/// ```
/// use std::time::Duration;
/// use hworker::Rate;
///
/// assert_eq!("10/30s+5".parse(), Ok(Rate::new(10, Duration::from_secs(30)).burst(5)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    #[doc(hidden)]
    pub count: u32,
    #[doc(hidden)]
    pub period_ms: u64,
    #[doc(hidden)]
    pub burst: u32,
}

impl Rate {
    /// So many in this time, of which nothing below a millisecond counts; at least one, in at least a millisecond.
    #[must_use]
    pub fn new(count: u32, period: Duration) -> Self {
        let period_ms = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
        Self { count: count.max(1), period_ms: period_ms.clamp(1, MOST_MS), burst: 0 }
    }

    /// So many more may start at once after a time without starts.
    #[must_use]
    pub fn burst(self, burst: u32) -> Self {
        Self { burst, ..self }
    }

    /// As the server keeps it.
    pub(crate) fn kept(self) -> String {
        format!("{} {} {}", self.count, self.period_ms, self.burst)
    }

    /// Of what the server keeps.
    pub(crate) fn of_kept(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let rate = Self {
            count: parts.next()?.parse().ok()?,
            period_ms: parts.next()?.parse().ok()?,
            burst: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(rate)
    }
}

/// A time of 30 days.
const MOST_MS: u64 = 30 * 86_400_000;

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// As it is parsed.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = UNITS.iter().rev().find(|(_, ms)| self.period_ms.is_multiple_of(*ms));
        let (unit, ms) = whole.copied().unwrap_or(("ms", 1));
        write!(f, "{}/", self.count)?;
        if self.period_ms != ms || unit == "ms" {
            write!(f, "{}", self.period_ms / ms)?;
        }
        f.write_str(unit)?;
        if self.burst > 0 {
            write!(f, "+{}", self.burst)?;
        }
        Ok(())
    }
}

/// # Errors
/// A text that says how a rate is written, for any other.
impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (count, rest) = text.split_once('/')?;
            let (period, burst) = rest.split_once('+').unwrap_or((rest, "0"));
            let digits = period.bytes().take_while(u8::is_ascii_digit).count();
            let (number, unit) = period.split_at(digits);
            let ms = UNITS.iter().find(|(name, _)| *name == unit)?.1;
            let number: u64 = if number.is_empty() { 1 } else { number.parse().ok()? };
            let period_ms = number.checked_mul(ms).filter(|ms| (1..=MOST_MS).contains(ms))?;
            let count = count.parse().ok().filter(|count| *count > 0)?;
            Some(Self { count, period_ms, burst: burst.parse().ok()? })
        };
        read().ok_or_else(|| NO_RATE.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_as_it_is_written() {
        for text in ["100/m", "10/30s", "1/ms+20", "3/1500ms", "7/d", "1/30d"] {
            let shown = text.parse::<Rate>().expect("a rate").to_string();
            assert!(shown == text || text == "1/ms+20" && shown == "1/1ms+20", "{shown}");
            assert_eq!(shown.parse::<Rate>(), text.parse());
        }
        for wrong in ["", "10", "0/s", "10/", "10/x", "10/0s", "10/31d", "10/s+", "-1/s", "1/s+x"] {
            assert_eq!(wrong.parse::<Rate>(), Err(NO_RATE.to_owned()), "{wrong}");
        }
    }
}
