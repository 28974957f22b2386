//! Serves the page for operators.

use std::future::pending;

use hworker::Client;
use hworker::web::{Access, Web};
use tokio::net::TcpListener;

use crate::args::{Args, WebArgs};
use crate::output::tell;
use crate::stop::Stop;

pub(crate) async fn run(args: &Args, web: &WebArgs) -> Result<(), Stop> {
    let mut servers: Vec<(String, Client)> = Vec::new();
    for server in &web.server {
        let wrong = || {
            Stop::usage(format!("`{server}` is not of the form `prod=redis://prod.internal:6379`"))
        };
        let (name, url) = server.split_once('=').ok_or_else(wrong)?;
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        if !is_name(name) || servers.iter().any(|(known, _)| known == name) {
            return Err(wrong());
        }
        servers.push((name.to_owned(), args.connect_to(Some(url))?.0));
    }
    let access = match &web.token_file {
        Some(file) => Access::token(read_token(file)?),
        None => Access::local(),
    };
    let page =
        if servers.is_empty() { Web::new(args.connect()?.0) } else { Web::of_servers(servers) };
    let mut page = page.access(access);
    if web.read_only {
        page = page.read_only();
    }
    if let Some(mount) = &web.mount {
        page = page.mount(mount);
    }
    let cannot = |error| Stop::failed(format!("cannot listen at {}: {error}", web.listen));
    let listener = TcpListener::bind(web.listen).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    tell(&format!("the page is at http://{address}/"));
    Ok(page.serve(listener, terminated()).await?)
}

fn read_token(file: &str) -> Result<String, Stop> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| Stop::usage(format!("could not read {file}: {error}")))?;
    match text.trim() {
        "" => Err(Stop::usage(format!("{file} has no token in it"))),
        token => Ok(token.to_owned()),
    }
}

async fn terminated() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            terminate.recv().await;
            return;
        }
    }
    pending::<()>().await;
}
