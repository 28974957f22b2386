//! The calendar against a clock that is looked at minute by minute.

use std::collections::BTreeSet;

use jiff::civil::DateTime;
use jiff::tz::{self, TimeZone};
use jiff::{Timestamp, ToSpan};

use super::{Calendar, Timing};

fn cron(expression: &str, timezone: &str) -> Timing {
    let [cron, timezone] = [expression, timezone].map(|text| Some(text.to_owned()));
    Timing { cron, timezone, ..Timing::default() }
}

fn calendar(timing: &Timing) -> Calendar {
    Calendar::new(timing, 0).expect("a calendar")
}

fn ms(text: &str) -> u64 {
    text.parse::<Timestamp>().expect("a time").as_millisecond().unsigned_abs()
}

fn next(timing: &Timing, after: &str, count: usize) -> Vec<String> {
    let calendar = calendar(timing);
    let times =
        std::iter::successors(calendar.next_after(ms(after)), |at| calendar.next_after(*at));
    let shown = |at| Timestamp::from_millisecond(at as i64).expect("a time").to_string();
    times.take(count).map(shown).collect()
}

/// The transitions of all zones within ten years, each kind of them once: its time, and the zone of which it is one.
fn transitions() -> Vec<(Timestamp, String)> {
    let [from, to]: [Timestamp; 2] =
        ["2024-01-01T00:00Z", "2034-01-01T00:00Z"].map(|text| text.parse().expect("a time"));
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for name in tz::db().available() {
        let zone = TimeZone::get(name.as_str()).expect("a zone that is available");
        for set in zone.following(from).take_while(|set| set.timestamp() < to) {
            let at = set.timestamp();
            let before = zone.to_offset(at - 1.second()).seconds();
            if seen.insert((at, before, set.offset().seconds())) {
                found.push((at, name.to_string()));
            }
        }
    }
    found
}

/// Every instant from three hours before to three hours after, and what the clock shows then.
fn minutes(zone: &TimeZone, set: Timestamp) -> Vec<(Timestamp, DateTime)> {
    let begin = set - 3.hours();
    (0..360_i64)
        .map(|minute| begin + minute.minutes())
        .map(|at| (at, zone.to_datetime(at)))
        .collect()
}

/// What the written rule says: where the hour is fixed, each local time once, at its first instant, or at the first instant after the gap in
/// which it falls; else every instant whose local time fits.
fn by_rule(
    expression: &str,
    minutes: &[(Timestamp, DateTime)],
    fixed: bool,
) -> BTreeSet<Timestamp> {
    let pattern: croner::Cron = expression.parse().expect("an expression");
    let fits = |local: &DateTime| pattern.is_time_matching(local).expect("a time");
    if !fixed {
        return minutes.iter().filter(|(_, local)| fits(local)).map(|(at, _)| *at).collect();
    }
    let (first, last) = (minutes[0].1, minutes[minutes.len() - 1].1);
    let locals = std::iter::successors(Some(first), |local| local.checked_add(1.minute()).ok());
    let instant = |local: DateTime| {
        let exact = minutes.iter().find(|(_, shown)| *shown == local);
        exact.or_else(|| minutes.iter().find(|(_, shown)| *shown > local)).map(|(at, _)| *at)
    };
    locals.take_while(|local| *local <= last).filter(fits).filter_map(instant).collect()
}

#[test]
fn every_transition_of_ten_years_in_every_zone() {
    let transitions = transitions();
    assert!(transitions.len() > 500, "{} transitions", transitions.len());
    let expressions = [
        ("*/20 1-3 * * *", true),
        ("30 2 * * *", true),
        ("7 0,23 * * *", true),
        ("*/15 * * * *", false),
        ("5 */2 * * *", false),
    ];
    for (set, name) in transitions {
        let zone = TimeZone::get(&name).expect("a zone");
        let minutes = minutes(&zone, set);
        let (begin, end) = (minutes[0].0, minutes[minutes.len() - 1].0);
        for (expression, fixed) in expressions {
            let calendar = calendar(&cron(expression, &name));
            let before = (begin - 1.second()).as_millisecond() as u64;
            let times =
                std::iter::successors(calendar.next_after(before), |at| calendar.next_after(*at));
            let found: BTreeSet<_> = times
                .map(|at| Timestamp::from_millisecond(at as i64).expect("a time"))
                .take_while(|at| *at <= end)
                .collect();
            let mut wanted = by_rule(expression, &minutes, fixed);
            // The clock was set before these six hours began, and shows times that came before.
            let earlier = found.difference(&wanted).next().copied();
            assert_eq!(earlier, None, "{expression} in {name} around {set}");
            wanted.retain(|at| !found.contains(at));
            // A time that came first before these six hours.
            wanted.retain(|at| {
                let local = zone.to_datetime(*at);
                let first = zone.to_ambiguous_timestamp(local).earlier().expect("a time");
                first >= begin
            });
            assert!(wanted.is_empty(), "{expression} in {name} around {set}: {wanted:?}");
        }
    }
}

