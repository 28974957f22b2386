//! What a cluster and the servers that sentinels watch have in common for a test.

use std::path::Path;
use std::time::Duration;

use hworker::{Client, ClientBuilder, JobId, WorkerBuilder};
use tempfile::TempDir;

use crate::eventually::{eventually, eventually_async};
use crate::jobs::{Act, act};
use crate::node::Node;
use crate::process::Process;
use crate::server::TestServer;

/// Servers that belong together, and one beside them where bodies note their runs. When a test fails, they print what they
/// hold and the ends of their logs.
pub struct Several {
    // Before the directory: they end first.
    pub(crate) nodes: Vec<Node>,
    url: String,
    client: Client,
    notes: TestServer,
    _dir: TempDir,
}

impl Several {
    /// These servers, which hworker finds by this URL, and where they keep what they hold.
    pub(crate) fn new(servers: Vec<Node>, url: String, dir: TempDir, keep: Option<&Path>) -> Self {
        let client = Client::new(url.clone()).expect("the client of a test's servers");
        let notes = TestServer::builder().alone().keep_in(keep).start();
        Self { nodes: servers, url, client, notes, _dir: dir }
    }

    /// The URL of hworker for them.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A client for them, without shards.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Settings of another client.
    pub fn client_builder(&self) -> ClientBuilder {
        Client::builder().redis_url(self.url())
    }

    /// The server beside them, with what the bodies noted.
    pub fn notes(&self) -> &TestServer {
        &self.notes
    }

    /// A worker process with every job of this crate.
    pub fn worker_process(&self, settings: &[(&str, &str)]) -> Process {
        self.notes.worker_process(&[&[("HWORKER_REDIS_URL", self.url())], settings].concat())
    }

    /// Settings of a worker in this process that knows no job yet.
    pub fn worker(&self) -> WorkerBuilder {
        self.notes.worker().client(&self.client)
    }

    /// Enqueues a job [`act`](fn@crate::act).
    pub async fn enqueue(&self, name: &str, plan: Vec<Vec<Act>>) -> JobId {
        let job = act::with(name.into(), plan).on(&self.client);
        job.enqueue().await.unwrap_or_else(|error| panic!("{error}\n{}", self.report()))
    }

    /// Waits until a condition holds.
    ///
    /// # Panics
    /// When it does not within the time; with everything that the servers hold.
    #[track_caller]
    pub fn eventually(&self, what: &str, within: Duration, holds: impl FnMut() -> bool) {
        eventually(what, within, || self.report(), holds);
    }

    /// Waits until a condition holds that has to be awaited.
    ///
    /// # Panics
    /// As [`Self::eventually`].
    pub async fn eventually_async(
        &self,
        what: &str,
        within: Duration,
        holds: impl AsyncFnMut() -> bool,
    ) {
        eventually_async(what, within, || self.report(), holds).await;
    }

    /// Everything that the servers hold, and the ends of their logs.
    pub fn report(&self) -> String {
        self.nodes.iter().map(Node::report).collect()
    }
}

impl Drop for Several {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.report());
        }
    }
}

/// A directory for one test: one that goes with it, or, where it is to be looked at afterwards, one of this name in `keep`.
pub(crate) fn directory(name: &str, keep: Option<&Path>) -> TempDir {
    let Some(keep) = keep else { return TempDir::new().expect("a directory for the test") };
    let made = std::fs::create_dir_all(keep).and_then(|()| {
        // What an earlier run left there would be loaded.
        tempfile::Builder::new().prefix(name).rand_bytes(0).disable_cleanup(true).tempdir_in(keep)
    });
    made.unwrap_or_else(|error| panic!("{}: {error}", keep.join(name).display()))
}
