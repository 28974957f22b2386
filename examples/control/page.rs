//! The page of the shop, for this machine alone.

use std::future::pending;
use std::io::ErrorKind;

use hworker::web::{Access, Web};
use hworker::{Client, Error};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const USUAL: &str = "127.0.0.1:7700";

/// Serves the page until the program ends, at the usual address if that is free.
pub async fn serve(client: Client) -> anyhow::Result<JoinHandle<Result<(), Error>>> {
    let listener = match TcpListener::bind(USUAL).await {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            println!("{USUAL} is taken, so the page is elsewhere");
            TcpListener::bind("127.0.0.1:0").await?
        }
        listener => listener?,
    };
    println!("the page is at http://{}/", listener.local_addr()?);
    let web = Web::new(client).access(Access::local());
    Ok(tokio::spawn(web.serve(listener, pending())))
}
