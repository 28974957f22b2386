//! What the comments of tests name exists, tests do not sleep without a word why, and nothing passes by maud's escaping into the page.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files of these folders with one of these endings.
fn files(folders: &[&str], endings: &[&str]) -> Vec<PathBuf> {
    let mut open: Vec<_> = folders.iter().map(|folder| root().join(folder)).collect();
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            let entries = fs::read_dir(&path).expect("a folder");
            open.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|is| endings.iter().any(|ending| is == *ending)) {
            files.push(path);
        }
    }
    files
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.len() > 1)
}

/// The text without its comments.
fn code(text: &str) -> String {
    let is_code = |line: &&str| !["//", "--", "#"].iter().any(|sign| line.trim().starts_with(sign));
    text.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

/// What stands in backticks in each comment that names guards.
fn guards(text: &str) -> Vec<(usize, String)> {
    let mut named = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let Some(first) = line.trim().strip_prefix("// Guard:") else { continue };
        let mut comment = first.to_owned();
        while let Some((_, next)) = lines.next_if(|(_, next)| next.trim().starts_with("// ")) {
            comment.push_str(next.trim().trim_start_matches('/'));
        }
        named.extend(
            comment.split('`').skip(1).step_by(2).map(|name| (number + 1, name.to_owned())),
        );
    }
    named
}

#[test]
fn every_guard_that_a_comment_names_exists() {
    let mut sources =
        files(&["Cargo.toml", "hworker", "hworker-macros", "tests"], &["rs", "lua", "toml"]);
    sources.extend(files(&["hworker"], &["js", "css"]));
    let code: Vec<_> = sources
        .iter()
        .map(|path| code(&fs::read_to_string(path).expect("a source file")))
        .collect();
    let code: Vec<HashSet<&str>> = code.iter().map(|code| words(code).collect()).collect();
    let exists = |name: &str| {
        let ending = Path::new(name).extension();
        if ending.is_some_and(|ending| ["rs", "lua", "toml"].iter().any(|one| ending == *one)) {
            return sources.iter().any(|path| path.ends_with(name));
        }
        // What is in what, as `module::function` and `Type::method`, is to be found in one file.
        sources.iter().zip(&code).any(|(path, code)| {
            let is_module = |word| path.components().any(|part| part.as_os_str() == word);
            let is_stem = |word: &str| path.file_stem().is_some_and(|stem| stem == word);
            words(name).all(|word| code.contains(word) || is_stem(word) || is_module(word))
        })
    };
    let mut missing = Vec::new();
    for path in &sources {
        let text = fs::read_to_string(path).expect("a source file");
        for (number, name) in guards(&text).into_iter().filter(|(_, name)| !exists(name)) {
            missing.push(format!("{}:{number}: `{name}`", path.display()));
        }
    }
    assert!(missing.is_empty(), "guards that are not there:\n{}", missing.join("\n"));
}

#[test]
fn no_test_sleeps_without_a_word_why() {
    let mut silent = Vec::new();
    for path in files(&["tests/tests", "hworker/src"], &["rs"]) {
        let text = fs::read_to_string(&path).expect("a source file");
        let lines: Vec<_> = text.lines().collect();
        // In the sources only what tests do.
        let from = if path.starts_with(root().join("tests")) {
            0
        } else {
            lines.iter().position(|line| line.contains("#[cfg(test)]")).unwrap_or(lines.len())
        };
        for at in from..lines.len() {
            let sleeps = lines[at].contains("sleep(Duration") || lines[at].contains("sleep(outage");
            let told =
                lines[at.saturating_sub(3)..at].iter().any(|line| line.trim().starts_with("// "));
            if sleeps && !told {
                silent.push(format!("{}:{}", path.display(), at + 1));
            }
        }
    }
    assert!(silent.is_empty(), "say for what event outside each waits:\n{}", silent.join("\n"));
}

#[test]
fn all_that_the_page_shows_is_escaped() {
    // Strings that are put together here, so that this file is none that has them.
    let unescaped =
        [["Pre", "Escaped"].concat(), ["inner", "HTML"].concat(), ["style", "=\""].concat()];
    let handlers = ["click", "load", "error", "submit"].map(|event| format!(" on{event}=\""));
    let mut wrong = Vec::new();
    for path in files(&["hworker/src/web"], &["rs", "js"]) {
        let text = fs::read_to_string(&path).expect("a source file");
        // Tests show what must not come through.
        let code = code(text.split("#[cfg(test)]").next().unwrap_or_default());
        let found = unescaped.iter().chain(&handlers).filter(|word| code.contains(*word));
        wrong.extend(found.map(|word| format!("{}: {word}", path.display())));
    }
    assert!(
        wrong.is_empty(),
        "maud escapes, and the policy of the page allows no more:\n{}",
        wrong.join("\n")
    );
}