#[test]
fn a_fixed_hour_runs_once_a_day_and_a_wild_one_every_hour() {
    let fixed = cron("30 2 * * *", "Europe/Berlin");
    // The clock goes from 2:00 to 3:00.
    let spring = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
    assert_eq!(next(&fixed, "2026-03-27T23:00Z", 3), spring);
    // From 3:00 back to 2:00.
    let autumn = ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
    assert_eq!(next(&fixed, "2026-10-24T23:00Z", 2), autumn);
    let wild = cron("30 * * * *", "Europe/Berlin");
    let twice = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"];
    assert_eq!(next(&wild, "2026-10-24T23:45Z", 3), twice);
    // Several local times that fall on one instant are one run.
    let many = cron("0,20,40 2 * * *", "Europe/Berlin");
    let one = ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"];
    assert_eq!(next(&many, "2026-03-29T00:00Z", 2), one);
    // A whole day that there was not: Samoa, 30 December 2011.
    let apia = cron("0 9 * * *", "Pacific/Apia");
    let samoa = ["2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z"];
    assert_eq!(next(&apia, "2011-12-29T10:00Z", 3), samoa);
    // Half an hour: Lord Howe.
    let howe = cron("15 2 * * *", "Australia/Lord_Howe");
    assert_eq!(next(&howe, "2026-10-03T15:00Z", 1), ["2026-10-03T15:30:00Z"]);
}

#[test]
fn bounds_days_and_intervals() {
    let weekdays = cron("0 9 * * MON-FRI", "Europe/Berlin");
    assert_eq!(next(&weekdays, "2026-11-27T12:00Z", 1), ["2026-11-30T08:00:00Z"]);
    let skip_days = Some("sat, SUN".to_owned());
    let skipped = Timing { skip_days, ..cron("0 9 * * *", "Europe/Berlin") };
    assert_eq!(next(&skipped, "2026-11-27T12:00Z", 1), ["2026-11-30T08:00:00Z"]);
    let every_second =
        Timing { skip_days: Some("sat,sun".into()), every: Some(1_000), ..Timing::default() };
    assert_eq!(next(&every_second, "2026-11-27T23:59:59Z", 1), ["2026-11-30T00:00:00Z"]);
    let [start, end] = ["2026-12-01", "2026-12-02"].map(|text| Some(text.to_owned()));
    let bounded = Timing { start, end, ..cron("0 9 * * *", "Europe/Berlin") };
    // The last day counts.
    let two = ["2026-12-01T08:00:00Z", "2026-12-02T08:00:00Z"];
    assert_eq!(next(&bounded, "2020-01-01T00:00Z", 5), two);
    let interval = Timing { every: Some(90_000), ..Timing::default() };
    assert_eq!(
        next(&interval, "1970-01-01T00:00:00Z", 2),
        ["1970-01-01T00:01:30Z", "1970-01-01T00:03:00Z"]
    );
    let later = Calendar::new(&interval, 7_000).expect("a calendar");
    assert_eq!([later.next_after(0), later.next_after(7_000)], [Some(7_000), Some(97_000)]);
    // `L`, `#`, six fields, names in any case, 7 is Sunday.
    for (expression, at) in [
        ("0 0 L * *", "2026-11-30T00:00:00Z"),
        ("0 0 * * mon#2", "2026-12-14T00:00:00Z"),
        ("30 0 9 * * *", "2026-11-28T09:00:30Z"),
        ("0 9 * jan 7", "2027-01-03T09:00:00Z"),
        ("@daily", "2026-11-28T00:00:00Z"),
        ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
    ] {
        assert_eq!(next(&cron(expression, "UTC"), "2026-11-27T12:00Z", 1), [at], "{expression}");
    }
    let reboot = calendar(&cron("@reboot", "UTC"));
    assert!(reboot.is_reboot() && reboot.next_after(0).is_none());
}

#[test]
fn what_is_wrong_is_said() {
    let utc = |expression: &str| cron(expression, "UTC");
    let every = Timing { every: Some(1_000), ..Timing::default() };
    for (timing, what) in [
        (utc("0 0 30 2 *"), "never comes"),
        (utc("0 0 9 1 1 * 2027"), "six fields"),
        (Timing { start: Some("2026-12-01T09:00+02:00".into()), ..every.clone() }, "is no time"),
        (utc("0/12 * * * *"), "is wrong"),
        (utc("*/0 * * * *"), "is wrong"),
        (utc("61 * * * *"), "five fields"),
        (utc(""), "is wrong"),
        (utc(&"1,".repeat(500)), "longer than"),
        (cron("@daily", "Europe/Berlim"), "did you mean `Europe/Berlin`"),
        (cron("@daily", "tokyo"), "did you mean `Asia/Tokyo`"),
        (cron("@daily", "../../etc/passwd"), "there is no time zone"),
        (Timing { skip_days: Some("x".into()), ..every.clone() }, "days of the week"),
        (
            Timing { skip_days: Some("mon,tue,wed,thu,fri,sat,sun".into()), ..every.clone() },
            "all seven",
        ),
        (Timing { start: Some("soon".into()), ..every.clone() }, "is no time"),
        (
            Timing {
                start: Some("2026-12-02".into()),
                end: Some("2026-12-01".into()),
                ..every.clone()
            },
            "before",
        ),
        (Timing { every: Some(99), ..Timing::default() }, "at least 100 ms"),
        (Timing { every: Some(1_000), ..utc("@daily") }, "one says when"),
        (Timing::default(), "nothing says when"),
    ] {
        let why = Calendar::new(&timing, 0).map(drop).expect_err("refused");
        assert!(why.contains(what), "{timing:?}: {why}");
    }
}
