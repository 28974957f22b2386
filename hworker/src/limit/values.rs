//! What the arguments of a job say of its limits: the key, and how many jobs of the key run at once.

use std::fmt::{Display, Write as _};

/// What the arguments of one job say of its limits.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LimitValues {
    /// The value of the key; without one the job has no limit.
    pub key: Option<String>,
    /// How many jobs of the key run at once, or why that cannot be known.
    pub limit: Option<Result<u32, String>>,
}

/// An argument that is a key, or a part of one; `(&Key(&x)).part()` tells an `Option` apart ("autoref specialisation", as for
/// what a job returns).
#[derive(Debug)]
pub struct Key<'a, T: ?Sized>(pub &'a T);

/// Of a value.
pub trait OfValue {
    /// Its text.
    fn part(&self) -> Option<String>;
}

impl<T: Display + ?Sized> OfValue for Key<'_, T> {
    fn part(&self) -> Option<String> {
        let mut text = String::new();
        // A `Display` that fails gives what it wrote so far.
        let _ = write!(text, "{}", self.0);
        Some(text)
    }
}

/// Of a value that may be missing, which is then no key.
pub trait OfOption {
    /// Its text.
    fn part(&self) -> Option<String>;
}

impl<T: Display> OfOption for &Key<'_, Option<T>> {
    fn part(&self) -> Option<String> {
        Key(self.0.as_ref()?).part()
    }
}

/// The key that these parts make, in which each can be told apart; none where one is missing.
#[must_use]
pub fn key<const N: usize>(parts: [Option<String>; N]) -> Option<String> {
    let mut key = String::new();
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            key.push('|');
        }
        let part = part?;
        key.push_str(&if N > 1 { part.replace('%', "%%").replace('|', "%|") } else { part });
    }
    Some(key)
}

/// How many jobs of a key run at once, from an argument.
///
/// # Errors
/// A text, where it is none.
pub fn limit<T: TryInto<u32>>(value: T) -> Result<u32, String> {
    match value.try_into() {
        Ok(0) | Err(_) => {
            Err("the limit that its arguments give is not from 1 to 4294967295".into())
        }
        Ok(limit) => Ok(limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    // As generated code calls it.
    #[allow(clippy::needless_borrow)]
    fn an_option_without_a_value_is_no_key() {
        assert_eq!((&Key(&7)).part().as_deref(), Some("7"));
        assert_eq!((&Key("a")).part().as_deref(), Some("a"));
        assert_eq!((&Key(&Some(7))).part().as_deref(), Some("7"));
        assert_eq!((&Key(&None::<u8>)).part(), None);
    }

    #[test]
    fn parts_of_a_key_can_be_told_apart() {
        let of = |parts: [&str; 2]| key(parts.map(|part| Some(part.to_owned())));
        assert_eq!(of(["a", "b"]).as_deref(), Some("a|b"));
        assert_ne!(of(["a|", "b"]), of(["a", "|b"]));
        assert_eq!(key([Some("a|b".into())]).as_deref(), Some("a|b"));
        assert_eq!(key([Some("a".into()), None]), None);
    }

    #[test]
    fn a_limit_is_at_least_one() {
        assert_eq!(limit(3_u8), Ok(3));
        assert!(limit(0_u32).is_err() && limit(-1_i64).is_err() && limit(1_u64 << 40).is_err());
    }
}
