//! What every request passes before a page or the REST API sees it, the fallback and the files too.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, OriginalUri, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, HeaderName, HeaderValue, ORIGIN,
    REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;

use super::access::{Access, Operator, bearer};
use super::page;
use super::problem::Problem;

/// So many requests are worked on at once.
const AT_ONCE: usize = 64;

/// So long one may take.
const WITHIN: Duration = Duration::from_secs(10);

/// So many wrong logins an address has in a time.
const WRONG_LOGINS: u32 = 5;
const LOGINS_WITHIN: Duration = Duration::from_secs(60);

/// So many addresses are remembered.
const ADDRESSES: usize = 10_000;

/// Everything comes from this server, nothing stands in the page itself, and no other page may hold this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; \
     frame-ancestors 'none'; base-uri 'none'";

const HEADERS: &[(HeaderName, &str)] = &[
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    // With `no-referrer` browsers say `Origin: null` of a form.
    (REFERRER_POLICY, "same-origin"),
];

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Who asks, and from where.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) operator: Operator,
    /// The path under which the router is, without a slash behind it.
    pub(super) mount: String,
}

/// What decides who gets in.
pub(super) struct Gate {
    pub(super) access: Access,
    /// Where a proxy in front takes this path off.
    pub(super) mount: Option<String>,
    pub(super) read_only: bool,
    logins: Mutex<HashMap<IpAddr, (Instant, u32)>>,
    permits: Semaphore,
}

impl Gate {
    pub(super) fn new(access: Access, mount: Option<String>, read_only: bool) -> Self {
        let permits = Semaphore::new(AT_ONCE);
        Self { access, mount, read_only, logins: Mutex::default(), permits }
    }
}

/// The outermost layer.
pub(super) async fn guard(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let is_api = parts.uri.path().starts_with("/api/") || parts.uri.path().contains("/api/v1/");
    let mount = gate.mount_of(&parts);
    let mut who = None;
    let mut response = match gate.let_in(&parts) {
        Ok(operator) => {
            let is_change = !is_read(&parts.method);
            let mut request = Request::from_parts(parts, body);
            request
                .extensions_mut()
                .insert(Asked { operator: operator.clone(), mount: mount.clone() });
            who = Some(operator);
            gate.answer(next.run(request), is_change).await
        }
        Err(problem) => problem.into_response(),
    };
    if !is_api && let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = page::problem(&mount, who.as_ref(), &problem);
    }
    if response.status() == StatusCode::UNAUTHORIZED
        && let Some(challenge) = gate.access.challenge()
    {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    add_headers(response.headers_mut());
    response
}

impl Gate {
    /// Who this is, if the request may be answered.
    fn let_in(&self, parts: &Parts) -> Result<Operator, Problem> {
        if self.access.is_local() && !host(parts).is_some_and(is_loopback) {
            return Err(Problem::misdirected());
        }
        let address = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let address = address.map(|from| counted(from.0.ip()));
        if address.is_some_and(|address| self.is_shut_out(address)) {
            return Err(Problem::limited("too many wrong logins from this address: wait a minute"));
        }
        let Some(operator) = self.access.who(parts) else {
            if let Some(address) = address.filter(|_| Access::was_tried(parts)) {
                self.count_wrong_login(address);
            }
            return Err(Problem::unauthorized());
        };
        if is_read(&parts.method) {
            return Ok(operator);
        }
        if self.read_only {
            return Err(Problem::read_only());
        }
        if !is_of_this_site(parts) {
            return Err(Problem::forbidden(
                "this request came from another site; a program sends `Authorization: Bearer`, or `Sec-Fetch-Site: same-origin`",
            ));
        }
        Ok(operator)
    }

    async fn answer(&self, answer: impl Future<Output = Response>, is_change: bool) -> Response {
        let Ok(_permit) = self.permits.try_acquire() else {
            return Problem::unreachable(
                "too many requests at once: try again; nothing was changed",
            )
            .into_response();
        };
        let answered = tokio::time::timeout(WITHIN, answer).await;
        answered.unwrap_or_else(|_| Problem::late(is_change).into_response())
    }

    /// The path under which the router is.
    fn mount_of(&self, parts: &Parts) -> String {
        if let Some(mount) = &self.mount {
            return mount.clone();
        }
        let Some(OriginalUri(original)) = parts.extensions.get::<OriginalUri>() else {
            return String::new();
        };
        let inner = parts.uri.path();
        let mount = match original.path().strip_suffix(inner) {
            Some(mount) => mount,
            // `/admin` for `/` in it.
            None if inner == "/" => original.path(),
            None => "",
        };
        mount.trim_end_matches('/').to_owned()
    }

