//! What every Lua file keeps to.

use std::fs;
use std::path::Path;

use super::SCRIPTS;

/// The names and texts of the Lua files in this folder, as they stand there.
fn files(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store").join(folder);
    let entries = fs::read_dir(folder).expect("a folder of Lua files");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let lua = paths.filter(|path| path.extension().is_some_and(|ending| ending == "lua"));
    let file = |path: std::path::PathBuf| {
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        (name, fs::read_to_string(path).expect("a Lua file"))
    };
    let mut files: Vec<_> = lua.map(file).collect();
    files.sort();
    files
}

/// The numbers of the keys or arguments that the head tells of.
fn documented(text: &str, what: &str) -> Vec<usize> {
    let numbers = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("-- ")?.strip_prefix(what)?.strip_prefix('[')?;
        let (first, last) = {
            let number = rest.split(']').next()?;
            number.split_once("..").unwrap_or((number, number))
        };
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    numbers.flatten().collect()
}

fn code(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("--"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_script_is_in_the_list() {
    let files = files("lua");
    let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
    let mut listed: Vec<_> = SCRIPTS.iter().map(|(name, _)| *name).collect();
    listed.sort_unstable();
    assert_eq!(names, listed);
}

#[test]
fn every_script_documents_what_it_uses() {
    for (name, text) in files("lua") {
        assert!(text.starts_with(&format!("-- {name}: ")), "{name}: first line");
        assert!(text.contains("\n-- Returns "), "{name}: says what it returns");
        let (_, whole) = SCRIPTS.iter().find(|(other, _)| *other == name).expect("listed");
        let code = code(whole);
        for what in ["KEYS", "ARGV"] {
            let said = documented(&text, what);
            assert_eq!(said, (1..=said.len()).collect::<Vec<_>>(), "{name}: {what} in order");
            if what == "KEYS" {
                for number in 1..=said.len() {
                    let used = code.contains(&format!("KEYS[{number}]"));
                    assert!(used, "{name}: KEYS[{number}] is used");
                }
            }
        }
        // Only a look and a figure may fail without a word.
        let caught = ["'HINCRBY'", "'HLEN'", "'ZCARD'", "'ZCOUNT'", "'ZRANGE'"]
            .map(|what| format!("redis.pcall({what}"));
        let code = caught.iter().fold(code, |code, caught| code.replace(caught, ""));
        for word in ["cjson", "cmsgpack", "#!lua", "redis.pcall"] {
            assert!(!code.contains(word), "{name}: no {word}");
        }
        assert!(!code.contains("] .."), "{name}: builds no key");
    }
}
