//! Every form of a job that runs again and again, in a crate that has every lint on which the generated code could be blamed, and what each becomes.
#![forbid(unsafe_code, missing_docs)]
#![deny(
    warnings,
    unused,
    future_incompatible,
    nonstandard_style,
    rust_2018_idioms,
    rust_2024_compatibility,
    let_underscore_drop,
    missing_debug_implementations,
    missing_copy_implementations,
    single_use_lifetimes,
    trivial_casts,
    unnameable_types,
    unreachable_pub,
    unused_extern_crates,
    unused_import_braces,
    unused_lifetimes,
    unused_qualifications,
    unused_results,
    variant_size_differences,
    rustdoc::all,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]
#![allow(unused_crate_dependencies)]
// Of these functions as they are written here.
#![allow(
    clippy::missing_const_for_fn,
    clippy::needless_pass_by_value,
    clippy::ref_option,
    clippy::unnecessary_wraps,
    clippy::unused_async
)]

use hworker::__private::cron::{CatchUp, Overlap, Timing};
use hworker::Job;

/// Of the arguments of a job.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub enum Region {
    /// Near.
    Eu,
}

/// At one time.
#[hworker::job(cron = "0 9 * * MON-FRI", timezone = "Europe/Berlin")]
pub async fn weekdays() {}

/// At an interval.
#[hworker::job(name = "wire.name", every = "30s")]
pub fn often() {}

/// Once for each release.
#[hworker::job(cron = "@reboot")]
pub async fn at_start() {}

/// At several, with arguments and all settings.
#[hworker::job(
    timezone = "Asia/Tokyo",
    cron("*/5 0 9 L * *", name = "last", args = (Region::Eu, "all")),
    every(
        "1h30m",
        args = (Region::Eu, String::from("new")),
        timezone = "Europe/Berlin",
        catch_up = "one",
        overlap = "cancel",
        splay = "20s",
        start = "2026-12-01",
        end = "2026-12-31T18:00",
        count = 100,
        skip_days = "sat, Sunday"
    )
)]
pub async fn report(region: Region, what: &str) {
    let _ = (region, what);
}

/// With one argument.
#[hworker::job(every("1d", args = 7_u8), unique)]
pub async fn one(number: u8) {
    let _ = number;
}

fn crons<J: Job>() -> Vec<(&'static str, Timing, String)> {
    let declared = J::DEFINITION.crons.iter();
    declared
        .map(|entry| {
            let args = (entry.args)().map(|args| args.get().to_owned());
            (entry.name, (entry.timing)(), args.unwrap_or_default())
        })
        .collect()
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn main() {
    let cron = text("0 9 * * MON-FRI");
    let of_weekdays = Timing { cron, timezone: text("Europe/Berlin"), ..Timing::default() };
    assert_eq!(crons::<weekdays>(), [("weekdays", of_weekdays, "{}".to_owned())]);
    let every = Timing { every: Some(30_000), ..Timing::default() };
    assert_eq!(crons::<often>(), [("wire.name", every, "{}".to_owned())]);
    let reboot = Timing { cron: text("@reboot"), ..Timing::default() };
    assert_eq!(crons::<at_start>(), [("at_start", reboot, "{}".to_owned())]);
    let cron = text("*/5 0 9 L * *");
    let last = Timing { cron, timezone: text("Asia/Tokyo"), ..Timing::default() };
    let often = Timing {
        every: Some(5_400_000),
        timezone: text("Europe/Berlin"),
        skip_days: text("sat, Sunday"),
        start: text("2026-12-01"),
        end: text("2026-12-31T18:00"),
        count: Some(100),
        splay: Some(20_000),
        catch_up: CatchUp::One,
        overlap: Overlap::Cancel,
        ..Timing::default()
    };
    let all = r#"{"region":"Eu","what":"all"}"#.to_owned();
    let new = r#"{"region":"Eu","what":"new"}"#.to_owned();
    assert_eq!(crons::<report>(), [("last", last, all), ("report", often, new)]);
    let daily = Timing { every: Some(86_400_000), ..Timing::default() };
    assert_eq!(crons::<one>(), [("one", daily, r#"{"number":7}"#.to_owned())]);
}
