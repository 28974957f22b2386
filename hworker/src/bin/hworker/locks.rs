//! The keys that unique jobs hold.

use serde_json::json;

use crate::Context;
use crate::args::Locks;
use crate::rows::utc;
use crate::stop::Stop;

/// So many are listed.
const MOST: usize = 1_000;

pub(crate) async fn run(context: &Context, command: Locks) -> Result<(), Stop> {
    match command {
        Locks::Ls { queue } => ls(context, queue.name()).await,
        Locks::Free { queue, key } => free(context, queue.name(), &key).await,
    }
}

async fn ls(context: &Context, queue: &str) -> Result<(), Stop> {
    let locks = context.client.control(queue).locks(MOST).await?;
    let titles = ["KEY", "STATE", "ID", "UNTIL", "FOLLOWER"];
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    context.output.rows(&titles, &locks, |lock| {
        vec![
            lock.key.clone(),
            lock.state.map_or("ended", hworker::JobState::name).to_owned(),
            lock.id.to_string(),
            or_none(lock.until.map(utc)),
            or_none(lock.follower.as_ref().map(ToString::to_string)),
        ]
    })
}

async fn free(context: &Context, queue: &str, key: &str) -> Result<(), Stop> {
    let freed = context
        .audited("unlock", queue, &format!("the key {key}"), async {
            let freed = context.client.control(queue).unlock(key).await?;
            Ok((freed, format!("freed {}", u8::from(freed))))
        })
        .await?;
    if !freed {
        return Err(nobody_holds(queue, key));
    }
    let json = json!({ "queue": queue, "key": key, "freed": freed });
    let lines =
        [("queue", queue.to_owned()), ("key", key.to_owned()), ("state", "free".to_owned())];
    context.output.one(&json, &lines)
}

/// Who asks for the key of nobody is told so.
pub(crate) fn nobody_holds(queue: &str, key: &str) -> Stop {
    Stop::not_found(format!("no job of {queue} holds the key {key}"))
}
