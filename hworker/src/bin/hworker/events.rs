//! What happens to the jobs of a queue.

use hworker::{Event, EventPosition};
use serde::Serialize;

use crate::Context;
use crate::args::Events;
use crate::rows::utc;
use crate::stop::Stop;

/// An event, and where to go on behind it.
#[derive(Serialize)]
struct Row<'a> {
    position: &'a EventPosition,
    #[serde(flatten)]
    event: &'a Event,
}

pub(crate) async fn run(context: &Context, which: Events) -> Result<(), Stop> {
    let mut events = context.client.events(which.queue.name()).from(which.from);
    if !which.kinds.is_empty() {
        events = events.kinds(which.kinds);
    }
    loop {
        let event = if which.follow {
            events.next().await?
        } else {
            match events.next_kept().await? {
                Some(event) => event,
                None => return Ok(()),
            }
        };
        let row = Row { position: events.position(), event: &event };
        context.output.line(&row, &line(&event))?;
    }
}

fn line(event: &Event) -> String {
    let attempt = event.attempt.map(|attempt| format!(" #{attempt}"));
    let elapsed = event.elapsed.map(|elapsed| format!(" after {} ms", elapsed.as_millis()));
    let worker = event.worker.as_ref().map(|worker| format!(" on {worker}"));
    let message = event.message.as_ref().map(|message| format!(": {message}"));
    let unsure = event.unsure.then(|| " (unsure)".to_owned());
    let parts = [attempt, elapsed, worker, unsure, message].map(Option::unwrap_or_default);
    let (job, id) = (event.job.as_deref().unwrap_or("-"), event.id.as_ref());
    let id = id.map_or_else(|| "-".to_owned(), ToString::to_string);
    format!("{} {} {job} {id}{}", utc(event.at), event.kind, parts.concat())
}
