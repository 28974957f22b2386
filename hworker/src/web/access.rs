//! Who may see the page and use the REST API, and what each may do there.

use std::fmt;
use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

/// What an operator may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Looks, and changes nothing.
    Viewer,
    /// Also retries, promotes, reschedules, cancels and runs jobs, pauses and resumes queues, limits and cron entries, has workers be quiet, and marks
    /// deploys.
    Operator,
    /// Everything: also deletes, clears, moves, edits and enqueues jobs, destroys queues, stops and scales workers.
    Admin,
}

/// The actions that need no [`Role::Admin`], as the audit calls them.
const OF_OPERATORS: &[&str] = &[
    "cancel",
    "mark",
    "pause",
    "promote",
    "quiet",
    "reschedule",
    "resume",
    "retry",
    "run",
    "set priority",
];

impl Role {
    /// What an action needs.
    fn for_action(action: &str) -> Self {
        if OF_OPERATORS.contains(&action) { Self::Operator } else { Self::Admin }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

type Rule = Arc<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// Somebody who was let in.
#[derive(Clone)]
pub struct Operator {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) sees_args: bool,
    rule: Option<Rule>,
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.role.name())
    }
}

impl Operator {
    /// Somebody with this name, which the audit has of all that is done.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self { name: name.into(), role, sees_args: true, rule: None }
    }

    /// The same, who sees no arguments of jobs, nor what holds them: payloads, errors, what producers noted; and may not search in them.
    #[must_use]
    pub fn hide_args(mut self) -> Self {
        self.sees_args = false;
        self
    }

    /// The same, who may do only what this rule allows too. It is asked with the action, as the audit calls it (`retry`, `pause`, `delete` ..),
    /// and the queue; that is empty where the action is of no queue.
    #[must_use]
    pub fn only(mut self, rule: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Self {
        self.rule = Some(Arc::new(rule));
        self
    }

    pub(super) fn may(&self, action: &str, queue: &str) -> bool {
        self.role >= Role::for_action(action)
            && self.rule.as_ref().is_none_or(|rule| rule(action, queue))
    }
}

/// The rule by which somebody is let in. There is no default: [`Web::access`](super::Web::access) needs one.
///
/// ```
/// use hworker::web::{Access, Operator, Role};
///
/// let by_token = Access::token("a long secret");
/// let by_password = Access::basic([("ada", "her password", Role::Admin), ("bob", "his", Role::Viewer)]);
/// // Behind a proxy that says who it is, and lets nobody else through.
/// let by_proxy = Access::custom(|request| {
///     let name = request.headers.get("x-forwarded-user")?.to_str().ok()?;
///     Some(Operator::new(name, Role::Operator))
/// });
/// ```
#[derive(Clone)]
pub struct Access(Kind);

type Who = dyn Fn(&Parts) -> Option<Operator> + Send + Sync;

#[derive(Clone)]
enum Kind {
    Token(String),
    Basic(Vec<(String, String, Role)>),
    Custom(Arc<Who>),
    App,
    Local,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Token(_) => "token",
            Kind::Basic(_) => "basic",
            Kind::Custom(_) => "custom",
            Kind::App => "guarded by the app",
            Kind::Local => "local",
        })
    }
}

impl Access {
    /// Whoever has this secret: programs send it as `Authorization: Bearer <secret>`. A browser asks for a name and a password: any name,
    /// which the audit then has, and the secret. The role is [`Role::Admin`].
    pub fn token(secret: impl Into<String>) -> Self {
        Self(Kind::Token(secret.into()))
    }

    /// These people, by name and password (HTTP Basic). Use it over TLS: each request carries the password.
    pub fn basic<N: Into<String>, P: Into<String>>(
        people: impl IntoIterator<Item = (N, P, Role)>,
    ) -> Self {
        let people = people.into_iter();
        Self(Kind::Basic(
            people.map(|(name, word, role)| (name.into(), word.into(), role)).collect(),
        ))
    }

    /// Whoever this function names, from the head of the request: by a session of your own, or what a proxy tells.
    pub fn custom(who: impl Fn(&Parts) -> Option<Operator> + Send + Sync + 'static) -> Self {
        Self(Kind::Custom(Arc::new(who)))
    }

    /// Everybody who gets here, as [`Role::Admin`]: the app around the router lets in only whom it should. A route that the app forgets is
    /// open to all.
    #[must_use]
    pub fn guarded_by_app() -> Self {
        Self(Kind::App)
    }

    /// Everybody on this machine, as [`Role::Admin`]: for a server that listens on a loopback address. A request must name that as its host, so
    /// that no website can have a browser send it.
    #[must_use]
    pub fn local() -> Self {
        Self(Kind::Local)
    }

