//! A web server and a worker in one process. With `redis-server` running:
//!
//! ```sh
//! web-and-worker 127.0.0.1:8080
//! curl -X POST http://127.0.0.1:8080/greet/Ada
//! ```
//!
//! The program hears SIGTERM and tells both. `tokio::spawn(hworker::run_all())` beside the server would take the signal from
//! the whole process: the worker would stop, and the server serve on.

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::post;
use hworker::Worker;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

#[hworker::job]
async fn greet(name: String) {
    println!("hello, {name}");
}

async fn greet_soon(Path(name): Path<String>) -> (StatusCode, String) {
    match greet::enqueue(name).await {
        Ok(id) => (StatusCode::ACCEPTED, format!("{id}\n")),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // `run_until` leaves the log to the program too.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:8080".into());
    let listener = TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);

    let (stop, stopping) = watch::channel(false);
    let routes = Router::new().route("/greet/{name}", post(greet_soon));
    let server = axum::serve(listener, routes).with_graceful_shutdown(told(stopping.clone()));
    let worker = Worker::builder().build()?.run_until(told(stopping));
    let signals = async {
        signalled().await?;
        stop.send_replace(true);
        Ok(())
    };
    // Where one of them fails, the program ends.
    tokio::try_join!(
        async { server.await.map_err(anyhow::Error::from) },
        async { worker.await.map_err(anyhow::Error::from) },
        signals,
    )?;
    println!("the server and the worker have stopped");
    Ok(())
}

async fn told(mut stopping: watch::Receiver<bool>) {
    // An error would mean that the program ends.
    let _ = stopping.wait_for(|stop| *stop).await;
}

async fn signalled() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
    }
}
