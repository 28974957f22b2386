//! Locks that programs hold together, for a time.

use std::time::Duration;

use crate::client::Client;
use crate::error::Error;
use crate::keys::check_name;
use crate::runtime;
use crate::shards;
use crate::store::{Fault, lock};
use crate::time::millis;

/// A lock that this program holds; [`Client::lock`] takes one. It ends when its time is over, or when it is released: dropping it does
/// nothing.
#[derive(Debug)]
#[must_use = "the lock is held until its time is over"]
pub struct Lock {
    client: Client,
    name: String,
    token: String,
}

impl Client {
    /// Takes a lock for so long, if nobody has it: one `SET` that expires, with a token of its own. `None` where somebody else has it.
    ///
    /// It is for code that should not run twice at once, and survives if it does: a holder that stands still for longer than its time, or a
    /// failover of the server, lets another take the lock. What must never run twice at once needs a fencing token that the resource checks,
    /// as [`Context::token`](crate::Context::token) is one for jobs.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
    /// let Some(lock) = client.lock("nightly-import", Duration::from_secs(60)).await? else {
    ///     return Ok(()); // another does it
    /// };
    /// // For as long as it takes: a part of the work, then
    /// if !lock.extend(Duration::from_secs(60)).await? {
    ///     return Ok(()); // it was too late
    /// }
    /// lock.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] for a name that is not of the form `[A-Za-z0-9._-]{1,100}`, or no time at all; [`Error::Unanswered`] where the
    /// answer was lost: the lock may be taken until its time is over.
    pub async fn lock(&self, name: &str, time: Duration) -> Result<Option<Lock>, Error> {
        check_name("lock", name).map_err(Error::config)?;
        let token = uuid::Uuid::new_v4().simple().to_string();
        let lock = Lock { client: self.clone(), name: name.to_owned(), token };
        Ok(lock.ask(time, "take").await?.then_some(lock))
    }
}

impl Lock {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Holds it for so long from now. False where its time was over: somebody else may have it.
    ///
    /// # Errors
    /// As [`Client::lock`]; with [`Error::Unanswered`] it ends now or later.
    pub async fn extend(&self, time: Duration) -> Result<bool, Error> {
        self.ask(time, "keep").await
    }

    /// Gives it back. False where its time was over before.
    ///
    /// # Errors
    /// As [`Client::lock`]; with [`Error::Unanswered`] it ends by itself at the latest.
    pub async fn release(self) -> Result<bool, Error> {
        self.call(0, "keep").await
    }

    async fn ask(&self, time: Duration, what: &str) -> Result<bool, Error> {
        match millis(time) {
            0 => Err(Error::config("a lock of no time is none; write how long it is held")),
            ms => self.call(ms.min(1 << 52), what).await,
        }
    }

    async fn call(&self, ms: u64, what: &str) -> Result<bool, Error> {
        runtime::current("a lock was asked for outside a tokio runtime; await it inside one")?;
        let asked = async {
            let on = self.client.connection_to_slot(shards::slot(&self.name)).await?;
            let key = self.client.key_space().lock(&self.name);
            lock(&on, &key, &self.token, ms, what).await
        };
        asked.await.map_err(|fault: Fault| {
            let fault = fault.at(self.client.address());
            fault.into_error_of_change(format!("{what} the lock {}", self.name))
        })
    }
}
