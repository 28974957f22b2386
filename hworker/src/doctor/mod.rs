//! The doctor: looks for what is wrong with servers, rights and queues, says what to do, and mends what it can.

mod finding;
mod queue;
mod repair;
mod rights;
mod server;

use finding::Findings;

use crate::client::Client;
use crate::error::Error;
use crate::store::{Fault, MetaKey, types};

pub use finding::{Finding, Severity};
pub use repair::Repair;

impl Client {
    /// Looks at the servers, the rights of this client's user, and every queue. Nothing is changed.
    ///
    /// ```no_run
    /// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
    /// for finding in client.doctor().await? {
    ///     println!("{} {}: {}", finding.severity, finding.about, finding.text);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Where a server cannot be asked. What the user may not see is skipped.
    pub async fn doctor(&self) -> Result<Vec<Finding>, Error> {
        let mut findings = Findings::default();
        let looked = self.look_at_all(&mut findings).await;
        looked.map_err(|fault| fault.at(self.address()).into_error("look at the servers"))?;
        Ok(findings.0)
    }

    async fn look_at_all(&self, findings: &mut Findings) -> Result<(), Fault> {
        let servers = self.servers().await?;
        let mut clocks = Vec::new();
        for on in &servers {
            clocks.push(server::look(findings, on).await?);
        }
        server::compare_clocks(findings, &clocks);
        if let Some(first) = servers.first() {
            rights::look(findings, first, &self.key_space().prefix).await?;
        }
        for key in MetaKey::ALL {
            let (meta, on) = self.meta(key).await?;
            let (key, wanted) = meta.typed(key);
            let found = findings.look("keys", types(&on, &[key]).await)?;
            let Some([found]) = found.as_deref() else { break };
            findings.check_type("keys", None, (key, wanted, found));
        }
        queue::look_at_all(findings, self).await
    }

    /// Mends what was found. Gives how many jobs, records or keys that changed; 0 where it was mended since.
    ///
    /// # Errors
    /// Where a server cannot be asked, or refuses.
    pub async fn repair(&self, repair: &Repair) -> Result<u64, Error> {
        let mended = repair.mend(self).await;
        mended.map_err(|fault| fault.at(self.address()).into_error_of_change(repair.to_string()))
    }
}
