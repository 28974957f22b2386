//! The names of the queues, as every page needs them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::problem::Problem;
use crate::client::Client;

/// Lists that no worker and no producer of ours told of are looked for so often.
const EVERY: Duration = Duration::from_secs(30);

/// The names of the queues. Those in the registry are asked for each time. Lists that only programs in other languages fill are looked for among
/// all keys of the server, which may be many and not ours: beside the pages, and now and then.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<Listed>);

#[derive(Debug, Default)]
struct Listed {
    names: BTreeSet<String>,
    looked: Option<Instant>,
}

impl Names {
    /// All that are known, in order.
    pub(super) async fn all(self: &Arc<Self>, client: &Client) -> Result<Vec<String>, Problem> {
        let registered = client.registered_queues().await;
        let registered = registered.map_err(|fault| fault.into_error("list the queues"))?;
        let mut names = self.listed(client);
        names.extend(registered.into_keys());
        Ok(names.into_iter().collect())
    }

    /// What was found at the last look; another one begins where that is long ago.
    fn listed(self: &Arc<Self>, client: &Client) -> BTreeSet<String> {
        let mut listed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if listed.looked.is_none_or(|looked| looked.elapsed() >= EVERY) {
            listed.looked = Some(Instant::now());
            tokio::spawn(Arc::clone(self).look(client.clone()));
        }
        listed.names.clone()
    }

    async fn look(self: Arc<Self>, client: Client) {
        // Where the server does not let it, the registry is all that there is.
        let Ok(found) = client.listed_queues().await else { return };
        let mut listed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listed.names = found.into_keys().collect();
        listed.looked = Some(Instant::now());
    }
}