    /// Whether the host that a request names is checked.
    pub(super) fn is_local(&self) -> bool {
        matches!(self.0, Kind::Local)
    }

    /// How a client is asked for credentials, where it may send some.
    pub(super) fn challenge(&self) -> Option<&'static str> {
        match self.0 {
            Kind::Token(_) | Kind::Basic(_) => Some("Basic realm=\"hworker\", charset=\"UTF-8\""),
            Kind::Custom(_) | Kind::App | Kind::Local => None,
        }
    }

    /// Who sends this request, if it is somebody.
    pub(super) fn who(&self, request: &Parts) -> Option<Operator> {
        let basic = || basic(request);
        match &self.0 {
            Kind::Token(secret) => {
                if let Some(given) = bearer(request) {
                    return same(given, secret).then(|| Operator::new("token", Role::Admin));
                }
                let (name, word) = basic()?;
                same(&word, secret).then(|| Operator::new(name, Role::Admin))
            }
            Kind::Basic(people) => {
                let (name, word) = basic()?;
                // All are compared, so that the time does not tell which names there are.
                let mut found = None;
                for (known, secret, role) in people {
                    if same(&name, known) & same(&word, secret) {
                        found = Some(Operator::new(known, *role));
                    }
                }
                found
            }
            Kind::Custom(who) => who(request),
            Kind::App => Some(Operator::new("app", Role::Admin)),
            Kind::Local => Some(Operator::new("local", Role::Admin)),
        }
    }

    /// Whether a request tried to get in, and did not.
    pub(super) fn was_tried(request: &Parts) -> bool {
        request.headers.contains_key(AUTHORIZATION)
    }
}

/// An empty secret is none.
fn same(given: &str, secret: &str) -> bool {
    !secret.is_empty() && bool::from(given.as_bytes().ct_eq(secret.as_bytes()))
}

/// What stands behind the scheme of the credentials, if it is this one.
fn credentials<'a>(request: &'a Parts, scheme: &str) -> Option<&'a str> {
    let (given, rest) = request.headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    given.eq_ignore_ascii_case(scheme).then(|| rest.trim())
}

pub(super) fn bearer(request: &Parts) -> Option<&str> {
    credentials(request, "bearer")
}

fn basic(request: &Parts) -> Option<(String, String)> {
    let decoded = STANDARD.decode(credentials(request, "basic")?).ok()?;
    let (name, word) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some((name.to_owned(), word.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(authorization: &str) -> Parts {
        let request = axum::http::Request::builder().header(AUTHORIZATION, authorization).body(());
        request.expect("a request").into_parts().0
    }

    fn basic_of(name: &str, word: &str) -> Parts {
        request(&format!("Basic {}", STANDARD.encode(format!("{name}:{word}"))))
    }

    #[test]
    fn only_who_has_the_secret_is_let_in() {
        let access = Access::token("secret");
        let name = |parts: &Parts| access.who(parts).map(|who| who.name);
        assert_eq!(name(&request("Bearer secret")).as_deref(), Some("token"));
        assert_eq!(name(&basic_of("ada", "secret")).as_deref(), Some("ada"));
        for wrong in [
            "Bearer secre",
            "Bearer secrets",
            "Bearer ",
            "Bearer",
            "secret",
            "Basic secret",
            "Digest secret",
        ] {
            assert_eq!(name(&request(wrong)), None, "{wrong}");
        }
        assert_eq!(name(&basic_of("secret", "")), None);
        let open = Access::token("");
        assert!(open.who(&basic_of("x", "")).is_none() && open.who(&request("Bearer ")).is_none());
    }

    #[test]
    fn people_have_roles() {
        let access = Access::basic([("ada", "a", Role::Admin), ("bob", "b", Role::Viewer)]);
        let role = |name, word| access.who(&basic_of(name, word)).map(|who| who.role);
        assert_eq!((role("ada", "a"), role("bob", "b")), (Some(Role::Admin), Some(Role::Viewer)));
        assert_eq!((role("ada", "b"), role("eve", "a"), role("", "")), (None, None, None));
        assert!(access.who(&request("Bearer a")).is_none());
    }

    #[test]
    fn a_role_bounds_what_one_may_do() {
        let (viewer, operator, admin) = (
            Operator::new("v", Role::Viewer),
            Operator::new("o", Role::Operator),
            Operator::new("a", Role::Admin)
                .only(|action, queue| action != "destroy" && queue == "mail"),
        );
        let may = |who: &Operator| {
            [
                who.may("retry", "mail"),
                who.may("delete", "mail"),
                who.may("delete", "other"),
                who.may("destroy", "mail"),
            ]
        };
        assert_eq!(may(&viewer), [false; 4]);
        assert_eq!(may(&operator), [true, false, false, false]);
        assert_eq!(may(&admin), [true, true, false, false]);
    }
}
