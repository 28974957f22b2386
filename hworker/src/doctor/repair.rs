//! What the doctor can mend.

use std::fmt;
use std::time::SystemTime;

use serde::{Serialize, Serializer};

use crate::client::Client;
use crate::limit::List;
use crate::store::{Connection, Fault, MetaKey, Queue, set_aside};
use crate::time::local_unix_ms;

/// What mends a finding; [`Client::repair`] does it, and its text says what that does.
#[derive(Debug, Clone)]
pub struct Repair {
    what: What,
    /// None of a key that belongs to all queues.
    queue: Option<Queue>,
}

#[derive(Debug, Clone)]
enum What {
    Promote,
    Records,
    Husks,
    Orphans,
    /// Those beside the plain one.
    Lists(Vec<List>),
    /// The key, and the type that it should have.
    SetAside(String, &'static str),
}

impl Repair {
    pub(super) fn promote(queue: &Queue) -> Self {
        Self { what: What::Promote, queue: Some(queue.clone()) }
    }

    pub(super) fn records(queue: &Queue) -> Self {
        Self { what: What::Records, queue: Some(queue.clone()) }
    }

    pub(super) fn husks(queue: &Queue) -> Self {
        Self { what: What::Husks, queue: Some(queue.clone()) }
    }

    pub(super) fn orphans(queue: &Queue) -> Self {
        Self { what: What::Orphans, queue: Some(queue.clone()) }
    }

    pub(super) fn lists(queue: &Queue, lists: &[List]) -> Self {
        Self { what: What::Lists(lists.to_vec()), queue: Some(queue.clone()) }
    }

    pub(super) fn set_aside(key: &str, wanted: &'static str, queue: Option<&Queue>) -> Self {
        Self { what: What::SetAside(key.to_owned(), wanted), queue: queue.cloned() }
    }

    /// Whether it mends the audit, to which nothing can be written before.
    #[must_use]
    pub fn is_of_audit(&self) -> bool {
        let ends = |key: &str| key.ends_with("-meta:audit") || key.ends_with("-meta:{audit}");
        self.queue.is_none() && matches!(&self.what, What::SetAside(key, _) if ends(key))
    }

    pub(super) async fn mend(&self, client: &Client) -> Result<u64, Fault> {
        let Some(queue) = &self.queue else {
            let What::SetAside(key, wanted) = &self.what else { return Ok(0) };
            for meta in MetaKey::ALL {
                let (all, on) = client.meta(meta).await?;
                if all.typed(meta).0 == key {
                    return rename(&on, key, wanted).await;
                }
            }
            return Ok(0);
        };
        let on = client.connection_to_inspect(queue).await?;
        match &self.what {
            What::SetAside(key, wanted) => rename(&on, key, wanted).await,
            What::Lists(lists) => queue.relist(&on, lists, true).await,
            What::Orphans => {
                let (waiting, gone) = queue.orphans(&on, true).await?;
                Ok(waiting + gone)
            }
            What::Records => queue.mend_records(&on).await,
            What::Husks => {
                let (found, counted) = queue.recount(&on, true).await?;
                Ok(found.map_or(0, |found| found.abs_diff(counted)))
            }
            What::Promote => {
                let mut promoted = 0;
                loop {
                    match queue.promote(&on, None).await?.moved {
                        0 => return Ok(promoted),
                        moved => promoted += moved,
                    }
                }
            }
        }
    }
}

impl Serialize for Repair {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.what, &self.queue) {
            (What::SetAside(key, _), _) => write!(f, "rename the key {key} to {key}:aside:<time>"),
            (What::Promote, Some(queue)) => write!(f, "let the due jobs of {} run", queue.name),
            (What::Records, Some(queue)) => write!(
                f,
                "give the records of {} their places back, and drop places without a record",
                queue.name
            ),
            (What::Lists(_), Some(queue)) => {
                write!(f, "have workers look into all lists of {}", queue.name)
            }
            (What::Orphans, Some(queue)) => write!(
                f,
                "have the jobs of {} that stand nowhere wait again, and free the keys of those that are gone",
                queue.name
            ),
            (What::Husks, Some(queue)) => write!(f, "recount the deleted jobs of {}", queue.name),
            (_, None) => Ok(()),
        }
    }
}

/// Gives a key that is of another type a name at which nobody looks. Behind the colon it is still a key of its queue, which goes with it.
async fn rename(on: &Connection, key: &str, wanted: &str) -> Result<u64, Fault> {
    set_aside(on, key, wanted, &format!("{key}:aside:{}", local_unix_ms(SystemTime::now()))).await
}
