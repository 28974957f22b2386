//! Where the server is, the servers of a cluster, or the sentinels that know where the server is.

use std::sync::Arc;

use super::cluster::Cluster;
use super::connection::Connection;
use super::fault::Fault;
use super::line::Endpoint;
use super::meter::Meter;
use super::open::open;
use super::sentinel::Sentinels;
use super::slots::Node;
use super::tls::certificates;
use super::url::{Several, server, without_secrets};
use crate::config::{TlsFiles, UrlSource};
use crate::error::Error;
use crate::store::queue::Queue;

/// Where the server is.
#[derive(Clone)]
pub(crate) struct Address {
    deployment: Deployment,
    /// Its URL without secrets, and where that is from.
    shown: Arc<str>,
}

/// How the servers are deployed.
#[derive(Clone)]
enum Deployment {
    Single(Arc<Endpoint>),
    Sentinel(Arc<Sentinels>),
    Cluster(Arc<Cluster>),
}

impl Deployment {
    fn parse(url: &str, tls_files: &TlsFiles) -> Result<Self, String> {
        let tls = ["rediss:", "rediss-sentinel:", "rediss-cluster:"];
        let tls = tls.iter().any(|scheme| url.starts_with(scheme));
        // Read once, however many servers there are.
        let tls = tls.then(|| certificates(tls_files)).transpose()?;
        let before_at = url.rsplit_once('@').map(|(before, _)| before);
        if !url.contains("unix://") && before_at.is_some_and(|before| before.contains(['?', '#'])) {
            return Err("an `@` stands behind a `?` or a `#`; write `%40`, `%3F`, `%23`".into());
        }
        let Some(several) = Several::of(url) else {
            return Ok(Self::Single(Arc::new(server(url, tls)?)));
        };
        if several.kind == "sentinel" {
            return Ok(Self::Sentinel(Arc::new(Sentinels::parse(&several, tls.as_ref())?)));
        }
        let servers = several.urls().into_iter().map(|url| server(&url, tls.clone()));
        let servers: Vec<_> = servers.collect::<Result<_, _>>()?;
        if servers.iter().any(|server| server.info.redis_settings().db() != 0) {
            return Err("a cluster has no database but 0".into());
        }
        Ok(Self::Cluster(Arc::new(Cluster::new(servers).ok_or("it names no server")?)))
    }
}

/// The server that has a queue: one of a cluster, or the only one.
pub(crate) type Home = Option<Node>;

impl Address {
    /// Reads `redis://`, `redis+unix://`, `unix://`, `redis-sentinel://` and `redis-cluster://` with one host or several
    /// and, with the feature `tls`, `rediss://`, `rediss-sentinel://` and `rediss-cluster://`, with these certificates.
    pub(crate) fn parse(url: &str, source: UrlSource, tls_files: &TlsFiles) -> Result<Self, Error> {
        let shown: Arc<str> = format!("{} ({source})", without_secrets(url)).into();
        let wrong = |why| {
            Error::config(format!(
                "the Redis URL {shown} cannot be used: {why}; write `redis://user:password@host:6379/0`, \
                 `redis+unix:///path`, `redis-sentinel://user:password@host:26379,other-host:26379/master/0`, \
                 `redis-cluster://user:password@host:6379,other-host:6379`, or `rediss` instead of `redis` for TLS, and \
                 `%23` for a `#` in a password and the like"
            ))
        };
        let deployment = Deployment::parse(url, tls_files).map_err(wrong)?;
        Ok(Self { deployment, shown })
    }

