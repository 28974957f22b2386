//! Where the server is, the servers of a cluster, or who knows where the server is.

use std::sync::Arc;
use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion};

use super::Queue;
use super::cluster::{Cluster, Node};
use super::connection::{Connection, open};
use super::fault::Fault;
use super::line::Meter;
use super::line::{Endpoint, encrypted};
use super::sentinel::Sentinels;
use super::tls::{Certificates, certificates};
use crate::config::{TlsFiles, UrlSource};
use crate::error::Error;

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

/// The server that has a queue: one of a cluster, or the only one.
pub(crate) type Home = Option<Node>;

impl Address {
    /// Reads `redis://`, `redis+unix://`, `unix://`, `redis-sentinel://` and `redis-cluster://` with one host or several
    /// and, with the feature `tls`, `rediss://`, `rediss-sentinel://` and `rediss-cluster://`, with these certificates.
    pub(crate) fn parse(url: &str, source: UrlSource, tls_files: &TlsFiles) -> Result<Self, Error> {
        let shown: Arc<str> = format!("{} ({source})", without_secrets(url)).into();
        let wrong = |why: &dyn std::fmt::Display| {
            Error::config(format!(
                "the Redis URL {shown} cannot be used: {why}; write `redis://user:password@host:6379/0`, \
                 `redis+unix:///path`, `redis-sentinel://user:password@host:26379,other-host:26379/master/0`, \
                 `redis-cluster://user:password@host:6379,other-host:6379`, or `rediss` instead of `redis` for TLS, and \
                 `%23` for a `#` in a password and the like"
            ))
        };
        let tls = ["rediss:", "rediss-sentinel:", "rediss-cluster:"];
        let tls = tls.iter().any(|scheme| url.starts_with(scheme));
        // Read once, however many servers there are.
        let tls = tls.then(|| certificates(tls_files)).transpose().map_err(|why| wrong(&why))?;
        let before_at = url.rsplit_once('@').map(|(before, _)| before);
        if !url.contains("unix://") && before_at.is_some_and(|before| before.contains(['?', '#'])) {
            return Err(wrong(&"an `@` stands behind a `?` or a `#`; write `%40`, `%3F`, `%23`"));
        }
        let deployment = match Several::of(url) {
            None => Deployment::Single(Arc::new(server(url, tls).map_err(|why| wrong(&why))?)),
            Some(several) if several.kind == "sentinel" => {
                let sentinels =
                    Sentinels::parse(&several, tls.as_ref()).map_err(|why| wrong(&why))?;
                Deployment::Sentinel(Arc::new(sentinels))
            }
            Some(several) => {
                let servers: Result<Vec<_>, _> =
                    several.urls().iter().map(|url| server(url, tls.clone())).collect();
                let servers = servers.map_err(|why| wrong(&why))?;
                if servers.iter().any(|server| server.info.redis_settings().db() != 0) {
                    return Err(wrong(&"a cluster has no database but 0"));
                }
                let cluster = Cluster::new(servers).ok_or_else(|| wrong(&"it names no server"))?;
                Deployment::Cluster(Arc::new(cluster))
            }
        };
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

    /// Makes a connection to a server, driven by the runtime that this is called in; this meter counts what passes over it.
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

    /// Makes a connection to the server that has this queue, driven by the runtime that this is called in.
    pub(crate) async fn connect(&self, to: &Queue) -> Result<Connection, Fault> {
        self.connect_to(&self.home(to.slot).await?, None).await
    }

    /// The same; this meter counts what passes over it.
    pub(crate) async fn connect_metered(
        &self,
        meter: &Arc<Meter>,
        to: &Queue,
    ) -> Result<Connection, Fault> {
        self.connect_to(&self.home(to.slot).await?, Some(meter)).await
    }
}

/// How one server is spoken to: with these certificates, where its URL says `rediss`.
pub(super) fn server(url: &str, certificates: Option<Certificates>) -> Result<Endpoint, String> {
    let tls = certificates.as_ref().and_then(|_| url.strip_prefix("rediss://"));
    // The crate would read it only with the feature by which it encrypts lines itself.
    let plain = tls.map(|rest| format!("redis://{rest}"));
    let url = plain.as_deref().unwrap_or(url);
    // The crate reads the query of a unix URL as a form, where a plus is a blank; nobody writes a password so.
    let unix = ["redis+unix:", "unix:"].iter().any(|scheme| url.starts_with(scheme));
    let query = url.split_once('?').filter(|_| unix);
    let spelled = query.map(|(path, query)| format!("{path}?{}", query.replace('+', "%2B")));
    let url = spelled.as_deref().unwrap_or(url);
    let mut info = url.into_connection_info().map_err(|error| without_detail(&error))?;
    if let (Some(rest), ConnectionAddr::Tcp(host, port)) = (tls, info.addr().clone()) {
        match rest.split_once('#') {
            None => {}
            Some((_, "insecure")) => return Err(
                "with `#insecure` anybody could be the server; name its authority in HWORKER_TLS_CA"
                    .into(),
            ),
            Some(_) => return Err("nothing may stand behind a `#`".into()),
        }
        info = info.set_addr(encrypted(host, port));
    }
    // Without `CLIENT SETINFO`, which a user with few rights may not call.
    let settings = info.redis_settings().clone().set_skip_set_lib_name();
    let settings = settings.set_protocol(ProtocolVersion::RESP3);
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(3))
        .with_retries(3);
    let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    Ok(Endpoint { info: info.set_redis_settings(settings).set_tcp_settings(tcp), certificates })
}

