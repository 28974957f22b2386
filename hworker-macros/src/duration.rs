//! Durations and backoffs as they are written in an attribute.

/// The longest duration, ten years of 365 days: far from every overflow of a clock.
const LONGEST_MS: u64 = 3650 * 24 * 3_600_000;

/// Each unit in milliseconds, the largest first.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// What is said about every text that is not a duration.
pub(crate) const FORM: &str =
    "a duration is written \"120s\", \"5m\", \"1h30m\", \"250ms\" or \"2d\"";

/// The milliseconds of `"120s"`, `"5m"`, `"1h30m"`, `"250ms"`, `"2d"`.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Err(FORM.into());
    }
    let (mut rest, mut units, mut total) = (text, UNITS.as_slice(), 0_u64);
    while !rest.is_empty() {
        let (count, after) = leading(rest, |c| c.is_ascii_digit());
        let (unit, after) = leading(after, |c| c.is_ascii_alphabetic());
        let place = units.iter().position(|(name, _)| *name == unit);
        let (Some(place), false) = (place, count.is_empty()) else {
            return Err(FORM.into());
        };
        // What does not fit into the number is longer than the longest too.
        let count = count.parse().unwrap_or(u64::MAX);
        total = total.saturating_add(count.saturating_mul(units[place].1));
        // A unit is given once, after the larger ones.
        units = &units[place + 1..];
        rest = after;
    }
    if total > LONGEST_MS {
        return Err(format!("`{text}` is too long, the longest duration is \"3650d\""));
    }
    Ok(total)
}

/// Splits `text` after the characters at its front that fit.
fn leading(text: &str, fits: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !fits(c)).unwrap_or(text.len()))
}

/// A backoff that is written as text, in milliseconds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Backoff {
    Fixed(u64),
    List(Vec<u64>),
    Exponential { first: u64, cap: u64 },
}

/// The backoff of `"0s"`, `"30s"`, `"1s, 10s, 1m"`, `"exp(5s, 6h)"`: what `CallBackoff::check` of the library takes too.
pub(crate) fn parse_backoff(text: &str) -> Result<Backoff, String> {
    match text.trim().strip_prefix("exp") {
        Some(delays) => exponential(delays),
        None => Ok(match list(text)?.as_slice() {
            &[delay] => Backoff::Fixed(delay),
            delays => Backoff::List(delays.to_vec()),
        }),
    }
}

fn exponential(text: &str) -> Result<Backoff, String> {
    let inner = text.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
    match inner.map(list).transpose()?.as_deref() {
        Some(&[0, _]) => Err("the first delay of `exp` must be longer than zero".into()),
        Some(&[first, cap]) if cap < first => {
            Err("the longest delay of `exp` is shorter than its first".into())
        }
        Some(&[first, cap]) => Ok(Backoff::Exponential { first, cap }),
        _ => Err("`exp` is written \"exp(5s, 6h)\": the first delay and the longest".into()),
    }
}

fn list(text: &str) -> Result<Vec<u64>, String> {
    text.split(',').map(|delay| parse(delay.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let table = [
            ("120s", 120_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("250ms", 250),
            ("2d", 172_800_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("0s", 0),
            ("007s", 7000),
            ("3650d", LONGEST_MS),
        ];
        for (text, ms) in table {
            assert_eq!(parse(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_duration_says_how_one_is_written() {
        let table = [
            "", " ", "120", "s", "1.5s", "-1s", "1 s", "1s ", "30m1h", "1s1s", "1min", "1S", "1sm",
            "1h30", "٣s", "5µs",
        ];
        for text in table {
            assert_eq!(parse(text), Err(FORM.into()), "{text:?}");
        }
    }

    #[test]
    fn what_would_overflow_is_too_long() {
        for text in ["3651d", "3650d1ms", "99999999999999999999s", "18446744073709551615d"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("too long"), "{text}: {error}");
        }
    }

    #[test]
    fn backoffs() {
        let table = [
            ("0s", Backoff::Fixed(0)),
            (" 30s ", Backoff::Fixed(30_000)),
            ("1s, 10s,1m", Backoff::List(vec![1000, 10_000, 60_000])),
            ("exp(5s, 6h)", Backoff::Exponential { first: 5000, cap: 21_600_000 }),
            (" exp(1s,1s) ", Backoff::Exponential { first: 1000, cap: 1000 }),
            ("exp( 1s , 2s )", Backoff::Exponential { first: 1000, cap: 2000 }),
        ];
        for (text, backoff) in table {
            assert_eq!(parse_backoff(text), Ok(backoff), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_backoff_says_why() {
        let table = [
            ("", FORM),
            ("1s,", FORM),
            ("exponential", "first delay and the longest"),
            ("exp", "first delay and the longest"),
            ("exp(5s, 6h", "first delay and the longest"),
            // A worker would not read it.
            ("exp (1s, 1m)", "first delay and the longest"),
            ("1s, 4000d", "too long"),
            ("exp()", FORM),
            ("exp(5s)", "first delay and the longest"),
            ("exp(1s, 2s, 3s)", "first delay and the longest"),
            ("exp(0s, 2s)", "longer than zero"),
            ("exp(5s, 1s)", "shorter than its first"),
        ];
        for (text, part) in table {
            let error = parse_backoff(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