    fn is_shut_out(&self, address: IpAddr) -> bool {
        let logins = self.logins.lock().unwrap_or_else(PoisonError::into_inner);
        logins
            .get(&address)
            .is_some_and(|(since, wrong)| since.elapsed() < LOGINS_WITHIN && *wrong >= WRONG_LOGINS)
    }

    fn count_wrong_login(&self, address: IpAddr) {
        let mut logins = self.logins.lock().unwrap_or_else(PoisonError::into_inner);
        if logins.len() >= ADDRESSES {
            logins.retain(|_, (since, _)| since.elapsed() < LOGINS_WITHIN);
        }
        if logins.len() >= ADDRESSES && !logins.contains_key(&address) {
            // So many that guess at once are one.
            logins.clear();
        }
        let (since, wrong) = logins.entry(address).or_insert((Instant::now(), 0));
        if since.elapsed() >= LOGINS_WITHIN {
            (*since, *wrong) = (Instant::now(), 0);
        }
        *wrong += 1;
    }
}

/// The address under which wrong logins are counted: of IPv6 its network, as a client has all of that.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address @ IpAddr::V4(_) => address,
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn header<'a>(parts: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    parts.headers.get(name)?.to_str().ok()
}

fn host(parts: &Parts) -> Option<&str> {
    header(parts, &HOST).or_else(|| parts.uri.authority().map(axum::http::uri::Authority::as_str))
}

fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

/// Whether a page of another site cannot have had a browser send this. See the fetch metadata of the W3C; older browsers send `Origin`.
fn is_of_this_site(parts: &Parts) -> bool {
    // No browser adds this by itself.
    if bearer(parts).is_some() && !parts.headers.contains_key(COOKIE) {
        return true;
    }
    if let Some(site) = header(parts, &FETCH_SITE) {
        return site == "same-origin";
    }
    let origin = header(parts, &ORIGIN).and_then(|origin| origin.split_once("://"));
    origin.is_some_and(|(_, origin)| host(parts) == Some(origin))
}

fn add_headers(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = axum::http::Request::builder().method("POST").uri("/x");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn forms_of_other_sites_change_nothing() {
        let of_this_site = |headers: &[(&str, &str)]| is_of_this_site(&parts(headers));
        assert!(of_this_site(&[("sec-fetch-site", "same-origin")]));
        assert!(of_this_site(&[("host", "a:1"), ("origin", "http://a:1")]));
        assert!(of_this_site(&[("authorization", "Bearer x")]));
        for wrong in [
            &[][..],
            &[("host", "a")],
            &[("sec-fetch-site", "same-site"), ("host", "a"), ("origin", "http://a")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "none")],
            &[("host", "a"), ("origin", "null")],
            &[("host", "a"), ("origin", "http://b")],
            &[("host", "a"), ("origin", "http://a.b")],
            &[("authorization", "Bearer x"), ("cookie", "a=b")],
            &[("authorization", "Basic eDp4")],
        ] {
            assert!(!of_this_site(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn without_credentials_only_this_machine_is_a_host() {
        let gate = Gate::new(Access::local(), None, false);
        for (host, in_) in [
            ("localhost", true),
            ("localhost:7700", true),
            ("127.0.0.1:7700", true),
            ("[::1]:7700", true),
            ("[::1]", true),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("localhost:7700.evil.example", false),
            ("127.0.0.1.evil.example:80", false),
            ("", false),
        ] {
            let asked = parts(&[("host", host), ("sec-fetch-site", "same-origin")]);
            assert_eq!(gate.let_in(&asked).is_ok(), in_, "{host}");
        }
    }

    #[test]
    fn five_wrong_logins_shut_an_address_out() {
        let gate = Gate::new(Access::token("secret"), None, false);
        let from = |word: &str, host: u8| {
            let mut parts = parts(&[("authorization", &format!("Bearer {word}"))]);
            let address = SocketAddr::from(([192, 0, 2, host], 1));
            parts.extensions.insert(ConnectInfo(address));
            gate.let_in(&parts).err().map(|problem| problem.status)
        };
        assert_eq!(from("secret", 1), None);
        let wrong: Vec<_> = (0..6).map(|_| from("x", 1)).collect();
        assert_eq!(wrong[..5], [Some(401); 5]);
        assert_eq!(wrong[5], Some(429));
        assert_eq!((from("secret", 1), from("secret", 2)), (Some(429), None));
    }
}