/// What is wrong with a URL, without the part of it that the error quotes: where a password has a `?` in it, that is the
/// rest of the password.
fn without_detail(error: &redis::RedisError) -> String {
    let text = error.to_string();
    let before = error.detail().and_then(|detail| text.strip_suffix(detail));
    before.map_or_else(|| text.clone(), |before| before.trim_end_matches([':', ' ']).to_owned())
}

/// A URL that names several hosts, taken apart.
#[derive(Debug)]
pub(super) struct Several<'a> {
    /// `redis` or `rediss`.
    pub(super) scheme: &'a str,
    /// `cluster` or `sentinel`.
    kind: &'a str,
    /// With its `@`.
    pub(super) user: &'a str,
    pub(super) hosts: Vec<&'a str>,
    /// Path, query and fragment.
    pub(super) after: &'a str,
}

impl<'a> Several<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (scheme, kind) = scheme.split_once('-')?;
        if !matches!((scheme, kind), ("redis" | "rediss", "cluster" | "sentinel")) {
            return None;
        }
        let (user, rest) = rest.rfind('@').map_or(("", rest), |at| rest.split_at(at + 1));
        let (hosts, after) =
            rest.find(['/', '?', '#']).map_or((rest, ""), |end| rest.split_at(end));
        let hosts = hosts.split(',').filter(|host| !host.is_empty()).collect();
        Some(Self { scheme, kind, user, hosts, after })
    }

    /// The URL of each host alone; all have what stands before and after them.
    fn urls(&self) -> Vec<String> {
        let Self { scheme, user, after, .. } = self;
        self.hosts.iter().map(|host| format!("{scheme}://{user}{host}{after}")).collect()
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

/// The URL as it may be shown: what stands before the host replaced, the query left out. Whatever it is, a part before
/// an `@` may be a password, and what is no URL at all may be anything.
pub(crate) fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (secret, rest) = match rest.rsplit_once('@') {
        // That may be of a password in the query, or the password in front has a `?` in it: nobody can tell.
        Some((before, _)) if before.contains(['?', '#']) => ("***", ""),
        Some((_, host)) => ("***@", host),
        None => ("", rest),
    };
    let host = rest.split(['?', '#']).next().unwrap_or(rest);
    if scheme.is_empty() { format!("{secret}{host}") } else { format!("{scheme}://{secret}{host}") }
}

#[cfg(test)]
mod tests {
    use super::{Address, Several, TlsFiles, UrlSource, without_secrets};

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
            let error = Address::parse(url, UrlSource::Program, &TlsFiles::default())
                .expect_err("refused")
                .to_string();
            assert!(error.contains(why) && !error.contains("s3cret"), "{error}");
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
            let error = Address::parse(url, UrlSource::Program, &TlsFiles::default())
                .expect_err(url)
                .to_string();
            assert!(error.contains(why), "{url}: {error}");
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
            let error = Address::parse(url, UrlSource::Program, &TlsFiles::default())
                .expect_err(url)
                .to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
        let cluster =
            Address::parse("redis-cluster://[::1]:1,b", UrlSource::Program, &TlsFiles::default())
                .expect("a cluster");
        assert!(cluster.is_cluster());
    }
}
