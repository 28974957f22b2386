//! What failures have in common: their group.

use serde::Serialize;

use crate::envelope::{AttemptError, JobId, bounded};
use crate::fnv;

/// How many bytes of a message stand for its group.
const SAMPLE_BYTES: usize = 300;

/// The group of a failure, 12 hex digits: of its job, its kind and where it panicked, else the first line of its message without what
/// differs from job to job. Two groups of a queue's 500 are one with a chance below 1 in a billion.
pub(crate) fn of(job: &str, error: &AttemptError) -> String {
    let what = error.place.clone().unwrap_or_else(|| in_common(&error.message));
    let hash = fnv::hash([job, &error.kind, &what].join("\0").as_bytes());
    format!("{:012x}", hash >> 16)
}

/// What is shown of a group, as JSON.
pub(crate) fn sample(job: &str, id: &JobId, error: &AttemptError) -> Vec<u8> {
    #[derive(Serialize)]
    struct Sample<'a> {
        job: &'a str,
        kind: &'a str,
        message: &'a str,
        id: &'a JobId,
    }
    let message = bounded(&error.message, SAMPLE_BYTES);
    let sample = Sample { job, kind: &error.kind, message: &message, id };
    serde_json::to_vec(&sample).unwrap_or_default()
}

/// The first line of a message, with each quoted text, path, number, and id replaced.
fn in_common(message: &str) -> String {
    let line: String = message.lines().next().unwrap_or_default().chars().take(1000).collect();
    let mut common = String::new();
    let mut rest = line.as_str();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || "_-./\\:@%+".contains(c);
        if "\"'`".contains(first) {
            // To the end where it is not closed.
            let closed = rest[1..].find(first).map_or(rest.len(), |end| end + 2);
            common.push('"');
            rest = &rest[closed..];
        } else if is_word(first) {
            let (word, after) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
            // An apostrophe within a word quotes nothing.
            let tail =
                after.strip_prefix('\'').filter(|tail| tail.starts_with(char::is_alphabetic));
            common.push_str(if differs(word) { "#" } else { word });
            rest = tail.unwrap_or(after);
        } else {
            common.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    common
}

/// Whether a word is likely to be another in the next job: it has a digit, is a path, or looks like a hash.
fn differs(word: &str) -> bool {
    let is_hash = word.len() >= 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    word.contains(|c: char| c.is_numeric() || c == '/' || c == '\\') || is_hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_job_to_job_is_not_in_common() {
        for (one, other) in [
            ("user 42 not found", "user 4711 not found"),
            ("no such file: /var/a/b.txt", "no such file: /tmp/c"),
            (
                "job 019ac1e2-7d5b-7c3e-9a41-3f0c5b7d2e68 is gone",
                "job f3b1a2c4-7d5b-4c3e-9a41-3f0c5b7d2e60 is gone",
            ),
            ("`ada` is unknown", "`bob and carol` is unknown"),
            ("timed out after 1.5s\nat a", "timed out after 30.2s\nat b"),
            ("bad digest deadbeefcafe", "bad digest abcdefabcdef"),
            ("can't reach 10.0.0.1:25", "can't reach 10.0.0.2:587"),
            ("\"open", "\"another that is open"),
        ] {
            assert_eq!(in_common(one), in_common(other));
        }
        for (one, other) in [
            ("user not found", "order not found"),
            ("can't reach the host", "can't find the host"),
            ("", "x"),
            ("größe", "länge"),
        ] {
            assert_ne!(in_common(one), in_common(other));
        }
    }
}
