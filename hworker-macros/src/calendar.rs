//! What can be said of a schedule while the code is compiled.

use syn::{Error, Ident, LitStr, Result};

pub(crate) const TIME: &str = "a time is \"2026-12-01\" or \"2026-12-01T09:00\"";
pub(crate) const SKIP_DAYS: &str = "`skip_days` has days of the week, as in \"sat, sun\"";

/// Whether `hworker` was built with what this needs.
pub(crate) fn is_there(word: &Ident) -> Result<()> {
    if cfg!(feature = "cron") {
        return Ok(());
    }
    let message = format!(
        "`{word}` needs the feature `cron` of hworker, which is on unless `default-features = false` is written"
    );
    Err(Error::new(word.span(), message))
}

/// Days of the week, not all of them.
pub(crate) fn skip_days(text: &LitStr) -> Result<()> {
    const DAYS: [&str; 14] = [
        "mon",
        "tue",
        "wed",
        "thu",
        "fri",
        "sat",
        "sun",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ];
    let value = text.value().to_ascii_lowercase();
    let mut days: Vec<_> = value.split(',').map(str::trim).filter(|day| !day.is_empty()).collect();
    if days.is_empty() || days.iter().any(|day| !DAYS.contains(day)) {
        return Err(Error::new_spanned(text, SKIP_DAYS));
    }
    for day in &mut days {
        *day = &day[..3];
    }
    days.sort_unstable();
    days.dedup();
    match days.len() {
        7 => Err(Error::new_spanned(text, "`skip_days` has all seven days, so it would never run")),
        _ => Ok(()),
    }
}

#[cfg(not(feature = "cron"))]
#[allow(clippy::unnecessary_wraps, reason = "as with the feature")]
mod with_cron {
    use syn::{LitStr, Result};

    pub(crate) fn expression(_: &LitStr) -> Result<()> {
        Ok(())
    }

    pub(crate) fn timezone(_: &LitStr) -> Result<()> {
        Ok(())
    }

    pub(crate) fn time(_: &LitStr) -> Result<()> {
        Ok(())
    }

    pub(crate) fn span(_: &LitStr, _: &LitStr) -> Result<()> {
        Ok(())
    }
}

#[cfg(feature = "cron")]
mod with_cron {
    use jiff::ToSpan;
    use jiff::civil::DateTime;
    use jiff::tz::{self, TimeZone};
    use syn::{Error, LitStr, Result};

    use super::TIME;
    use crate::keys::distance;

    /// As the library reads it.
    pub(crate) fn expression(text: &LitStr) -> Result<()> {
        let value = text.value();
        if value.trim().eq_ignore_ascii_case("@reboot") {
            return Ok(());
        }
        if value.len() > 200 || value.split_whitespace().count() > 6 {
            let message = "an expression has at most six fields, without a year, and 200 bytes";
            return Err(Error::new_spanned(text, message));
        }
        let pattern: croner::Cron = value.parse().map_err(|error: croner::errors::CronError| {
            let why = error.to_string();
            let why = why.split_once(": ").map_or(&*why, |(_, why)| why).trim_end_matches('.');
            let form = "an expression has five fields, `minute hour day month weekday`, or one for seconds in front, as in \"0 9 * * MON-FRI\"";
            Error::new_spanned(text, format!("{why}\n{form}"))
        })?;
        // A zone may be a day behind.
        let from = TimeZone::UTC.to_datetime(jiff::Timestamp::now());
        let from = from.checked_sub(1.day()).unwrap_or(from);
        let last = from.checked_add(100.years()).unwrap_or(from);
        match pattern.find_next_occurrence(&from, false) {
            Ok(next) if next <= last => Ok(()),
            _ => Err(Error::new_spanned(
                text,
                "this never comes: no day is like that, or all such days are over",
            )),
        }
    }

    pub(crate) fn timezone(text: &LitStr) -> Result<()> {
        let name = text.value();
        if TimeZone::get(&name).is_ok() {
            return Ok(());
        }
        let lower = name.to_ascii_lowercase();
        let far = |known: &str| {
            let known = known.to_ascii_lowercase();
            // A city alone is enough.
            let city = known.rsplit('/').next().map_or(usize::MAX, |city| distance(&lower, city));
            distance(&lower, &known).min(city)
        };
        let nearest =
            tz::db().available().map(|known| (far(known.as_str()), known.to_string())).min();
        let near = nearest.filter(|(far, _)| *far <= 1 + name.len() / 4);
        let near = near.map(|(_, near)| format!(", did you mean \"{near}\"?")).unwrap_or_default();
        let message =
            format!("there is no time zone \"{name}\"{near}\nnames are as in \"Europe/Berlin\"");
        Err(Error::new_spanned(text, message))
    }

    pub(crate) fn time(text: &LitStr) -> Result<()> {
        read(text).map(drop)
    }

    /// Whether a start is before its end. The day of an end is included.
    pub(crate) fn span(start: &LitStr, end: &LitStr) -> Result<()> {
        let (begin, last) = (read(start)?, read(end)?);
        let is_day = end.value().len() == 10;
        let fits = if is_day { begin.date() <= last.date() } else { begin <= last };
        if fits { Ok(()) } else { Err(Error::new_spanned(end, "`end` is before `start`")) }
    }

    fn read(text: &LitStr) -> Result<DateTime> {
        let value = text.value();
        let has_form = [10, 16, 19].contains(&value.len());
        let parsed = value.parse().ok().filter(|_| has_form);
        parsed.ok_or_else(|| Error::new_spanned(text, TIME))
    }
}

pub(crate) use with_cron::{expression, span, time, timezone};
