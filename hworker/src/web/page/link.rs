//! Addresses of pages, and which of them a form may send somebody back to.

use std::fmt::Write;

/// A text as a part of a path, or a value behind the question mark.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// A path with what is asked of it; what is empty is left out.
pub(super) fn with(path: &str, asked: &[(&str, &str)]) -> String {
    let mut link = path.to_owned();
    let mut sign = if path.contains('?') { '&' } else { '?' };
    for (name, value) in asked.iter().filter(|(_, value)| !value.is_empty()) {
        link.push(sign);
        link.push_str(name);
        link.push('=');
        link.push_str(&encode(value));
        sign = '&';
    }
    link
}

/// The overview: there is none with a slash behind where an app nests the page.
pub(super) fn overview(base: &str) -> &str {
    if base.is_empty() { "/" } else { base }
}

/// Where a form sends somebody back: a path of this page, else the overview.
pub(super) fn back<'a>(base: &'a str, wanted: &'a str) -> &'a str {
    let inside = wanted.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'));
    // A browser takes `//x` and `/\x` for other hosts, and leaves out what is no sign of an address.
    let is_path = !wanted.starts_with("//")
        && wanted.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\#\"<>".contains(&byte))
        && !wanted.split(['/', '?']).any(|part| part == ".." || part == ".");
    if inside && is_path { wanted } else { overview(base) }
}

/// An address without one of the things that are asked there.
pub(super) fn without(link: &str, name: &str) -> String {
    let Some((path, asked)) = link.split_once('?') else { return link.to_owned() };
    let is_other = |one: &&str| one.split('=').next() != Some(name) && !one.is_empty();
    let rest: Vec<_> = asked.split('&').filter(is_other).collect();
    if rest.is_empty() { path.to_owned() } else { format!("{path}?{}", rest.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_leave_their_place() {
        assert_eq!(encode("a b/c?d&e=f#é"), "a%20b%2Fc%3Fd%26e%3Df%23%C3%A9");
        assert_eq!(with("/x", &[("a", "1"), ("b", ""), ("c", "ü")]), "/x?a=1&c=%C3%BC");
        assert_eq!(with("/x?a=1", &[("b", "2")]), "/x?a=1&b=2");
        assert_eq!(without("/x?done=retry.1&a=2", "done"), "/x?a=2");
        assert_eq!(without("/x?done=retry.1", "done"), "/x");
        assert_eq!(without("/x", "done"), "/x");
    }

    #[test]
    fn nobody_is_sent_elsewhere() {
        for (base, wanted, is) in [
            ("", "/jobs?queue=a", "/jobs?queue=a"),
            ("/admin", "/admin/jobs", "/admin/jobs"),
            ("/admin", "/administrator", "/admin"),
            ("/admin", "/other", "/admin"),
            ("/admin", "", "/admin"),
            ("/admin", "/admin/../secret", "/admin"),
            ("", "", "/"),
            ("", "//evil.example", "/"),
            ("", "/\\evil.example", "/"),
            ("", "https://evil.example/", "/"),
            ("", "javascript:alert(1)", "/"),
            ("", "/x\r\nLocation: y", "/"),
            ("", "/\t/evil.example", "/"),
            ("", "/x#y", "/"),
            ("", "/ü", "/"),
        ] {
            assert_eq!(back(base, wanted), is, "{base} {wanted}");
        }
    }
}
