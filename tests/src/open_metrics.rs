//! Reads OpenMetrics text, and fails on what Prometheus would not take.

use std::collections::{BTreeMap, BTreeSet};

/// The value of each series, by its name with its labels as they stand there.
///
/// # Panics
/// Where the text is not valid: no one end, a sample of no family or outside of it, a broken label, a series that is there twice.
pub fn open_metrics(text: &str) -> BTreeMap<String, f64> {
    let body = text.strip_suffix("# EOF\n").unwrap_or_else(|| panic!("no end: {text}"));
    let (mut series, mut families, mut family) = (BTreeMap::new(), BTreeSet::new(), "");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.split(' ');
            let (word, name) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            assert!(["HELP", "TYPE", "UNIT"].contains(&word) && is_name(name), "{line}");
            if name != family {
                assert!(families.insert(name), "the family {name} is there twice");
                family = name;
            }
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
        let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
        let rest = name.strip_prefix(family).unwrap_or_else(|| panic!("not of {family}: {line}"));
        let is_of_it = ["", "_total", "_bucket", "_count", "_sum", "_info"].contains(&rest);
        assert!(is_of_it && is_name(name) && are_labels(labels), "{line}");
        let value = value.parse().unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(series.insert(sample.to_owned(), value).is_none(), "twice: {line}");
    }
    series
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether this is `name="value",..}`, with what a value must not have behind backslashes.
fn are_labels(labels: &str) -> bool {
    let Some(mut rest) = labels.strip_suffix('}') else { return false };
    while let Some((name, value)) = rest.split_once("=\"") {
        let mut is_escaped = false;
        let end = value.bytes().position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        });
        let Some(end) = end.filter(|_| is_name(name)) else { return false };
        rest = &value[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    rest.is_empty()
}
