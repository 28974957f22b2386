//! One server whose jobs are shown.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::sync::broadcast::Receiver;
use tokio_util::sync::CancellationToken;

use super::api::{Live, Tick};
use super::guard::Asked;
use super::names::Names;
use super::problem::Problem;
use crate::client::Client;
use crate::envelope::JobId;
use crate::inspect::JobInfo;

/// So many jobs are looked for at once: one that is not there has its whole queue read.
const FINDS: usize = 2;

/// One server whose jobs are shown, as all requests see it.
pub(super) struct Site {
    pub(super) client: Client,
    /// Its short name, where there are several.
    pub(super) name: String,
    /// Its path below the mount: none where it is the only one.
    pub(super) prefix: String,
    /// The names of all servers.
    pub(super) servers: Vec<String>,
    pub(super) read_only: bool,
    pub(super) stop: CancellationToken,
    live: Arc<Live>,
    names: Arc<Names>,
    finds: Semaphore,
}

impl Site {
    pub(super) fn new(
        client: Client,
        name: String,
        prefix: String,
        servers: &[String],
        read_only: bool,
        stop: &CancellationToken,
    ) -> Self {
        let (servers, stop) = (servers.to_vec(), stop.clone());
        Self {
            client,
            name,
            prefix,
            servers,
            read_only,
            stop,
            live: Arc::default(),
            names: Arc::default(),
            finds: Semaphore::new(FINDS),
        }
    }

    /// The names of all queues that are known.
    pub(super) async fn queue_names(&self) -> Result<Vec<String>, Problem> {
        self.names.all(&self.client).await
    }

    /// The job with this id, wherever on the queue it is.
    pub(super) async fn find(&self, queue: &str, id: &JobId) -> Result<Option<JobInfo>, Problem> {
        // Never closed.
        let _one_of_few = self.finds.acquire().await.ok();
        Ok(self.client.inspect(queue).find(id).await?)
    }

    /// Listens to what changes; `None` where too many do.
    pub(super) fn listen(&self) -> Option<(Receiver<Tick>, u64)> {
        self.live.listen(&self.client, &self.names)
    }

    /// The path of the page's begin, as browsers see it, without a slash behind it.
    pub(super) fn base(&self, asked: &Asked) -> String {
        format!("{}{}", asked.mount, self.prefix)
    }

    /// Whether somebody may do something here, so that what he may not is not shown.
    pub(super) fn may(&self, asked: &Asked, action: &str, queue: &str) -> bool {
        !self.read_only && asked.operator.may(action, queue)
    }
}