    /// Whether the keys of a queue have to name their slot.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.deployment, Deployment::Cluster(_))
    }

    /// The server that has a slot now, as far as it is known.
    pub(crate) async fn home(&self, slot: u16) -> Result<Home, Fault> {
        match &self.deployment {
            Deployment::Single(_) | Deployment::Sentinel(_) => Ok(None),
            Deployment::Cluster(cluster) => cluster.owner(slot).await.map(Some),
        }
    }

    /// Every server that has keys.
    pub(crate) async fn homes(&self) -> Result<Vec<Home>, Fault> {
        match &self.deployment {
            Deployment::Single(_) | Deployment::Sentinel(_) => Ok(vec![None]),
            Deployment::Cluster(cluster) => {
                Ok(cluster.owners().await?.into_iter().map(Some).collect())
            }
        }
    }

    /// Makes a connection to a server, driven by the current runtime; the meter counts its bytes.
    pub(crate) async fn connect_to(
        &self,
        home: &Home,
        meter: Option<&Arc<Meter>>,
    ) -> Result<Connection, Fault> {
        match (&self.deployment, home) {
            (Deployment::Single(server), _) => open(Endpoint::clone(server), meter).await,
            (Deployment::Sentinel(sentinels), _) => sentinels.connect(meter).await,
            (Deployment::Cluster(cluster), Some(node)) => cluster.connect(node, meter).await,
            (Deployment::Cluster(_), None) => {
                Err(Fault::not_sent("no server of the cluster is named"))
            }
        }
    }

    /// Makes a connection to the server that has this queue; else as [`Address::connect_to`].
    pub(crate) async fn connect(
        &self,
        to: &Queue,
        meter: Option<&Arc<Meter>>,
    ) -> Result<Connection, Fault> {
        self.connect_to(&self.home(to.slot).await?, meter).await
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Address({})", self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, Error, Several, TlsFiles, UrlSource, without_secrets};

    fn parse(url: &str) -> Result<Address, Error> {
        Address::parse(url, UrlSource::Program, &TlsFiles::default())
    }

    fn is_refused(url: &str, why: &str) {
        let error = parse(url).expect_err(url).to_string();
        assert!(error.contains(why) && !error.contains("s3cret"), "{url}: {error}");
    }

    #[test]
    fn no_password_is_shown_however_the_url_is_written() {
        for (url, shown) in [
            ("redis://host:6379/0", "redis://host:6379/0"),
            ("redis://user:s3cret@host", "redis://***@host"),
            ("redis://user:s3c@r#e?t@host", "redis://***"),
            ("redis+unix:///a.sock?user=u&pass=a@s3cret", "redis+unix://***"),
            ("redis-sentinel://h/jobs?sentinel_pass=p@s3cret", "redis-sentinel://***"),
            ("redis//user:s3cret@host", "***@host"),
            ("redis+unix:///a.sock?user=u&pass=s3cret", "redis+unix:///a.sock"),
            ("redis-cluster://user:s3cret@a:1,b:2/?x=y", "redis-cluster://***@a:1,b:2/"),
            ("redis-sentinel://a,b/jobs?sentinel_pass=s3cret", "redis-sentinel://a,b/jobs"),
            ("localhost:6379", "localhost:6379"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
        // The redis crate quotes what it does not understand.
        for (url, why) in [
            ("redis://host?protocol=s3cret", "Invalid protocol"),
            ("redis://user:1?protocol=s3cret@host", "stands behind"),
            ("redis-sentinel://h/jobs?sentinel_pass=p@s3cret", "stands behind"),
        ] {
            is_refused(url, why);
        }
    }

    #[test]
    fn the_certificate_is_looked_at_whatever_the_url_says() {
        let why =
            if cfg!(feature = "tls") { "with `#insecure`" } else { "needs the feature `tls`" };
        for url in [
            "rediss://host/#insecure",
            "rediss-sentinel://a/jobs#insecure",
            "rediss-cluster://a/#insecure",
        ] {
            is_refused(url, why);
        }
    }

    #[test]
    fn the_url_of_a_cluster_names_its_servers() {
        let urls = |url| Several::of(url).expect("a cluster").urls();
        assert_eq!(urls("redis-cluster://a:1"), ["redis://a:1"]);
        assert_eq!(
            urls("rediss-cluster://u:p@a:1,[::1]:2,b/?protocol=resp3"),
            [
                "rediss://u:p@a:1/?protocol=resp3",
                "rediss://u:p@[::1]:2/?protocol=resp3",
                "rediss://u:p@b/?protocol=resp3"
            ]
        );
        assert!(Several::of("redis://a-cluster://b").is_none());
        for (url, why) in [
            ("redis-cluster://", "names no server"),
            ("redis-cluster://a:1/3", "no database but 0"),
            ("redis-cluster://a:port", "cannot be used"),
            ("redis-sentinel://a", "names no master"),
            ("redis-sentinel:///jobs", "names no sentinel"),
            ("redis-sentinel://a/jobs/one", "cannot be used"),
        ] {
            is_refused(url, why);
        }
        assert!(parse("redis-cluster://[::1]:1,b").expect("a cluster").is_cluster());
    }
}
