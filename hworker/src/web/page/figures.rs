//! Numbers, times and sizes as people read them.

use std::time::Duration;

use maud::{Markup, html};

use crate::time::{day, millis};

/// What stands where there is nothing.
pub(super) const NONE: &str = "–";

/// `1004218` as `1,004,218`.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 job`, `3 jobs`.
pub(super) fn count(of: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(of), if of == 1 { one } else { many })
}

/// A rate: with a decimal below 10.
pub(super) fn rate(value: f64) -> String {
    if value <= 0.0 {
        return "0".to_owned();
    }
    let small = value < 10.0 && value.fract() > 0.05;
    if small { format!("{value:.1}") } else { number(value.round() as u64) }
}

/// A number for an axis: `120k`, `4M`.
pub(super) fn short(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e4 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let text = format!("{value:.1}");
    format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// A span in at most two units: `412 ms`, `6.1 s`, `1 min 12 s`, `3 h 12 min`, `41 d`.
pub(super) fn span(ms: u64) -> String {
    let two = |many: u64, unit: &str, few: u64, small: &str| match few {
        0 => format!("{many} {unit}"),
        few => format!("{many} {unit} {few} {small}"),
    };
    let s = ms / 1_000;
    match s {
        _ if ms < 1_000 => format!("{ms} ms"),
        _ if s < 10 && ms % 1_000 >= 100 => format!("{s}.{} s", ms % 1_000 / 100),
        0..60 => format!("{s} s"),
        60..1_200 => two(s / 60, "min", s % 60, "s"),
        1_200..3_600 => format!("{} min", s / 60),
        3_600..86_400 => two(s / 3_600, "h", s / 60 % 60, "min"),
        86_400..864_000 => two(s / 86_400, "d", s / 3_600 % 24, "h"),
        _ => format!("{} d", s / 86_400),
    }
}

/// The same of what may not be known.
pub(super) fn span_of(duration: Option<Duration>) -> String {
    duration.map_or_else(|| NONE.to_owned(), |duration| span(millis(duration)))
}

/// How long ago, in one unit, or in what time.
pub(super) fn from_now(at: u64, now: u64) -> String {
    match now.checked_sub(at) {
        Some(ms) if ms < 1_000 => "now".to_owned(),
        Some(ms) => {
            let unit = [86_400_000, 3_600_000, 60_000].into_iter().find(|unit| ms >= *unit);
            format!("{} ago", span(ms - unit.map_or(0, |unit| ms % unit)))
        }
        None => format!("in {}", span(at - now)),
    }
}

/// A time as long ago, or in what time; whole in its title.
pub(super) fn instant(at: u64, now: u64) -> Markup {
    html! { time datetime=(iso(at)) title=(full(at)) { (from_now(at, now)) } }
}

/// How long something lasts since then; when that was in its title.
pub(super) fn since(at: u64, now: u64) -> Markup {
    html! { time datetime=(iso(at)) title=(full(at)) { (span(now.saturating_sub(at))) } }
}

/// The time itself, to the millisecond.
pub(super) fn moment(at: u64) -> Markup {
    html! { time datetime=(iso(at)) title=(full(at)) data-clock="" { (clock(at)) "." (format!("{:03}", at % 1_000)) } }
}

/// `14:02:11`, in UTC.
pub(super) fn clock(at: u64) -> String {
    let s = at / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}", s / 3_600, s / 60 % 60, s % 60)
}

/// As HTML and programs read it.
pub(super) fn iso(at: u64) -> String {
    let day = day(at);
    let (year, rest) = day.split_at(day.len().saturating_sub(4));
    let (month, day) = rest.split_at(rest.len().min(2));
    format!("{year}-{month}-{day}T{}.{:03}Z", clock(at), at % 1_000)
}

/// `18 Nov 2026, 14:02:11 UTC`.
pub(super) fn full(at: u64) -> String {
    format!("{}, {} UTC", date(at), clock(at))
}

/// `18 Nov 2026`.
pub(super) fn date(at: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let number: u64 = day(at).parse().unwrap_or_default();
    let month = MONTHS.get((number / 100 % 100).saturating_sub(1) as usize).unwrap_or(&"");
    format!("{} {month} {}", number % 100, number / 10_000)
}

/// `1.31 GB`.
pub(super) fn bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1_000 => count(bytes, "byte", "bytes"),
        1_000..1_000_000 => format!("{:.1} kB", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", value / 1e6),
        _ => format!("{:.2} GB", value / 1e9),
    }
}

/// A part of a whole, in per cent.
pub(super) fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => NONE.to_owned(),
        whole => {
            let share = part as f64 * 100.0 / whole as f64;
            match share {
                _ if part > 0 && share < 1.0 => "< 1 %".to_owned(),
                _ if part < whole && share > 99.0 => "> 99 %".to_owned(),
                _ => format!("{share:.0} %"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_whole() {
        for (ms, text) in [
            (0, "0 ms"),
            (412, "412 ms"),
            (1_200, "1.2 s"),
            (6_000, "6 s"),
            (31_400, "31 s"),
            (72_000, "1 min 12 s"),
            (120_000, "2 min"),
            (1_560_000, "26 min"),
            (11_520_000, "3 h 12 min"),
            (360_000_000, "4 d 4 h"),
            (3_542_400_000, "41 d"),
        ] {
            assert_eq!(span(ms), text);
        }
        assert_eq!(
            (number(0), number(999), number(1_004_218)),
            ("0".into(), "999".into(), "1,004,218".into())
        );
        assert_eq!(
            (short(0.5), short(60.0), short(120_000.0)),
            ("0.5".into(), "60".into(), "120k".into())
        );
        assert_eq!(
            (rate(0.31), rate(9.0), rate(1_508.2)),
            ("0.3".into(), "9".into(), "1,508".into())
        );
        assert_eq!(
            (share(1, 1_000), share(96, 100), share(0, 0)),
            ("< 1 %".into(), "96 %".into(), "–".into())
        );
    }

    #[test]
    fn times_are_of_the_calendar() {
        assert_eq!(iso(951_782_400_007), "2000-02-29T00:00:00.007Z");
        assert_eq!(full(1_798_761_599_999), "31 Dec 2026, 23:59:59 UTC");
        assert_eq!(from_now(1_000, 73_000), "1 min ago");
        assert_eq!(from_now(20_000, 1_000), "in 19 s");
        assert_eq!(from_now(1_000, 1_500), "now");
    }
}
