//! What a program tells that is no worker.

use super::line::Line;
use crate::client::Client;
use crate::hooks::{EventKind, Events};
use crate::log::say;
use crate::store::Queue;

impl Client {
    /// Writes that this happened to these jobs, each with its type and its id, where this client writes such events. What the server does not take is
    /// lost: what happened stands.
    pub(crate) async fn tell<'a>(
        &self,
        queue: &Queue,
        kind: EventKind,
        jobs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) {
        let which = if kind == EventKind::Enqueued { Events::All } else { Events::Ends };
        if self.writes_events() < which {
            return;
        }
        let lines = jobs.into_iter().map(|(job, id)| Line::new(kind, Some(job), Some(id)).text());
        let lines: Vec<_> = lines.collect();
        let told = async {
            let on = self.connection(queue).await?;
            queue.tell_events(&on, "", &lines).await
        };
        if let Err(fault) = told.await {
            say!(DEBUG, { queue = queue.name.clone() },
                job.queue = %queue, events = lines.len(), "events are not written, and lost: {fault}");
        }
    }
}
