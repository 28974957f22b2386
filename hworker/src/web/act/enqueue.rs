//! Jobs that are enqueued by the names of their types.

use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::client::Client;
use crate::enqueue::EnqueueByName;
use crate::manifest::JobType;
use crate::priority::Priority;
use crate::unique::Submitted;
use crate::web::guard::Asked;
use crate::web::problem::{Problem, Wrong};
use crate::web::schema::{OwnId, Tag, TypeName, Whole, count};
use crate::web::site::Site;

/// A job to be enqueued.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewJob {
    /// The name of its type.
    #[schema(value_type = TypeName)]
    pub(crate) job: String,
    /// Its arguments, by name, of the version that workers wrote down for its type.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub(crate) args: Box<RawValue>,
    /// When it is due, in milliseconds since 1970.
    #[schema(inline)]
    pub(crate) at: Option<Whole>,
    /// In how many milliseconds it is due.
    #[schema(inline)]
    pub(crate) delay_ms: Option<Whole>,
    /// Its priority.
    #[schema(value_type = Option<Priority>)]
    pub(crate) priority: Option<String>,
    /// Before all others of its priority.
    #[serde(default)]
    pub(crate) front: bool,
    /// For each worker of the queue, once on each.
    #[serde(default)]
    pub(crate) on_each: bool,
    /// For so many workers, each another one.
    #[serde(default, deserialize_with = "count")]
    #[schema(format = Int64, minimum = 1, maximum = 4_294_967_295u32)]
    pub(crate) on_each_of: Option<u32>,
    /// An id of the caller: a second job with it is not enqueued while the first has not ended.
    #[schema(value_type = Option<OwnId>)]
    pub(crate) id: Option<String>,
    #[serde(default)]
    #[schema(value_type = Vec<Tag>, max_items = 16)]
    pub(crate) tags: Vec<String>,
    #[serde(default, deserialize_with = "count")]
    #[schema(format = Int64, minimum = 1, maximum = 4_294_967_295u32)]
    pub(crate) max_attempts: Option<u32>,
    /// Also where no worker has written down such a type, or the arguments do not fit it.
    #[serde(default)]
    pub(crate) unchecked: bool,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Enqueued {
    /// The job's id; that of the other one where it existed.
    pub(crate) id: String,
    /// Whether this job was enqueued; else one with its id was there.
    pub(crate) is_new: bool,
}

/// Enqueues a job, if its arguments fit its type as workers wrote it down.
pub(crate) async fn enqueue(
    site: &Site,
    asked: &Asked,
    queue: &str,
    new: &NewJob,
) -> Result<Enqueued, Problem> {
    let args: Value = serde_json::from_str(new.args.get()).map_err(|error| {
        Problem::invalid(format!("the arguments cannot be read as JSON: {error}"))
    })?;
    let types = site.types().await;
    let types = if new.unchecked { types.unwrap_or_default() } else { types? };
    let known = types.iter().find(|known| known.is_called(&new.job));
    if !new.unchecked {
        check(&types, known, &new.job, &args)?;
    }
    let what = format!("1 of {}", new.job);
    // Large, and passed on.
    let doing = Box::pin(async {
        let job = ready(&site.client, queue, new)?;
        let job =
            known.map(|known| known.version).into_iter().fold(job, EnqueueByName::args_version);
        let (id, is_new) = if new.id.is_some() {
            let receipt = job.submit().await?;
            (receipt.id, receipt.submitted == Submitted::New)
        } else {
            (job.enqueue().await?, true)
        };
        let result = format!("{} {id}", if is_new { "enqueued" } else { "exists:" });
        Ok((Enqueued { id: id.to_string(), is_new }, result))
    });
    site.act(asked, "enqueue", queue, &what, doing).await
}

fn ready(client: &Client, queue: &str, new: &NewJob) -> Result<EnqueueByName, Problem> {
    let mut job = client.job_by_name(&new.job, new.args.get()).queue(queue);
    match (new.at, new.delay_ms) {
        (Some(_), Some(_)) => return Err(Problem::invalid("give `at` or `delay_ms`, not both")),
        (Some(at), None) => {
            let at = UNIX_EPOCH.checked_add(Duration::from_millis(at.0));
            job = job.at(at.ok_or_else(|| Problem::invalid("`at` is too late"))?);
        }
        (None, Some(ms)) => job = job.delay(Duration::from_millis(ms.0)),
        (None, None) => {}
    }
    if let Some(priority) = &new.priority {
        job = job.priority(priority.parse().map_err(Problem::invalid)?);
    }
    if let Some(id) = &new.id {
        job = job.id(id);
    }
    if let Some(attempts) = new.max_attempts {
        job = job.max_attempts(attempts);
    }
    job = match (new.on_each, new.on_each_of) {
        (true, Some(_)) => {
            return Err(Problem::invalid("give `on_each` or `on_each_of`, not both"));
        }
        (true, None) => job.on_each(),
        (false, Some(workers)) => job.on_each_of(workers),
        (false, None) => job,
    };
    if new.front {
        job = job.front();
    }
    Ok(new.tags.iter().fold(job, EnqueueByName::tag))
}

/// Whether arguments fit their type, as workers wrote it down.
fn check(
    types: &[JobType],
    known: Option<&JobType>,
    name: &str,
    args: &Value,
) -> Result<(), Problem> {
    let Some(known) = known else {
        let names: Vec<_> = types.iter().map(|known| known.name.as_str()).take(20).collect();
        return Err(Problem::invalid(format!(
            "no worker knows a job `{name}`; they know: {}; `\"unchecked\": true` enqueues it all the same",
            names.join(", ")
        )));
    };
    if known.encrypted {
        return Err(Problem::invalid(format!(
            "the arguments of `{name}` are encrypted, so only a program with its key can write them"
        )));
    }
    let wrong = known.misfits(args);
    if wrong.is_empty() {
        return Ok(());
    }
    let errors = wrong.into_iter().map(|(pointer, detail)| Wrong { pointer, detail }).collect();
    Err(Problem::invalid(format!("the arguments do not fit `{name}`")).wrong(errors))
}
