//! What is done about an entry that is due.

use super::plan::plan;
use crate::calendar::{Calendar, CatchUp, Timing};

const MINUTE: u64 = 60_000;

/// Of an entry of each minute that was due at `seen`: when it runs, since when runs are missed, when it is due next.
fn of_minutes(
    catch_up: CatchUp,
    count: Option<u32>,
    seen: u64,
    fired: u64,
    now: u64,
) -> (Vec<u64>, Option<u64>, Option<u64>) {
    let timing = Timing { every: Some(MINUTE), catch_up, count, ..Timing::default() };
    let calendar = Calendar::new(&timing, 0).expect("a calendar");
    let plan = plan(&timing, &calendar, seen, fired, now);
    (plan.runs, plan.missed, plan.next)
}

#[test]
fn one_that_is_on_time_runs_once() {
    for catch_up in [CatchUp::Skip, CatchUp::One, CatchUp::All] {
        let planned = of_minutes(catch_up, None, MINUTE, 0, MINUTE + 3);
        assert_eq!(planned, (vec![MINUTE], None, Some(2 * MINUTE)), "{catch_up:?}");
    }
}

#[test]
fn what_was_missed_is_left_out_or_made_up_for() {
    // An hour and ten seconds.
    let now = 60 * MINUTE + 10_000;
    let next = Some(61 * MINUTE);
    assert_eq!(
        of_minutes(CatchUp::Skip, None, MINUTE, 0, now),
        (vec![60 * MINUTE], Some(MINUTE), next)
    );
    assert_eq!(
        of_minutes(CatchUp::One, None, MINUTE, 0, now),
        (vec![60 * MINUTE], Some(MINUTE), next)
    );
    let all: Vec<_> = (1..=60).map(|minute| minute * MINUTE).collect();
    assert_eq!(of_minutes(CatchUp::All, None, MINUTE, 0, now), (all, None, next));
    // All that are on time.
    let often = Timing { every: Some(10_000), ..Timing::default() };
    let calendar = Calendar::new(&often, 0).expect("a calendar");
    let late = plan(&often, &calendar, MINUTE, 0, 3 * MINUTE);
    let on_time: Vec<_> = (12..=18).map(|ten| ten * 10_000).collect();
    assert_eq!((late.runs, late.missed), (on_time, Some(MINUTE)));
    // A month: the last hundred, and without a look at each minute.
    let now = 43_200 * MINUTE;
    let (runs, missed, _) = of_minutes(CatchUp::All, None, MINUTE, 0, now);
    assert_eq!((runs.len(), runs[0], runs[99], missed), (100, 43_101 * MINUTE, now, Some(MINUTE)));
    // Once a day, half a day late.
    let timing = Timing { cron: Some("0 9 * * *".into()), ..Timing::default() };
    let calendar = Calendar::new(&timing, 0).expect("a calendar");
    let [seen, now] = [9 * 60 * MINUTE, 21 * 60 * MINUTE];
    let late = plan(&timing, &calendar, seen, 0, now);
    assert_eq!((late.runs, late.missed, late.next), (vec![], Some(seen), Some(33 * 60 * MINUTE)));
    let one = Timing { catch_up: CatchUp::One, ..timing };
    assert_eq!(plan(&one, &calendar, seen, 0, now).runs, [seen]);
}

#[test]
fn the_last_run_of_a_count_is_the_last() {
    // The server says that it was the last.
    assert_eq!(of_minutes(CatchUp::All, Some(3), MINUTE, 2, MINUTE + 3).0, [MINUTE]);
    assert_eq!(of_minutes(CatchUp::All, Some(3), MINUTE, 1, MINUTE + 3).2, Some(2 * MINUTE));
    let (runs, _, next) = of_minutes(CatchUp::All, Some(5), MINUTE, 2, 10 * MINUTE);
    assert_eq!((runs, next), (vec![MINUTE, 2 * MINUTE, 3 * MINUTE], Some(11 * MINUTE)));
    let (runs, _, next) = of_minutes(CatchUp::Skip, Some(3), MINUTE, 3, MINUTE + 3);
    assert_eq!((runs, next), (vec![], None));
}
