//! What changes, as a stream: one look at the server serves all who listen, and nobody listening costs nothing.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{Stream, unfold};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::live::Tick;
use crate::web::problem::Problem;
use crate::web::site::Site;

/// A stream ends after this; its page opens another.
const LASTS: Duration = Duration::from_secs(3600);

/// A comment is sent so often, so that a proxy does not take the stream for dead.
const PING: Duration = Duration::from_secs(15);

/// The counts of all queues every two seconds, as server-sent events: `tick` with `{number, at, queues}`, `resync` where some were missed.
#[utoipa::path(
    get, path = "/events", tag = "server", responses((status = 200, content_type = "text/event-stream", body = String))
)]
pub(super) async fn events(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let listens = site.listen();
    let (receiver, last) = listens.ok_or_else(|| Problem::limited("too many streams are open"))?;
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<u64>().ok());
    let is_behind = seen.is_some_and(|seen| seen != last);
    let stream = ticks(receiver, is_behind, site.stop.clone());
    // A proxy that collects what it passes on would hold it back.
    let headers = [(HeaderName::from_static("x-accel-buffering"), "no")];
    Ok((headers, Sse::new(stream).keep_alive(KeepAlive::new().interval(PING))))
}

fn ticks(
    receiver: Receiver<Tick>,
    is_behind: bool,
    stop: CancellationToken,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let until = tokio::time::Instant::now() + LASTS;
    unfold((receiver, is_behind), move |(mut receiver, is_behind)| {
        let stop = stop.clone();
        async move {
            if is_behind {
                return Some((Ok(resync()), (receiver, false)));
            }
            let next = tokio::select! {
                next = receiver.recv() => next,
                () = stop.cancelled() => return None,
                () = tokio::time::sleep_until(until) => return None,
            };
            let event = match next {
                Ok(Tick { number, json }) => {
                    Event::default().event("tick").id(number.to_string()).data(json)
                }
                Err(RecvError::Lagged(_)) => resync(),
                Err(RecvError::Closed) => return None,
            };
            Some((Ok(event), (receiver, false)))
        }
    })
}

fn resync() -> Event {
    Event::default().event("resync").data("{}")
}
