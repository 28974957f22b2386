//! The keys that unique jobs hold.

use serde::Serialize;

use super::Control;
use crate::envelope::JobId;
use crate::error::Error;
use crate::job_state::JobState;
use crate::store::HeldKey;

/// So many are read at once.
const AT_ONCE: u64 = 500;

/// A key that a unique job holds; [`Control::locks`] lists them. Not to be confused with a [`Lock`](crate::Lock), which code takes.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct LockInfo {
    /// The scope and the key, as the server keeps them: a key that is long, or made of all arguments, is a digest.
    pub key: String,
    /// The job that holds it.
    #[cfg_attr(feature = "web", schema(value_type = String))]
    pub id: JobId,
    /// In which state that is; `None` where it has ended, and its period has not.
    pub state: Option<JobState>,
    /// Until when it holds the key, in milliseconds since 1970 by the server's clock, where that is not until it starts or has ended.
    pub until: Option<u64>,
    /// The job that follows it.
    #[cfg_attr(feature = "web", schema(value_type = Option<String>))]
    pub follower: Option<JobId>,
}

impl LockInfo {
    /// None where the job that held it, or its period, has ended.
    fn of(held: HeldKey, now: u64) -> Option<Self> {
        let holds = held.until.map_or(held.stands.is_some(), |until| until > now);
        holds.then(|| Self {
            key: held.key,
            id: held.id.into(),
            state: held.stands.map(JobState::of_standing),
            until: held.until,
            follower: held.follower.map(JobId::from),
        })
    }
}

impl Control {
    /// The keys that unique jobs of the queue hold, at most so many, in no order. One whose job or period has ended is left out, as it
    /// holds nothing.
    ///
    /// ```no_run
    /// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
    /// for lock in client.control("default").locks(100).await? {
    ///     println!("{} {} {:?}", lock.key, lock.id, lock.state);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] for a name that is none; else where the server cannot be asked.
    pub async fn locks(&self, at_most: usize) -> Result<Vec<LockInfo>, Error> {
        let mut locks = Vec::new();
        for shard in self.shards()? {
            let read = async {
                let on = self.client.connection_to_inspect(&shard).await?;
                let now = crate::store::server_time(&on).await?;
                let mut place = Some((0, 0));
                while let Some(from) = place.filter(|_| locks.len() < at_most) {
                    let (some, next) = shard.held_keys(&on, from, AT_ONCE).await?;
                    place = next;
                    locks.extend(some.into_iter().filter_map(|held| LockInfo::of(held, now)));
                }
                Ok(())
            };
            read.await.map_err(|fault| self.error("list the locks of", fault))?;
        }
        locks.truncate(at_most);
        Ok(locks)
    }

    /// Who holds a key, as [`LockInfo::key`] has it; `None` where nobody does.
    ///
    /// ```no_run
    /// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
    /// if let Some(lock) = client.control("default").lock("import:7").await? {
    ///     client.inspect("default").cancel(&lock.id).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`locks`](Self::locks).
    pub async fn lock(&self, key: &str) -> Result<Option<LockInfo>, Error> {
        for shard in self.shards()? {
            let read = async {
                let on = self.client.connection_to_inspect(&shard).await?;
                let now = crate::store::server_time(&on).await?;
                let held = shard.held_key(&on, key).await?;
                Ok(held.and_then(|held| LockInfo::of(held, now)))
            };
            let lock = read.await.map_err(|fault| self.error("look for a lock of", fault))?;
            if lock.is_some() {
                return Ok(lock);
            }
        }
        Ok(None)
    }

    /// Frees a key, as [`LockInfo::key`] has it; false where nobody holds it. The job that held it goes on, and one that follows it runs as
    /// any other.
    ///
    /// # Errors
    /// [`Error::Unanswered`] where the answer was lost; else as [`locks`](Self::locks).
    pub async fn unlock(&self, key: &str) -> Result<bool, Error> {
        let mut was_held = false;
        for shard in self.shards()? {
            let unlocked = async {
                let on = self.client.connection_to_inspect(&shard).await?;
                shard.unlock(&on, key).await
            };
            was_held |= unlocked.await.map_err(|fault| self.error("free a key of", fault))?;
        }
        Ok(was_held)
    }
}
