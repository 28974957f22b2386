//! Whether JSON of one Rust type is read as another, as far as the names of standard types say it.

/// Nothing deeper is compared: somebody may have written it into the server.
const DEPTH: usize = 64;

/// Types that are written as a list.
const LISTS: [&str; 4] = ["Vec", "VecDeque", "HashSet", "BTreeSet"];

/// Types that are written as what is in them.
const POINTERS: [&str; 3] = ["Box", "Arc", "Rc"];

/// Whether all that the first type wrote is read as the second. What is not told fits.
pub(super) fn fits(was: &str, is: &str) -> bool {
    was.is_empty() || is.is_empty() || reads(was, is, 0)
}

fn reads(was: &str, is: &str, depth: usize) -> bool {
    if was == is {
        return true;
    }
    if depth > DEPTH {
        return false;
    }
    let reads = |was, is| reads(was, is, depth + 1);
    match (parts(was), parts(is)) {
        ((pointer, Some(was)), _) if POINTERS.contains(&pointer) => reads(was, is),
        (_, (pointer, Some(is))) if POINTERS.contains(&pointer) => reads(was, is),
        (("Option", Some(was)), ("Option", Some(is))) => reads(was, is),
        (_, ("Option", Some(is))) => reads(was, is),
        ((one, Some(was)), (other, Some(is))) => {
            let lists = [one, other].iter().all(|name| LISTS.contains(name));
            (one == other || lists) && reads(was, is)
        }
        ((was, None), (is, None)) => {
            let texts = [was, is].iter().all(|name| ["String", "str"].contains(name));
            was == is || texts || number(was, is)
        }
        _ => false,
    }
}

/// The name of a type without its path, and what is in its angle brackets.
fn parts(ty: &str) -> (&str, Option<&str>) {
    let (path, inner) = match ty.split_once('<') {
        Some((path, rest)) if rest.ends_with('>') => (path, rest.strip_suffix('>')),
        _ => (ty, None),
    };
    (path.rsplit("::").next().unwrap_or(path), inner)
}

fn number(was: &str, is: &str) -> bool {
    let is_float = |ty: &str| ty == "f32" || ty == "f64";
    match (integer(was), integer(is)) {
        (Some(was), Some(is)) => holds(was, is),
        (Some(_), None) => is_float(is),
        _ => is_float(was) && is_float(is),
    }
}

/// Whether an integer is signed, and how many bits it has.
fn integer(ty: &str) -> Option<(bool, u32)> {
    let (signed, bits) = match ty.strip_prefix('u') {
        Some(bits) => (false, bits),
        None => (true, ty.strip_prefix('i')?),
    };
    Some((signed, if bits == "size" { 64 } else { bits.parse().ok()? }))
}

/// Whether the second integer holds all values of the first. Of each whether it is signed, and how many bits it has.
pub(super) fn holds(was: (bool, u32), is: (bool, u32)) -> bool {
    match (was, is) {
        ((true, _), (false, _)) => false,
        ((false, was), (true, is)) => was < is,
        ((_, was), (_, is)) => was <= is,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_type_wrote_another_reads() {
        for (was, is) in [
            ("u8", "u8"),
            ("u8", "i16"),
            ("u32", "usize"),
            ("i64", "i128"),
            ("u64", "f64"),
            ("f32", "f64"),
            ("String", "std::string::String"),
            ("String", "Option<Box<str>>"),
            ("Option<u8>", "Option<u16>"),
            ("Vec<Kind>", "std::collections::BTreeSet<mail::Kind>"),
            ("Arc<Vec<u8>>", "Option<Vec<u32>>"),
            ("HashMap<String, u8>", "HashMap<String, u8>"),
            ("", "u8"),
        ] {
            assert!(fits(was, is), "{was} {is}");
        }
        for (was, is) in [
            ("u16", "u8"),
            ("i8", "u64"),
            ("u64", "i64"),
            ("f64", "u64"),
            ("u8", "String"),
            ("Option<u8>", "u8"),
            ("Vec<u8>", "u8"),
            ("Vec<u16>", "Vec<u8>"),
            ("Kind", "Sort"),
            ("Vec<u8>", "HashMap<u8>"),
        ] {
            assert!(!fits(was, is), "{was} {is}");
        }
        let deep = |inner: &str| "Option<".repeat(9_000) + inner + &">".repeat(9_000);
        assert!(!fits(&deep("u8"), &deep("u16")));
    }
}
