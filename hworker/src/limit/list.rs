//! The lists of a queue in which jobs wait.

use std::fmt;

use crate::priority::Priority;

/// A list of a queue: a priority, and the limits that its jobs have. The plain one has the normal priority, and none.
///
/// Its name is that of the priority, nothing for the normal one, and then each limit as `+<limit>`; that with a key is the last one,
/// `+<limit>=<key>`, or `+<limit>~<key>` where its jobs run in order. So a lease that carries the name tells where its job goes back to,
/// and what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct List {
    pub(crate) priority: Priority,
    /// The limits as the name has them.
    limits: Box<str>,
}

impl From<Priority> for List {
    fn from(priority: Priority) -> Self {
        Self { priority, limits: "".into() }
    }
}

impl List {
    pub(crate) fn is_plain(&self) -> bool {
        self.priority == Priority::Normal && self.limits.is_empty()
    }

    pub(crate) fn has_limits(&self) -> bool {
        !self.limits.is_empty()
    }

    /// The list of such a name; the plain one has none.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let at = name.find('+').unwrap_or(name.len());
        let (priority, limits) = name.split_at(at);
        let priority = match priority {
            "" if !limits.is_empty() => Priority::Normal,
            "normal" => return None,
            named => named.parse().ok()?,
        };
        let is_sound = !limits.bytes().any(|byte| byte <= b' ' || byte == 0x7f)
            && !limits.split('+').skip(1).any(str::is_empty);
        is_sound.then(|| Self { priority, limits: limits.into() })
    }

    /// The limits, each with its key.
    pub(crate) fn limits(&self) -> impl Iterator<Item = &str> {
        self.limits.split('+').skip(1)
    }

    /// The name of the limit that has a key, and the key.
    pub(crate) fn key(&self) -> Option<(&str, &str)> {
        self.limits().find_map(|limit| limit.split_once(['=', '~']))
    }

    /// The same limits under another priority.
    pub(crate) fn at(&self, priority: Priority) -> Self {
        Self { priority, limits: self.limits.clone() }
    }

    /// The same list, with a limit more.
    pub(crate) fn with(&self, limit: &str) -> Self {
        Self { limits: ["+", limit, &*self.limits].concat().into(), ..self.clone() }
    }

    /// The same list, for those of its limit that have this key, escaped.
    pub(crate) fn keyed(&self, limit: &str, mark: char, key: &str) -> Self {
        Self { limits: format!("{}+{limit}{mark}{key}", self.limits).into(), ..self.clone() }
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.priority.list())?;
        f.write_str(&self.limits)
    }
}
