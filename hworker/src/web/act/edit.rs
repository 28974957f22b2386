//! Whether a job may be changed so.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::Which;
use crate::web::problem::{Problem, Wrong};
use crate::web::site::Site;

/// Whether its arguments would still fit its type, as far as workers wrote it down.
pub(crate) async fn check_edit(
    site: &Site,
    queue: &str,
    which: &Which,
    edits: &BTreeMap<String, Box<RawValue>>,
) -> Result<(), Problem> {
    let mut values = Vec::new();
    for (path, json) in edits {
        let value = serde_json::from_str::<Value>(json.get()).map_err(|error| {
            Problem::invalid(format!("the value of `{path}` cannot be read as JSON: {error}"))
        })?;
        values.push((path, value));
    }
    let Some(job) = site.find(queue, &which.id).await? else { return Ok(()) };
    let types = site.types().await?;
    let name = job.job.as_deref().unwrap_or_default();
    let Some(known) = types.iter().find(|known| known.is_called(name)) else { return Ok(()) };
    // A schema says nothing of another version.
    if job.args_version() != known.version {
        return Ok(());
    }
    let Ok(mut args) = serde_json::from_str::<Value>(job.args()) else { return Ok(()) };
    for (path, value) in values {
        let mut names = path.split('.').peekable();
        let mut place = Some(&mut args);
        while let (Some(name), Some(Value::Object(object))) = (names.next(), place.take()) {
            if names.peek().is_none() {
                object.insert(name.to_owned(), value);
                break;
            }
            place = object.get_mut(name);
        }
    }
    let wrong: Vec<_> = known.misfits(&args);
    if wrong.is_empty() {
        return Ok(());
    }
    let detail = format!("the arguments of the job {} would not fit `{}`", which.id, known.name);
    let errors = wrong.into_iter().map(|(pointer, detail)| Wrong { pointer, detail }).collect();
    Err(Problem::invalid(detail).wrong(errors))
}
