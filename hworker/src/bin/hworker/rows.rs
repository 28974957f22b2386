//! How jobs, times and sizes are written in a line.

use std::time::{SystemTime, UNIX_EPOCH};

use hworker::JobInfo;

use crate::output::cut;

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A time as how far it is from now: `41s`, `2h`, `in 5m`.
pub(crate) fn from_now(at: Option<u64>) -> String {
    let Some(at) = at else { return "-".to_owned() };
    let now = now();
    if at > now { format!("in {}", span(at - now)) } else { span(now - at) }
}

/// A time span in its largest unit.
pub(crate) fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..120_000 => format!("{}s", ms / 1_000),
        120_000..7_200_000 => format!("{}m", ms / 60_000),
        7_200_000..172_800_000 => format!("{}h", ms / 3_600_000),
        _ => format!("{}d", ms / 86_400_000),
    }
}

/// A number with its thousands apart.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| String::from_utf8_lossy(group).into_owned())
        .collect();
    groups.join(",")
}

/// A time in UTC, as `2026-12-24 18:00:30`.
pub(crate) fn utc(ms: u64) -> String {
    // The arithmetic is Howard Hinnant's `civil_from_days` (<https://howardhinnant.github.io/date_algorithms.html>).
    let (days, second) = (ms / 86_400_000 + 719_468, ms / 1000 % 86_400);
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}", second % 60)
}

/// A job in one line, with its state.
pub(crate) fn line(job: &JobInfo) -> String {
    let mut cells = cells(job);
    cells.insert(2, job.state.to_string());
    let cells: Vec<_> = cells.iter().map(|cell| cut(cell, 100)).collect();
    cells.join("  ")
}

pub(crate) const HEAD: [&str; 6] = ["ID", "JOB", "ATTEMPT", "WHEN", "WORKER", "MESSAGE"];

pub(crate) fn cells(job: &JobInfo) -> Vec<String> {
    let message = match (&job.kind, &job.message) {
        (Some(kind), Some(message)) => format!("{kind}: {message}"),
        (_, Some(message)) => message.clone(),
        _ => String::new(),
    };
    vec![
        job.id.as_ref().map_or_else(|| "-".to_owned(), |id| id.as_str().to_owned()),
        job.job.clone().unwrap_or_else(|| "-".to_owned()),
        job.attempt.to_string(),
        from_now(job.at),
        job.worker.clone().unwrap_or_default(),
        cut(message.lines().next().unwrap_or_default(), 60),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers() {
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(utc(1_798_761_599_999), "2026-12-31 23:59:59");
        let spans = [0, 999, 41_000, 150_000, 8_000_000, 200_000_000].map(span);
        assert_eq!(spans, ["0ms", "999ms", "41s", "2m", "2h", "2d"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
    }
}
