//! When the runs of a cron entry are due. croner reads the expression and finds the next local time; jiff knows the zones. What is done about
//! clocks that are set forward and back is decided here.

use jiff::civil::{DateTime, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::Timing;
use super::zones;

/// More days in a row than any schedule leaves out: the days of the week of a date repeat after 28 years.
const MOST_SKIPPED: usize = 2_000;

/// An interval is no shorter, in ms.
const SHORTEST: u64 = 100;

/// An expression that has no match in so many years has none.
const WITHIN_YEARS: i16 = 100;

const NEVER: &str = "it never comes: no day is like that, or all such days are over";

/// The schedule of an entry, ready to be asked.
#[derive(Debug)]
pub(crate) struct Calendar {
    rhythm: Rhythm,
    zone: TimeZone,
    /// By their place in the week, from Monday.
    skipped: [bool; 7],
    splay: SignedDuration,
    start: Option<Timestamp>,
    /// The last instant that counts.
    end: Option<Timestamp>,
}

#[derive(Debug)]
enum Rhythm {
    /// Each local time once: the hours are named.
    Fixed(croner::Cron),
    /// It follows real time: the hour has a `*`.
    Wild(croner::Cron),
    /// Counted from 1970.
    Every(SignedDuration),
    /// Once for each table of a program.
    Reboot,
}

impl Calendar {
    /// Of an entry. `splay`: how much later than written its runs are due, in ms.
    pub(crate) fn new(timing: &Timing, splay: u64) -> Result<Self, String> {
        let zone = match &timing.timezone {
            Some(name) => zones::find(name)?,
            None => TimeZone::UTC,
        };
        let rhythm = rhythm(timing)?;
        let time = |text: &Option<String>, is_end| {
            text.as_deref().map(|text| local_time(text, &zone, is_end)).transpose()
        };
        let (start, end) = (time(&timing.start, false)?, time(&timing.end, true)?);
        if let (Some(start), Some(end)) = (start, end)
            && start > end
        {
            return Err("`end` is before `start`".into());
        }
        let skipped = skipped(timing.skip_days.as_deref().unwrap_or_default())?;
        let splay = SignedDuration::from_millis(i64::try_from(splay).unwrap_or(0));
        Ok(Self { rhythm, zone, skipped, splay, start, end })
    }

    pub(crate) fn is_reboot(&self) -> bool {
        matches!(self.rhythm, Rhythm::Reboot)
    }

    /// When its last run may be, in ms, where it has an end.
    pub(crate) fn last(&self) -> Option<u64> {
        let last = self.end?.checked_add(self.splay).ok()?;
        u64::try_from(last.as_millisecond()).ok()
    }

    /// The first run after this time, both in ms since 1970.
    pub(crate) fn next_after(&self, ms: u64) -> Option<u64> {
        let asked = Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?;
        let mut after = asked.checked_sub(self.splay).ok()?;
        if let Some(start) = self.start {
            after = after.max(start.checked_sub(SignedDuration::from_millis(1)).ok()?);
        }
        for _ in 0..MOST_SKIPPED {
            let found = self.written_after(after)?;
            if self.end.is_some_and(|end| found > end) {
                return None;
            }
            let day = self.zone.to_datetime(found).date();
            if !self.skipped[usize::from(day.weekday().to_monday_zero_offset().unsigned_abs())] {
                let at = found.checked_add(self.splay).ok()?;
                return u64::try_from(at.as_millisecond()).ok();
            }
            let next_day = day.tomorrow().ok()?.to_datetime(jiff::civil::Time::midnight());
            let begins = self.zone.to_timestamp(next_day).ok()?;
            after = found.max(begins.checked_sub(SignedDuration::from_millis(1)).ok()?);
        }
        None
    }

    /// The first instant after this one that the schedule names, whatever the day.
    fn written_after(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.rhythm {
            Rhythm::Reboot => None,
            Rhythm::Every(period) => {
                let (after, period) = (after.as_millisecond(), period.as_millis() as i64);
                let next = after.div_euclid(period).checked_add(1)?.checked_mul(period)?;
                Timestamp::from_millisecond(next).ok()
            }
            Rhythm::Fixed(pattern) => {
                // Later local times have later instants, so the search begins at the local time of `after`.
                let mut local = self.zone.to_datetime(after);
                loop {
                    local = matched(pattern, local, false)?;
                    let at = once(&self.zone, local)?;
                    if at > after {
                        return Some(at);
                    }
                }
            }
            Rhythm::Wild(pattern) => {
                let (mut from, mut inclusive) = (after, false);
                loop {
                    // From here to where the clock is set, local time and real time run alike.
                    let offset = self.zone.to_offset(from);
                    let until = self.zone.following(from).next().map(|set| set.timestamp());
                    let local = matched(pattern, offset.to_datetime(from), inclusive)?;
                    let at = offset.to_timestamp(local).ok()?;
                    match until {
                        Some(until) if at >= until => (from, inclusive) = (until, true),
                        _ => return Some(at),
                    }
                }
            }
        }
    }
}

/// The next local time that fits.
fn matched(pattern: &croner::Cron, from: DateTime, inclusive: bool) -> Option<DateTime> {
    pattern.find_next_occurrence(&from, inclusive).ok()
}

/// The instant of a local time of which there is to be one: the first after a gap in which it falls, and the first of two.
fn once(zone: &TimeZone, local: DateTime) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(local);
    match ambiguous.offset() {
        AmbiguousOffset::Gap { before, .. } => {
            // As if the clock had not been set, it is behind the gap, or at its end.
            let behind = before.to_timestamp(local).ok()?;
            let just_behind = behind.checked_add(1.second()).ok()?;
            zone.preceding(just_behind).next().map(|set| set.timestamp())
        }
        _ => ambiguous.earlier().ok(),
    }
}

