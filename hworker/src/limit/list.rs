//! The lists of a queue in which jobs wait.

use std::fmt;

use super::{AtOnce, Limit, Scope};
use crate::priority::Priority;

/// A longer key stands there as a digest.
const KEY_BYTES: usize = 64;

/// What has to be written another way in a key, besides blanks and what is not seen: it has a meaning in the name of a list, or in what is
/// kept beside it.
const MARKS: &[char] = &['+', '=', '~', '%', '#', '*', '@'];

/// A list of a queue: a priority, and the limits that its jobs have. The plain one has the normal priority, and none.
///
/// Its name is that of the priority, nothing for the normal one, and then each limit as `+<limit>`, with `@` behind it where it is one for
/// each worker; that with a key is the last one, `+<limit>=<key>`, or `+<limit>~<key>` where the jobs of a key run in order. So a lease that
/// carries the name tells where its job goes back to, and what it holds. Behind the priority stands `*` where the list has ids of jobs, and
/// no envelopes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct List {
    pub(crate) priority: Priority,
    /// Its jobs are known by their ids.
    pub(crate) by_id: bool,
    /// The limits as the name has them.
    limits: Box<str>,
}

impl From<Priority> for List {
    fn from(priority: Priority) -> Self {
        Self { priority, by_id: false, limits: "".into() }
    }
}

impl List {
    /// Where jobs wait that do not run: they gave way to others of their key, or somebody cancelled them while a worker had them that died.
    /// The next worker writes their records.
    const CANCELLED: [&'static str; 2] = ["superseded", "cancelled"];

    /// That of jobs with these limits, and this key, as [`written_key`] gives it. Without a key the limits that need one do not hold.
    pub(crate) fn of(priority: Priority, limits: &[Limit], key: Option<&str>) -> Self {
        let mut name = String::new();
        for limit in limits {
            let (mark, key) = match (limit.scope, key) {
                (Scope::All, _) => ("", ""),
                (Scope::Worker, _) => ("@", ""),
                (Scope::Key, Some(key)) => ("=", key),
                (Scope::OrderedKey, Some(key)) => ("~", key),
                (Scope::Key | Scope::OrderedKey, None) => continue,
            };
            name.extend(["+", limit.name, mark, key]);
        }
        Self { priority, by_id: false, limits: name.into() }
    }

    /// The same for jobs that are known by their ids.
    pub(crate) fn by_id(self) -> Self {
        Self { by_id: true, ..self }
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.priority == Priority::Normal && !self.by_id && self.limits.is_empty()
    }

    /// Whether it is none of the five that differ in their priority alone.
    pub(crate) fn is_another(&self) -> bool {
        self.by_id || self.has_limits()
    }

    /// Of its name, in bytes.
    pub(crate) fn name_length(&self) -> usize {
        self.priority.list().len() + usize::from(self.by_id) + self.limits.len()
    }

    pub(crate) fn has_limits(&self) -> bool {
        !self.limits.is_empty()
    }

    /// Why its jobs do not run, if they do not.
    pub(crate) fn cancels(&self) -> Option<&'static str> {
        let why = self.limits.strip_prefix("+!")?;
        Self::CANCELLED.into_iter().find(|known| *known == why)
    }

    /// The list of such a name; that of the plain one is empty.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let at = name.find('+').unwrap_or(name.len());
        let (priority, limits) = name.split_at(at);
        let (priority, by_id) = match priority.strip_suffix('*') {
            Some(priority) => (priority, true),
            None => (priority, false),
        };
        let priority = match priority {
            "" => Priority::Normal,
            "normal" => return None,
            named => named.parse().ok()?,
        };
        let list = Self { priority, by_id, limits: limits.into() };
        let keys = list.limits().filter(|limit| limit.contains(['=', '~'])).count();
        let is_sound = !limits.bytes().any(|byte| byte <= b' ' || byte == 0x7f)
            && !list.limits().any(str::is_empty)
            && (keys == 0 || keys == 1 && list.key().is_some());
        is_sound.then_some(list)
    }

    /// The limits, each with its key.
    pub(crate) fn limits(&self) -> impl Iterator<Item = &str> {
        self.limits.split('+').skip(1)
    }

    /// Whether the jobs of its key run in order.
    pub(crate) fn is_in_order(&self) -> bool {
        self.limits.contains('~')
    }

    /// The name of the limit that has a key, and the key.
    pub(crate) fn key(&self) -> Option<(&str, &str)> {
        self.limits().last()?.split_once(['=', '~'])
    }

    /// What the lists have in common that differ from it in their key alone.
    pub(crate) fn group(&self) -> Option<String> {
        let (_, key) = self.key()?;
        let mut name = self.to_string();
        name.truncate(name.len() - key.len());
        Some(name)
    }

    /// Whether it has a limit of this name, with a key or without.
    pub(crate) fn has_limit(&self, name: &str) -> bool {
        self.limits().any(|limit| limit.split(['=', '~', '@']).next() == Some(name))
    }

    /// The same limits under another priority.
    pub(crate) fn at(&self, priority: Priority) -> Self {
        Self { priority, ..self.clone() }
    }

    /// The same list, with a limit more.
    pub(crate) fn with(&self, limit: &str) -> Self {
        Self { limits: ["+", limit, &*self.limits].concat().into(), ..self.clone() }
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.priority.list())?;
        f.write_str(if self.by_id { "*" } else { "" })?;
        f.write_str(&self.limits)
    }
}

