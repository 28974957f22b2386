//! URLs: of one server, and of several.

use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion};

use super::line::{Endpoint, encrypted};
use super::tls::Certificates;

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
    pub(super) kind: &'a str,
    /// With its `@`.
    pub(super) user: &'a str,
    pub(super) hosts: Vec<&'a str>,
    /// Path, query and fragment.
    pub(super) after: &'a str,
}

impl<'a> Several<'a> {
    pub(super) fn of(url: &'a str) -> Option<Self> {
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
    pub(super) fn urls(&self) -> Vec<String> {
        let Self { scheme, user, after, .. } = self;
        self.hosts.iter().map(|host| format!("{scheme}://{user}{host}{after}")).collect()
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
