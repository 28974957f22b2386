//! What the server is, and whether it is set up to keep jobs.

use super::connection::{Connection, NO_ARGUMENTS};
use super::fault::{Fault, FaultKind};

/// The oldest Redis that has what the scripts use (`LMOVE`, `HRANDFIELD`), and in which `CLIENT REPLY SKIP` holds for a command that
/// blocks.
const OLDEST: (u32, u32, u32) = (6, 2, 2);

/// What `INFO` says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    /// The version of Redis whose commands it has; Valkey reports 7.2.4.
    version: String,
    eviction: String,
}

impl ServerInfo {
    fn parse(info: &str) -> Self {
        let field = |name: &str| {
            let mut fields = info.lines().filter_map(|line| line.trim_end().split_once(':'));
            fields
                .find(|(field, _)| *field == name)
                .map(|(_, value)| value.to_owned())
                .unwrap_or_default()
        };
        Self { version: field("redis_version"), eviction: field("maxmemory_policy") }
    }

    /// Why the server cannot be used, where it is too old.
    pub(crate) fn too_old(&self) -> Option<String> {
        let mut numbers = self.version.split('.').map_while(|part| part.parse::<u32>().ok());
        let version = (numbers.next()?, numbers.next()?, numbers.next().unwrap_or(0));
        (version < OLDEST).then(|| {
            format!(
                "the server is Redis {}; hworker needs Redis 6.2.2 or Valkey 7.2 or later",
                self.version
            )
        })
    }

    /// Why jobs may vanish, where the server deletes keys when its memory is full.
    pub(crate) fn evicts(&self) -> Option<String> {
        let keeps = self.eviction.is_empty() || self.eviction == "noeviction";
        (!keeps).then(|| {
            format!(
                "the server's maxmemory-policy is {}: when its memory is full it deletes jobs without a word; set it to noeviction",
                self.eviction
            )
        })
    }
}

/// Asks the server what it is.
pub(crate) async fn server_info(on: &Connection) -> Result<ServerInfo, Fault> {
    Ok(ServerInfo::parse(&on.ask("INFO", NO_ARGUMENTS).await?.text()?))
}

/// Whether the server runs scripts for us, by their text and by their hash: nothing but plain enqueues works without.
pub(crate) async fn runs_scripts(on: &Connection) -> Result<(), Fault> {
    const NOTHING: &str = "return 1";
    on.ask("EVAL", (NOTHING, 0)).await?;
    let hash = redis::Script::new(NOTHING);
    match on.ask("EVALSHA", (hash.get_hash(), 0)).await {
        // It may have forgotten it meanwhile.
        Err(fault) if fault.kind == FaultKind::NoScript => Ok(()),
        answer => answer.map(drop),
    }
}

/// The server's time in ms.
pub(crate) async fn server_time(on: &Connection) -> Result<u64, Fault> {
    let mut time = on.ask("TIME", NO_ARGUMENTS).await?;
    Ok(time.count()? * 1000 + time.count()? / 1000)
}

#[cfg(test)]
mod tests {
    use super::ServerInfo;

    #[test]
    fn old_servers_and_eviction_are_found() {
        let good = ServerInfo::parse(
            "# Server\r\nredis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n",
        );
        assert_eq!((good.too_old(), good.evicts()), (None, None));
        let bad = ServerInfo::parse("redis_version:6.0.16\r\nmaxmemory_policy:allkeys-lru\r\n");
        assert!(bad.too_old().is_some_and(|why| why.contains("6.0.16")));
        assert!(bad.evicts().is_some_and(|why| why.contains("allkeys-lru")));
        let skips =
            |version: &str| ServerInfo::parse(&format!("redis_version:{version}")).too_old();
        assert!(skips("6.2.1").is_some() && skips("6.2.2").is_none() && skips("7.0").is_none());
        let unknown = ServerInfo::parse("");
        assert_eq!((unknown.too_old(), unknown.evicts()), (None, None));
    }
}
