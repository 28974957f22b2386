//! A time as people write it.

use std::time::{Duration, UNIX_EPOCH};

use crate::inspect::When;
use crate::time::{parse_duration, parse_time};
use crate::web::problem::Problem;

/// A time, or one from now.
pub(super) fn when(text: &str) -> Result<When, Problem> {
    let text = text.trim();
    if let Ok(delay) = parse_duration(&text.replace(' ', "").replace("min", "m")) {
        return Ok(When::In(delay));
    }
    let at = parse_time(text).and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
    at.map(When::At).ok_or_else(|| {
        Problem::invalid(format!("`{text}` is no time: write `10m`, or `2026-12-24T18:00` in UTC"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(when("10 min").unwrap(), When::In(Duration::from_secs(600)));
        let at = UNIX_EPOCH + Duration::from_secs(951_782_400);
        assert_eq!(when(" 2000-02-29T00:00 ").unwrap(), When::At(at));
        assert!(when("tomorrow").is_err() && when("").is_err());
    }
}
