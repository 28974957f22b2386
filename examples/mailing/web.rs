//! The web server: takes a CSV file of members and puts one job per member on the queue.

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::routing::post;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::net::TcpListener;

use crate::jobs::send_letter;
use crate::members;

pub async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    println!("http://{}/mailings", listener.local_addr()?);
    let routes = Router::new()
        .route("/mailings", post(start_mailing))
        .layer(DefaultBodyLimit::max(64 << 20));
    Ok(axum::serve(listener, routes).await?)
}

/// Enqueues at a time: they share a connection, and each waits only for its own answer.
const AT_A_TIME: usize = 256;

async fn start_mailing(csv: Bytes) -> (StatusCode, String) {
    let members = match members::from_csv(&csv) {
        Ok(members) => members,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")),
    };
    let enqueued = stream::iter(members)
        .map(send_letter::enqueue)
        .buffer_unordered(AT_A_TIME)
        .try_fold(0, async |count, _| Ok(count + 1));
    match enqueued.await {
        Ok(count) => (StatusCode::ACCEPTED, format!("{count} letters are on their way\n")),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("not all are enqueued: {error}\n")),
    }
}