fn rhythm(timing: &Timing) -> Result<Rhythm, String> {
    match (&timing.cron, timing.every) {
        (Some(_), Some(_)) => Err("`cron` and `every` are given; one says when it runs".into()),
        (None, None) => Err("nothing says when it runs; give `cron` or `every`".into()),
        (None, Some(0..SHORTEST)) => Err("`every` is at least 100 ms".into()),
        (None, Some(ms)) => {
            let period = i64::try_from(ms).map_err(|_| "`every` is too long")?;
            Ok(Rhythm::Every(SignedDuration::from_millis(period)))
        }
        (Some(text), None) if text.trim().eq_ignore_ascii_case("@reboot") => Ok(Rhythm::Reboot),
        (Some(text), None) => {
            let pattern = expression(text)?;
            Ok(if hour_is_wild(text) { Rhythm::Wild(pattern) } else { Rhythm::Fixed(pattern) })
        }
    }
}

/// An expression, or what is wrong with it.
pub(crate) fn expression(text: &str) -> Result<croner::Cron, String> {
    let shown: String = text.chars().take(100).flat_map(char::escape_default).collect();
    let wrong = |why: &str| format!("the cron expression `{shown}` is wrong: {why}");
    if text.len() > 200 {
        return Err(wrong("it is longer than 200 bytes"));
    }
    if text.split_whitespace().count() > 6 {
        return Err(wrong("it has more than six fields, and the year is none"));
    }
    let pattern: croner::Cron = text.parse().map_err(|error: croner::errors::CronError| {
        let why = error.to_string();
        let why = why.split_once(": ").map_or(&*why, |(_, why)| why);
        let form = "it has five fields, `minute hour day month weekday`, or one for seconds in front, as in `0 9 * * MON-FRI`";
        wrong(&format!("{}; {form}", why.trim_end_matches('.')))
    })?;
    let (now, last) = (Timestamp::now(), 1.year() * i64::from(WITHIN_YEARS));
    let now = TimeZone::UTC.to_datetime(now);
    let last = now.checked_add(last).map_err(|_| wrong(NEVER))?;
    // A zone may be a day behind.
    let from = now.checked_sub(1.day()).unwrap_or(now);
    match matched(&pattern, from, false) {
        Some(next) if next <= last => Ok(pattern),
        _ => Err(wrong(NEVER)),
    }
}

/// Whether the field of the hour has a `*`.
fn hour_is_wild(text: &str) -> bool {
    let text = text.trim();
    if text.starts_with('@') {
        return text.eq_ignore_ascii_case("@hourly");
    }
    let fields: Vec<_> = text.split_whitespace().collect();
    let hour = if fields.len() == 5 { 1 } else { 2 };
    fields.get(hour).is_some_and(|hour| hour.contains(['*', '?']))
}

/// `2026-12-01`, or `2026-12-01T09:00`, in the zone. The end of a day is included.
fn local_time(text: &str, zone: &TimeZone, is_end: bool) -> Result<Timestamp, String> {
    let wrong = |()| {
        let shown: String = text.chars().take(40).flat_map(char::escape_default).collect();
        format!("`{shown}` is no time; write `2026-12-01` or `2026-12-01T09:00`")
    };
    let is_date = text.len() <= 10;
    // No zone of its own, and no other form.
    if ![10, 16, 19].contains(&text.len()) {
        return Err(wrong(()));
    }
    let local: DateTime = text.parse().map_err(|_| wrong(()))?;
    let at = zone.to_timestamp(local).map_err(|_| wrong(()))?;
    if !(is_date && is_end) {
        return Ok(at);
    }
    let next = local.date().tomorrow().map_err(|_| wrong(()))?;
    let next = next.to_datetime(jiff::civil::Time::midnight());
    let next = zone.to_timestamp(next).map_err(|_| wrong(()))?;
    next.checked_sub(SignedDuration::from_millis(1)).map_err(|_| wrong(()))
}

/// `sat, sun`.
fn skipped(text: &str) -> Result<[bool; 7], String> {
    let mut skipped = [false; 7];
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let day = match &*name.to_ascii_lowercase() {
            "mon" | "monday" => Weekday::Monday,
            "tue" | "tuesday" => Weekday::Tuesday,
            "wed" | "wednesday" => Weekday::Wednesday,
            "thu" | "thursday" => Weekday::Thursday,
            "fri" | "friday" => Weekday::Friday,
            "sat" | "saturday" => Weekday::Saturday,
            "sun" | "sunday" => Weekday::Sunday,
            _ => return Err("`skip_days` has days of the week, as in \"sat, sun\"".into()),
        };
        skipped[usize::from(day.to_monday_zero_offset().unsigned_abs())] = true;
    }
    if skipped == [true; 7] {
        return Err("`skip_days` has all seven days, so it would never run".into());
    }
    Ok(skipped)
}
