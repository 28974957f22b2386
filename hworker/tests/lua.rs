//! What every Lua file keeps to.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

#[path = "../src/store/lua/mod.rs"]
#[allow(dead_code, reason = "the tests use the texts alone")]
mod lua;

use lua::SCRIPTS;

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
        // Only a look, a figure and an event may fail without a word.
        let looks = [
            "'EXISTS'",
            "'HEXISTS'",
            "'HGET'",
            "'HGETALL'",
            "'HKEYS'",
            "'HRANDFIELD'",
            "'HINCRBY'",
            "'ZLEXCOUNT'",
            "'ZRANDMEMBER'",
            "'ZRANGEBYSCORE'",
            "'ZSCORE'",
            "'HLEN'",
            "'HMGET'",
            "'LLEN'",
            "'XADD'",
            "'ZCARD'",
            "'ZCOUNT'",
            "'ZRANGE'",
        ];
        let caught = looks.map(|what| format!("redis.pcall({what}"));
        let code = caught.iter().fold(code, |code, caught| code.replace(caught, ""));
        for word in ["cjson", "cmsgpack", "#!lua", "redis.pcall"] {
            assert!(!code.contains(word), "{name}: no {word}");
        }
    }
}

#[test]
fn every_script_builds_keys_from_prefixes_alone() {
    let parts = files("lua/lib");
    for (name, mut text) in files("lua") {
        // What is a script too is checked by itself.
        for (part, part_text) in &parts {
            text = text.replace(&format!("-- include {part}\n"), part_text);
        }
        assert_eq!(check_keys(&text), Ok(()), "{name}");
    }
}

#[test]
fn every_part_says_what_it_needs_and_has_a_reason() {
    let parts = files("lua/lib");
    let users: Vec<_> = files("lua").into_iter().chain(parts.clone()).collect();
    for (name, text) in parts {
        assert!(text.starts_with(&format!("-- {name}: ")), "{name}: first line");
        assert!(text.contains("\n-- Needs "), "{name}: says what it needs");
        let code = code(&text);
        for word in ["KEYS", "ARGV"] {
            assert!(!tokens(&code).contains(&word), "{name}: no {word}");
        }
        // Of its functions it may, which are indented.
        assert!(!code.lines().any(|line| line.starts_with("return")), "{name}: it ends a script");
        let includes = format!("-- include {name}");
        let is_user = |text: &str| text.lines().any(|line| line.trim() == includes);
        let users: Vec<_> = users.iter().filter(|(_, text)| is_user(text)).collect();
        // Several use it, or the one that does would be too long to read.
        let is_long = |(_, user): &&(String, String)| user.lines().count() > 200;
        let has_reason = users.len() >= 2 || users.first().is_some_and(is_long);
        assert!(has_reason, "{name}: {} files include it", users.len());
    }
}

#[test]
fn what_is_included_stands_in_its_place() {
    for (name, text) in SCRIPTS {
        let left = text.lines().find(|line| line.trim_start().starts_with("-- include"));
        assert_eq!(left, None, "{name}");
    }
    let (_, both) = SCRIPTS.iter().find(|(name, _)| *name == "settle_and_reserve").expect("listed");
    for half in ["settle", "reserve"] {
        let (_, text) = SCRIPTS.iter().find(|(name, _)| *name == half).expect("listed");
        assert!(
            both.contains(&format!("local function {half}(KEYS, ARGV)\n{text}end\n")),
            "{half}"
        );
    }
}

/// The words, strings and signs of a Lua text, without its comments.
fn tokens(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if first == '\'' || first == '"' {
            // No string of ours has an escaped quote.
            rest[1..].find(first).expect("the end of a string") + 2
        } else if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else {
            let long = ["...", "..", "==", "~=", "<=", ">="];
            long.iter().find(|sign| rest.starts_with(**sign)).map_or(1, |sign| sign.len())
        };
        let (token, after) = rest.split_at(length);
        if !token.starts_with("--") {
            tokens.push(token);
        }
        rest = after.trim_start();
    }
    tokens
}

/// The number of the key that these tokens begin with, as `KEYS[1]`.
fn spelled_key(tokens: &[&str]) -> Option<usize> {
    match tokens {
        ["KEYS", "[", number, "]", ..] => number.parse().ok(),
        _ => None,
    }
}

