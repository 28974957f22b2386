//! A mailing to the members of a reading club: one job per recipient, put on the queue by a web server and sent over
//! SMTP by a worker.
//!
//! `mailing demo` shows all of it on this machine and kills the worker half-way. By hand, each in a terminal of its
//! own, with `redis-server` running:
//!
//! ```sh
//! mailing sink      # a mail server that only counts
//! mailing worker
//! mailing web
//! mailing members --count 1000 | curl --data-binary @- http://127.0.0.1:8080/mailings
//! ```

mod demo;
mod jobs;
mod members;
mod sink;
mod web;
mod worker;

use std::env;
use std::io::Write;
use std::net::SocketAddr;
use std::str::FromStr;

use anyhow::{Context, bail};
use tokio::net::TcpListener;

const USAGE: &str = "\
usage: mailing demo    [--recipients 30000]
       mailing web     [--listen 127.0.0.1:8080]
       mailing worker  [--smtp 127.0.0.1:2525]
       mailing sink    [--listen 127.0.0.1:2525]
       mailing members [--count 30000]

web and worker find Redis by HWORKER_REDIS_URL, by default redis://127.0.0.1:6379";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let mut options = Options(args.collect());
    match command.as_str() {
        "demo" => {
            let recipients = options.last("--recipients", 30_000)?;
            demo::run(recipients).await
        }
        "web" => {
            let address: SocketAddr = options.last("--listen", ([127, 0, 0, 1], 8080).into())?;
            web::serve(TcpListener::bind(address).await?).await
        }
        "worker" => {
            let smtp = options.last("--smtp", ([127, 0, 0, 1], 2525).into())?;
            worker::run(smtp).await
        }
        "sink" => {
            let address: SocketAddr = options.last("--listen", ([127, 0, 0, 1], 2525).into())?;
            sink::serve_and_count(TcpListener::bind(address).await?).await
        }
        "members" => {
            let count = options.last("--count", 30_000)?;
            let csv = members::to_csv(members::sample(count))?;
            Ok(std::io::stdout().write_all(&csv)?)
        }
        _ => bail!("{USAGE}"),
    }
}

/// What follows the command.
struct Options(Vec<String>);

impl Options {
    /// The value of the one option that a command has.
    fn last<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(
        &mut self,
        name: &str,
        default: T,
    ) -> anyhow::Result<T> {
        match self.0.as_slice() {
            [] => Ok(default),
            [option, value] if option == name => {
                value.parse().with_context(|| format!("{name} {value}"))
            }
            _ => bail!("{USAGE}"),
        }
    }
}
