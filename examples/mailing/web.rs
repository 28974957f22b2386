//! The web server: takes a CSV file of members and puts one job per member on the queue.

use std::io::Cursor;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::routing::post;
use hworker::{Bulk, Error};
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

/// All letters are enqueued, or none: a file that is broken in its middle reaches nobody. Lines are read while others are on their way to Redis.
async fn start_mailing(csv: Bytes) -> (StatusCode, String) {
    let mut members = members::from_csv(Cursor::new(csv));
    let next = async move || Ok(members.next().transpose()?.map(send_letter::with));
    match Bulk::from_async(next).all_or_nothing().enqueue().await {
        Ok(count) => (StatusCode::ACCEPTED, format!("{count} letters are on their way\n")),
        Err(error @ Error::Stopped { .. }) => (StatusCode::BAD_REQUEST, format!("{error}\n")),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}