/// The names that a script gives to its keys, and the places of the tokens with which it does.
fn names<'a>(tokens: &[&'a str]) -> Result<(HashMap<&'a str, usize>, HashSet<usize>), String> {
    let (mut names, mut places) = (HashMap::new(), HashSet::new());
    for start in (0..tokens.len()).filter(|&at| tokens[at] == "local") {
        let mut at = start + 1;
        while tokens.get(at + 1) == Some(&",") {
            at += 2;
        }
        let variables: Vec<_> = tokens[start + 1..=at].iter().step_by(2).copied().collect();
        if tokens.get(at + 1) != Some(&"=") || tokens.get(at + 2) != Some(&"KEYS") {
            continue;
        }
        at += 1;
        let mut values = HashMap::new();
        for variable in &variables {
            let Some(number) = spelled_key(tokens.get(at + 1..).unwrap_or_default()) else {
                return Err(format!("`{variable}` is named among keys, and is none"));
            };
            values.insert(*variable, number);
            at += 5;
        }
        match tokens.get(at) {
            // It names what is built from the last of them.
            Some(&"..") => continue,
            Some(&",") => return Err(format!("more keys than `{}`", variables.join(", "))),
            _ => {}
        }
        names.extend(values);
        places.extend(start..at);
    }
    Ok((names, places))
}

/// Whether a script builds no key but from a declared prefix.
fn check_keys(text: &str) -> Result<(), String> {
    let types = ["STRING", "LIST", "HASH", "ZSET", "STREAM", "ANY", "PREFIX", "LIST+"];
    let (mut prefixes, mut lists) = (HashSet::new(), HashSet::new());
    for number in documented(text, "KEYS") {
        let head = format!("-- KEYS[{number}] ");
        let Some(line) = text.lines().find_map(|line| line.strip_prefix(&head)) else { continue };
        match line.split_whitespace().nth(1) {
            Some("PREFIX") => _ = prefixes.insert(number),
            Some("LIST+") => _ = lists.insert(number),
            Some(kind) if types.contains(&kind) => {}
            _ => return Err(format!("KEYS[{number}] has no type")),
        }
    }
    let tokens = tokens(text);
    let (names, naming) = names(&tokens)?;
    // Of each bracket that is open, whether what is in it becomes a text.
    let mut makes_text = Vec::new();
    for at in (0..tokens.len()).filter(|at| !naming.contains(at)) {
        let (token, rest) = (tokens[at], &tokens[at + 1..]);
        let before = at.checked_sub(1).map_or("", |before| tokens[before]);
        match token {
            "(" => {
                let called = &tokens[at.saturating_sub(3)..at];
                makes_text.push(matches!(called, ["string", ".", _] | ["table", ".", "concat"]));
            }
            "{" | "[" => makes_text.push(makes_text.last() == Some(&true)),
            ")" | "}" | "]" => _ = makes_text.pop(),
            _ => {}
        }
        if token.starts_with(['\'', '"']) && token.contains("hworker") {
            return Err(format!("{token} spells a key"));
        }
        if let ["call" | "pcall", "(", command, ",", key, ..] = &tokens[at..] {
            let is_built = matches!(tokens.get(at + 5), Some(&".."));
            if command.starts_with('\'') && key.starts_with('\'') {
                return Err(format!("{command} of {key}, which is no declared key"));
            }
            let may_begin = |number| prefixes.contains(number) || lists.contains(number);
            if is_built && !names.get(key).is_some_and(may_begin) {
                return Err(format!("{command} of a key that is built from `{key}`"));
            }
        }
        let spelled = spelled_key(&tokens[at..]);
        if token == "KEYS" && spelled.is_none() && !rest.starts_with(&[",", "ARGV"]) {
            return Err("KEYS without a number".into());
        }
        let is_field = matches!(before, "." | ":");
        let by_name = names.get(token).filter(|_| !is_field).copied();
        let Some(number) = spelled.or(by_name) else {
            let closes_key = at >= 3 && spelled_key(&tokens[at - 3..]).is_some();
            if token == "]" && rest.first() == Some(&"..") && !closes_key {
                return Err("what is built from an element of a table may be a key".into());
            }
            continue;
        };
        let after = if spelled.is_some() { rest.get(3) } else { rest.first() };
        let after = after.copied().unwrap_or_default();
        if makes_text.last() == Some(&true) || after == ":" {
            return Err(format!("a text is made of KEYS[{number}]"));
        }
        if prefixes.contains(&number) {
            if after != ".." || matches!(before, ".." | "#") {
                return Err(format!("KEYS[{number}] is a prefix, and here none"));
            }
        } else if lists.contains(&number) && after == ".." && !matches!(before, ".." | "#") {
            // It begins the key of a list beside it.
        } else if before == ".." || after == ".." {
            return Err(format!("a key is built from KEYS[{number}], which is no prefix"));
        } else if before == "=" || after == "=" {
            return Err(format!("KEYS[{number}] has a second name, or a second value"));
        } else if makes_text.is_empty() {
            return Err(format!("KEYS[{number}] is named apart from the others"));
        }
    }
    Ok(())
}

