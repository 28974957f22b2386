//! Links in the documents lead to files and headings that are there, and every setting is documented.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// Where the README finds the other documents: it is the page of the crate too, whose package has none of them.
const REPOSITORY: &str = "https://github.com/hworker/hworker/blob/main/";

/// Folders of documents, from that of the workspace.
const FOLDERS: [&str; 4] = ["", "docs", "hworker-macros/src", "tests/bench"];

/// The lines that are no code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// What is linked to: `[text](target)` and `[text]: target`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let defined = line.strip_prefix('[').and_then(|line| line.split_once("]: ")).map(|(_, to)| to);
    inline.chain(defined)
}

/// What is linked to by a label that the document defines: `[text][label]`.
fn labels(line: &str) -> impl Iterator<Item = &str> {
    line.split("][").skip(1).filter_map(|rest| rest.split(']').next())
}

/// What comes after a `#` to reach each heading.
fn anchors(document: &Path) -> HashSet<String> {
    let text = fs::read_to_string(document).expect("a document");
    let headings = prose(&text).filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// What is wrong with a link, if anything is.
fn check(root: &Path, document: &Path, target: &str) -> Option<String> {
    let in_repository = target.strip_prefix(REPOSITORY);
    if in_repository.is_none() && target.contains("://") {
        return None;
    }
    let is_readme = document == root.join("README.md");
    if is_readme && in_repository.is_none() && !target.starts_with('#') {
        return Some(format!("is dead on the page of the crate; link to {REPOSITORY}{target}"));
    }
    let folder = if in_repository.is_some() { root } else { document.parent()? };
    let target = in_repository.unwrap_or(target);
    let (path, anchor) =
        target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let file = if path.is_empty() { document.to_owned() } else { folder.join(path) };
    if !file.exists() {
        return Some("is no file".into());
    }
    let missing = anchor.is_some_and(|anchor| !anchors(&file).contains(anchor));
    missing.then(|| "has no such heading".into())
}

#[test]
fn no_link_is_dead() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    let mut checked = 0;
    for folder in FOLDERS {
        let entries = fs::read_dir(root.join(folder)).expect("a folder of documents");
        let files =
            entries.map(|entry| root.join(folder).join(entry.expect("an entry").file_name()));
        for document in files.filter(|file| file.extension().is_some_and(|end| end == "md")) {
            let text = fs::read_to_string(&document).expect("a document");
            let undefined = prose(&text)
                .flat_map(labels)
                .filter(|label| !text.contains(&format!("\n[{label}]: ")));
            wrong.extend(
                undefined.map(|label| format!("{}: [{label}] is not defined", document.display())),
            );
            for target in prose(&text).flat_map(targets) {
                checked += 1;
                let why = check(&root, &document, target);
                wrong.extend(why.map(|why| format!("{}: {target} {why}", document.display())));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 100, "only {checked} links were found");
}

/// The settings that a text names between the two marks, in backquotes or quotes.
fn settings(text: &str, mark: char) -> HashSet<&str> {
    let quoted = text.split(mark).skip(1).step_by(2);
    let is_setting = |name: &&str| {
        let rest = name.strip_prefix("HWORKER_").unwrap_or_default();
        !rest.is_empty() && rest.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    quoted.filter(is_setting).collect()
}

#[test]
fn every_setting_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| fs::read_to_string(root.join(path)).expect("a file");
    let page = read("docs/configuration.md");
    let code = read("hworker/src/config.rs");
    let (_, known) = code.split_once("const KNOWN").expect("the list of settings");
    let known = known.split_once("];").map_or(known, |(known, _)| known);
    let (known, documented) = (settings(known, '"'), settings(&page, '`'));
    assert!(known.len() > 20, "only {} settings were found", known.len());
    let missing: Vec<_> = known.symmetric_difference(&documented).collect();
    assert!(missing.is_empty(), "only in the code or only on the page: {missing:?}");
}

#[test]
fn dead_links_are_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let wrong = |document: &str, target: &str| check(&root, &root.join(document), target).is_some();
    assert!(wrong("README.md", "docs/health.md"));
    assert!(wrong("README.md", &format!("{REPOSITORY}docs/no.md")));
    assert!(wrong("docs/health.md", "../README.md#no"));
    assert!(!wrong("docs/health.md", "../README.md#quick-start"));
    let line = "a [b](c.md) and [d](e#f), [g][h]";
    assert_eq!(targets(line).chain(labels(line)).collect::<Vec<_>>(), ["c.md", "e#f", "h"]);
}