/// A key as it stands in the name of a list: what has a meaning there as `%` and two hex digits, and a digest of a long one.
pub(crate) fn written_key(key: &str) -> String {
    let mut written = String::with_capacity(key.len());
    for c in key.chars() {
        if c.is_whitespace() || c.is_control() || MARKS.contains(&c) {
            let mut bytes = [0; 4];
            written.extend(c.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02x}")));
        } else {
            written.push(c);
        }
        if written.len() > KEY_BYTES {
            return digest(key);
        }
    }
    written
}

/// Whether [`written_key`] may have given it.
pub(crate) fn is_written_key(key: &str) -> bool {
    let is_mark = |c: char| c.is_whitespace() || c.is_control() || c != '%' && MARKS.contains(&c);
    !key.is_empty() && key.len() <= KEY_BYTES && !key.contains(is_mark)
}

/// What stands for a key that is too long: 128 bits of its SHA-1 (a UUID of version 5, RFC 9562). No key that is written out begins so.
fn digest(key: &str) -> String {
    format!("%%{}", uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, key.as_bytes()).simple())
}

/// What `push` is told of a job that has a key: how many of the key run at once where the arguments say so, how many may wait, and what
/// becomes of those that wait while the limit is used up. Empty where it has none of these.
pub(crate) fn terms(limits: &[Limit], at_once: Option<u32>) -> String {
    let Some(limit) = limits.last().filter(|limit| limit.has_key()) else { return String::new() };
    let when = match limit.when_full {
        super::WhenFull::Wait => "wait",
        super::WhenFull::KeepNewest => "newest",
        super::WhenFull::KeepOldest => "oldest",
    };
    let at_once = at_once.filter(|_| limit.at_once == AtOnce::OfArguments);
    if at_once.is_none() && limit.max_waiting.is_none() && when == "wait" {
        return String::new();
    }
    let or_none = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    format!("{} {} {when}", or_none(at_once), or_none(limit.max_waiting))
}

#[cfg(test)]
mod tests {
    use super::super::WhenFull;
    use super::*;

    fn limit(name: &'static str, scope: Scope) -> Limit {
        let at_once = AtOnce::Of(1);
        Limit {
            name,
            scope,
            at_once,
            rate: None,
            when_full: WhenFull::Wait,
            max_waiting: None,
            halts: false,
        }
    }

    #[test]
    fn the_name_of_a_list_tells_its_limits() {
        let limits = [
            limit("resize", Scope::Worker),
            limit("db", Scope::All),
            limit("tenants", Scope::OrderedKey),
        ];
        let list = List::of(Priority::High, &limits, Some("acme"));
        assert_eq!(list.to_string(), "high+resize@+db+tenants~acme");
        assert_eq!(List::parse(&list.to_string()), Some(list.clone()));
        assert_eq!(list.key(), Some(("tenants", "acme")));
        assert!(list.has_limit("resize") && list.has_limit("tenants") && !list.has_limit("acme"));
        let without = List::of(Priority::Normal, &limits, None);
        assert_eq!(without.to_string(), "+resize@+db", "without a key it is not limited by one");
        assert!(List::of(Priority::Normal, &[], None).is_plain());
        let by_id = list.by_id();
        assert_eq!(by_id.to_string(), "high*+resize@+db+tenants~acme");
        assert_eq!(List::parse(&by_id.to_string()), Some(by_id));
        assert_eq!(List::parse("*"), Some(List::default().by_id()));
        for wrong in ["normal", "urgent", "+", "high+", "+a+", "+a=1+b", "+a b", "+a=1+b=2"] {
            assert_eq!(List::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_key_is_written_so_that_it_can_be_told_apart() {
        assert_eq!(written_key("acme.org/7"), "acme.org/7");
        assert_eq!(written_key("a+b=c~d%e f"), "a%2bb%3dc%7ed%25e%20f");
        assert_eq!(written_key("0@"), "0%40", "it is no limit of each worker");
        assert_eq!(written_key("a\0b\n\u{85}"), "a%00b%0a%c2%85");
        assert_eq!(written_key("größe"), "größe");
        let long = written_key(&"x".repeat(10_000_000));
        assert_eq!((long.len(), &long[..2]), (34, "%%"));
        assert_ne!(long, written_key(&"x".repeat(65)));
        for key in ["acme.org/7", "a+b=c~d%e f", "größe", &"x".repeat(64), &"x".repeat(65)] {
            assert!(is_written_key(&written_key(key)), "{key}");
        }
        assert!(!["", "a=b", "a b", "*"].into_iter().any(is_written_key));
        for key in ["", "a#b", &long, "*"] {
            let list = format!("+a={}", written_key(key));
            assert_eq!(List::parse(&list).map(|list| list.to_string()), Some(list), "{key}");
        }
    }
}