#[test]
fn only_a_prefix_may_begin_a_key() {
    let check = |code: &str| {
        let head = "-- KEYS[1] jobs  LIST    envelopes\n-- KEYS[2] line  PREFIX  of a LIST each gate\n\
            -- KEYS[3] both  LIST+   envelopes\n";
        check_keys(&format!("{head}local call = redis.call\n{code}"))
    };
    for fine in [
        "local jobs, line = KEYS[1], KEYS[2]\ncall('RPUSH', line .. ARGV[1], call('RPOP', jobs))",
        "local jobs, line =\n  KEYS[1], KEYS[2]\nlocal ids = line .. gate .. '=' .. value\ncall('LLEN', ids)",
        "call('LLEN', KEYS[1])\nlocal ids = KEYS[2] .. ARGV[1]",
        "local jobs = KEYS[1]\nlocal needed = {[jobs] = 'LLEN'}\nneeded[jobs] = 'LLEN'",
        "local jobs = KEYS[1]\nlocal name = '(' .. after -- jobs .. after",
        "local jobs = KEYS[1]\nlocal size = string.format('%d', call('LLEN', jobs))",
        "local function inner(KEYS, ARGV)\nend\ninner({KEYS[1]}, ARGV)",
        "local both = KEYS[3]\nlocal other = both .. ':' .. ARGV[1]\ncall('LMOVE', both, other)",
    ] {
        assert_eq!(check(fine), Ok(()), "{fine}");
    }
    for refused in [
        // Of a key that is no prefix.
        "local jobs = KEYS[1]\ncall('LLEN', jobs .. ARGV[1])",
        "local jobs = KEYS[1]\nlocal other = jobs..ARGV[1]",
        "local other = KEYS[1] .. ARGV[1]",
        "local jobs = KEYS[1]\nlocal other = 'a' .. jobs",
        "local jobs = KEYS[1]\nlocal other = string.format('%s:%s', jobs, ARGV[1])",
        "local jobs = KEYS[1]\nlocal other = table.concat({jobs, ARGV[1]})",
        "local jobs = KEYS[1]\nlocal other = jobs:rep(2)",
        // Of a key under another name.
        "local jobs = KEYS[1]\nlocal other = jobs\ncall('LLEN', other .. ARGV[1])",
        "local jobs = KEYS[1]\njobs = ARGV[1]",
        "other = KEYS[1]",
        "local first, jobs = ARGV[1], KEYS[1]",
        "local jobs, first = KEYS[1], ARGV[1]",
        "local jobs = KEYS[1], KEYS[2]",
        "local keys = {KEYS[1]}\nlocal other = keys[1] .. ARGV[1]",
        "local jobs = KEYS[tonumber(ARGV[1])]",
        "for _, key in ipairs(KEYS) do call('LLEN', key) end",
        // Of nothing that is declared.
        "call('LLEN', 'jobs')",
        "call('LLEN', queue .. ':jobs')",
        "redis.pcall('LLEN', queue .. ':jobs')",
        "local other = 'hworker-jobs-' .. ARGV[1]",
        "local other = ARGV[1] .. 'jobs'",
        // A prefix alone, or not in front.
        "local line = KEYS[2]\ncall('LLEN', line)",
        "call('LLEN', KEYS[2])",
        "local line = KEYS[2]\nlocal other = line\ncall('LLEN', other .. ARGV[1])",
        "local line = KEYS[2]\nlocal other = ARGV[1] .. line .. 'x'",
        "local line = KEYS[2]\nlocal other = string.format('%s', line .. ARGV[1])",
        "local both = KEYS[3]\nlocal other = ARGV[1] .. both .. 'x'",
        "local both = KEYS[3]\nlocal other = both",
        "local both = KEYS[3]\nboth = ARGV[1]",
    ] {
        assert!(check(refused).is_err(), "{refused}");
    }
    assert!(check_keys("-- KEYS[1] jobs of a queue\nlocal jobs = KEYS[1]").is_err(), "no type");
}
