//! Time zones by their names.

use jiff::tz::{self, TimeZone};

use crate::spelling::distance;

/// The zone of this name, as `Europe/Berlin`; else what is wrong, with the nearest name.
pub(super) fn find(name: &str) -> Result<TimeZone, String> {
    // What the library would read from a path that somebody chose is no name.
    let is_name =
        name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || "/_+-".contains(c));
    if is_name && let Ok(zone) = TimeZone::get(name) {
        return Ok(zone);
    }
    let shown: String = name.chars().take(64).flat_map(char::escape_default).collect();
    let near = nearest(name).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    Err(format!("there is no time zone `{shown}`{near} (names are as in `Europe/Berlin`)"))
}

/// The nearest of the names that are known, if it is near.
fn nearest(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let far = |known: &str| {
        let known = known.to_ascii_lowercase();
        // A city alone is enough.
        let city = known.rsplit('/').next().map_or(usize::MAX, |city| distance(&name, city));
        distance(&name, &known).min(city)
    };
    let names = tz::db().available().map(|known| known.to_string());
    let nearest = names.map(|known| (far(&known), known)).min()?;
    Some(nearest).filter(|(far, _)| *far <= 1 + name.len() / 4).map(|(_, known)| known)
}
