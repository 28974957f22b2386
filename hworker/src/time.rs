//! Durations as people write them, and the server's clock as this process estimates it.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Reads `"250ms"`, `"120s"`, `"5m"`, `"1h30m"`, `"2d"`: numbers with units from large to small.
///
/// # Errors
/// Says what is wrong and what would be right.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 5] =
        [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let wrong = || {
        format!("`{text}` is no duration; write one like `250ms`, `120s`, `5m`, `1h30m` or `2d`")
    };

    let mut rest = text.trim();
    let mut total: u64 = 0;
    let mut below = u64::MAX;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (_, unit) =
            UNITS.into_iter().find(|(name, _)| *name == &rest[..letters]).ok_or_else(wrong)?;
        // Units go from large to small, each once, so that `5s5s` is a typing error and not ten seconds.
        if unit >= below {
            return Err(wrong());
        }
        below = unit;
        total = number.checked_mul(unit).and_then(|ms| total.checked_add(ms)).ok_or_else(wrong)?;
        rest = &rest[letters..];
    }
    Ok(Duration::from_millis(total))
}

/// Awaits a future for at most so long by this machine's clock. tokio's is ahead of that in a test that has paused it, since it goes on
/// whenever every task waits, for a server's answer too.
pub(crate) async fn within<T>(
    time: Duration,
    mut future: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let began = Instant::now();
    loop {
        let left = time.saturating_sub(began.elapsed());
        match tokio::time::timeout(left, future.as_mut()).await {
            Ok(output) => return Some(output),
            Err(_) if began.elapsed() >= time => return None,
            Err(_) => {}
        }
    }
}

/// The longest time in whole milliseconds that every number on its way holds, JSON's, Lua's and the score of a sorted set.
/// A longer one would come out of Lua as negative: long past instead of never.
const LONGEST_MS: u64 = (1 << 53) - 1;

/// Whole milliseconds, at most 285,000 years.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).min(LONGEST_MS)
}

/// The time since 1970 on this machine's clock; none where it stands before.
pub(crate) fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds since 1970 on this machine's clock. Only for what informs; what decides is the server's `TIME`.
pub(crate) fn local_unix_ms(time: SystemTime) -> u64 {
    millis(since_1970(time))
}

/// The server's `TIME`, carried forward by the monotonic clock since it was last heard, so that a wrong or jumping
/// clock of this machine changes nothing.
#[derive(Debug, Default)]
pub(crate) struct ServerClock(Mutex<Option<(u64, Instant)>>);

impl ServerClock {
    /// Notes what the server said just now.
    pub(crate) fn heard(&self, unix_ms: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((unix_ms, Instant::now()));
    }

    /// Milliseconds since 1970, as the server would say now.
    pub(crate) fn unix_ms(&self) -> u64 {
        let heard = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.map_or_else(
            || local_unix_ms(SystemTime::now()),
            |(unix_ms, at)| unix_ms.saturating_add(millis(at.elapsed())),
        )
    }
}

/// The day of a time as `YYYYMMDD`, in UTC. The arithmetic is Howard Hinnant's `civil_from_days`
/// (<https://howardhinnant.github.io/date_algorithms.html>).
pub(crate) fn day(unix_ms: u64) -> String {
    let days = unix_ms / 86_400_000 + 719_468;
    let era = days / 146_097;
    let of_era = days - era * 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year * 10_000 + month * 100 + day).to_string()
}

/// Reads `2026-12-24`, `2026-12-24T18:00`, `2026-12-24T18:00:30Z`, all in UTC, or milliseconds since 1970. The arithmetic is Howard
/// Hinnant's `days_from_civil`, as above.
pub(crate) fn parse_time(text: &str) -> Option<u64> {
    if text.len() > 10 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let numbers = |text: &str, sign: char| -> Option<Vec<u64>> {
        text.split(sign).map(|part| part.parse().ok()).collect()
    };
    let [year, month, day] = numbers(date, '-')?[..] else { return None };
    let (hour, minute, second) = match numbers(time.strip_suffix('Z').unwrap_or(time), ':')?[..] {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let fits = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !fits {
        return None;
    }
    let year = year - u64::from(month <= 2);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let era = year / 400;
    let of_era = (year - era * 400) * 365 + (year % 400) / 4 - (year % 400) / 100 + of_year;
    let days = era * 146_097 + of_era - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in [
            ("0s", 0),
            ("250ms", 250),
            ("120s", 120_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "5", "5x", "-1s", "1.5s", "5s5s", "5s1h", "99999999999999999d", "1 h"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn days() {
        assert_eq!(day(0), "19700101");
        assert_eq!(day(951_782_400_000), "20000229");
        assert_eq!(day(1_798_761_599_999), "20261231");
        assert_eq!(day(1_798_761_600_000), "20270101");
    }

    #[test]
    fn times() {
        assert_eq!(parse_time("1970-01-01"), Some(0));
        assert_eq!(parse_time("2000-02-29T00:00Z"), Some(951_782_400_000));
        assert_eq!(parse_time("2026-12-31T23:59:59"), Some(1_798_761_599_000));
        assert_eq!(parse_time("1798761599999"), Some(1_798_761_599_999));
        for wrong in
            ["", "now", "2026", "2026-13-01", "2026-01-01T25:00", "1-2", "2026-01-01T1", "+5-1-1"]
        {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }
}
