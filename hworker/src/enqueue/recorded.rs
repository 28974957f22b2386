//! Jobs that a test enqueues, which its recorder keeps.

use super::blocking::in_a_runtime;
use super::ready::{Placed, Ready};
use crate::client::{Recorded, Recorder};
use crate::envelope::JobId;
use crate::error::Error;

/// What is said of what a test has no server for.
const NEEDS_A_SERVER: &str =
    "in a test this needs a server: call `kit.with_server().await?` before it";

impl Ready {
    /// A job that is to be sent, or what its enqueue gives where the recorder of the test has it.
    pub(super) async fn sent(self) -> Result<Self, Placed> {
        let ready = self;
        let Some(recorder) = Recorder::here() else { return Ok(ready) };
        let (id, shard, client) = (ready.id.clone(), (&*ready.queue).into(), ready.client.clone());
        let (job, again) = (recorded(&ready), ready.again());
        let unsent = Box::new(move |client| -> std::pin::Pin<Box<dyn Future<Output = _> + Send>> {
            let ready = Ready { client, ..again };
            Box::pin(async move { ready.send_to_server(in_a_runtime()?).await.map(drop) })
        });
        if recorder.keep(job, unsent).await {
            Ok(ready)
        } else {
            Err(Placed::new(id, shard, client))
        }
    }
}

/// As [`Ready::sent`], of a bulk: its jobs, or their ids.
pub(super) async fn all_sent(bulk: Vec<Ready>) -> Result<Vec<Ready>, Vec<JobId>> {
    let (mut sent_on, mut ids) = (Vec::new(), Vec::new());
    for ready in bulk {
        ids.push(ready.id.clone());
        sent_on.extend(ready.sent().await.ok());
    }
    if sent_on.is_empty() { Err(ids) } else { Ok(sent_on) }
}

/// Refuses what is recorded by nobody.
pub(super) fn check_server() -> Result<(), Error> {
    let has_none = Recorder::here().is_some_and(|recorder| recorder.state().server.is_none());
    if has_none { Err(Error::config(NEEDS_A_SERVER)) } else { Ok(()) }
}

/// Notes members of a batch.
pub(super) fn note(members: &[Ready]) {
    if let Some(recorder) = Recorder::here() {
        recorder.state().recorded.extend(members.iter().map(recorded));
    }
}

fn recorded(ready: &Ready) -> Recorded {
    Recorded {
        id: ready.id.clone(),
        job: ready.job.to_string(),
        queue: ready.queue.to_string(),
        due: ready.due,
        priority: ready.place.list.priority,
        envelope: ready.envelope.clone(),
        client: ready.client.clone(),
    }
}
