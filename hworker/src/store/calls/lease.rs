//! The hold of a worker on a job.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use crate::keys::is_name;
use crate::limit::List;
use crate::store::net::{Call, Fault};
use crate::store::reply::Reply;

/// One worker's hold on one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lease {
    /// As `reserve` names it: a whole number, up to [`Lease::MAX_TOKEN`].
    Token(u64),
    /// The same of a job that was taken from another list than the plain one, or holds limits: `<token>.<list>`.
    Listed(u64, Arc<List>),
    /// The same of a job that is known by its id: `<token>.<list>#<id>`.
    ById(u64, Arc<(List, Box<str>)>),
    /// The same of a worker's copy of a job that each worker runs: `<token>.@<id>`.
    Copy(u64, Arc<str>),
    /// Anything else that somebody wrote there; it counts as the oldest.
    Foreign(Arc<str>),
}

impl Lease {
    /// Beyond it servers may spell a number that a script hands them in another way.
    const MAX_TOKEN: u64 = (1 << 52) - 1;

    pub(crate) fn parse(name: &str) -> Self {
        let (token, list) =
            name.split_once('.').map_or((name, None), |(token, list)| (token, Some(list)));
        let token = token.parse().ok().filter(|token| *token <= Self::MAX_TOKEN);
        let lease = match list {
            None => token.map(Self::Token),
            Some(name) => token.and_then(|token| match name.strip_prefix('@') {
                Some(id) => is_name(id).then(|| Self::Copy(token, id.into())),
                None => Self::of_job(token, name),
            }),
        };
        // Only what would be written the same way again.
        let lease = lease.filter(|lease| lease.to_string() == name);
        lease.unwrap_or_else(|| Self::Foreign(name.into()))
    }

    /// Of a job of this list, which may be known by its id.
    fn of_job(token: u64, name: &str) -> Option<Self> {
        let (list, id) = name.split_once('#').map_or((name, None), |(list, id)| (list, Some(id)));
        let list = List::parse(list)?;
        match id {
            None => Some(Self::Listed(token, Arc::new(list))),
            Some(id) => (list.by_id && !id.is_empty())
                .then(|| Self::ById(token, Arc::new((list, id.into())))),
        }
    }

    pub(super) fn read(reply: &mut Reply) -> Result<Self, Fault> {
        Ok(Self::parse(&reply.text()?))
    }

    /// The list to which it goes back.
    pub(crate) fn list(&self) -> Option<&List> {
        match self {
            Self::Listed(_, list) => Some(list),
            Self::ById(_, job) => Some(&job.0),
            Self::Token(_) | Self::Copy(..) | Self::Foreign(_) => None,
        }
    }

    /// Whether other workers run the same job.
    pub(crate) fn is_copy(&self) -> bool {
        matches!(self, Self::Copy(..))
    }

    /// The id of a job that is known by it.
    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Self::ById(_, job) => Some(&job.1),
            Self::Token(_) | Self::Listed(..) | Self::Copy(..) | Self::Foreign(_) => None,
        }
    }

    /// The fencing token.
    pub(crate) fn token(&self) -> u64 {
        match self {
            Self::Token(token)
            | Self::Listed(token, _)
            | Self::ById(token, _)
            | Self::Copy(token, _) => *token,
            Self::Foreign(_) => 0,
        }
    }

    pub(super) fn name_length(&self) -> usize {
        match self {
            Self::Token(_) => 16,
            Self::Listed(_, list) => 17 + list.name_length(),
            Self::ById(_, job) => 18 + job.0.name_length() + job.1.len(),
            Self::Copy(_, id) => 18 + id.len(),
            Self::Foreign(name) => name.len(),
        }
    }
}

impl Hash for Lease {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        match self {
            // No two leases of a queue have the same.
            Self::Token(token)
            | Self::Listed(token, _)
            | Self::ById(token, _)
            | Self::Copy(token, _) => {
                hasher.write_u64(*token);
            }
            Self::Foreign(name) => name.hash(hasher),
        }
    }
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(token) => write!(f, "{token}"),
            Self::Listed(token, list) => write!(f, "{token}.{list}"),
            Self::ById(token, job) => write!(f, "{token}.{}#{}", job.0, job.1),
            Self::Copy(token, id) => write!(f, "{token}.@{id}"),
            Self::Foreign(name) => f.write_str(name),
        }
    }
}

/// A table of leases.
pub(crate) type LeaseMap<V> = HashMap<Lease, V, BuildHasherDefault<LeaseHasher>>;

/// Each job looks its lease up several times. Tokens count up and nobody can choose them, so multiplying spreads them well enough (Fibonacci
/// hashing: Knuth, TAOCP 6.4).
#[derive(Debug, Default)]
pub(crate) struct LeaseHasher(u64);

impl Hasher for LeaseHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Call {
    pub(crate) fn lease(&mut self, lease: &Lease) -> &mut Self {
        match lease {
            Lease::Token(token) => self.number(*token),
            Lease::Listed(..) | Lease::ById(..) | Lease::Copy(..) => self.arg(lease.to_string()),
            Lease::Foreign(name) => self.arg(name.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_token_only_if_the_server_spells_it_so() {
        assert_eq!(Lease::parse("1763805600123456"), Lease::Token(1_763_805_600_123_456));
        assert_eq!(Lease::parse("4503599627370495"), Lease::Token(Lease::MAX_TOKEN));
        for list in ["", "high", "+db", "low+db+mail=acme.7"] {
            let name = format!("1763805600123456.{list}");
            let of = List::parse(list).expect("a list");
            let listed = Lease::parse(&name);
            assert_eq!(listed, Lease::Listed(1_763_805_600_123_456, of.into()));
            assert_eq!(listed.to_string(), name);
        }
        let by_id = Lease::parse("1763805600123456.high*+db#order-7.a");
        assert_eq!((by_id.id(), by_id.token()), (Some("order-7.a"), 1_763_805_600_123_456));
        assert_eq!(by_id.to_string(), "1763805600123456.high*+db#order-7.a");
        let copy = Lease::parse("1763805600123456.@0197a-b");
        assert_eq!(copy, Lease::Copy(1_763_805_600_123_456, "0197a-b".into()));
        assert_eq!(copy.to_string(), "1763805600123456.@0197a-b");
        for name in [
            "7.@",
            "7.@a b",
            "7.high#a",
            "7.*#",
            "7.#a",
            "7.urgent",
            "7.normal",
            ".high",
            "07.high",
            "7.high.low",
            "7.+a b",
            "7.+",
        ] {
            assert_eq!(Lease::parse(name), Lease::Foreign(name.into()));
        }
        for name in ["4503599627370496", "18446744073709551616", "007", "+7", "7.0", "-1", ""] {
            assert_eq!(Lease::parse(name), Lease::Foreign(name.into()));
            assert_eq!(Lease::parse(name).to_string(), name);
        }
    }
}
