//! No two files of the library import each other, directly or through others, so each can be read with what is below it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

/// A module or an item, by its names from the root of the crate.
type Names = Vec<String>;

/// What one file imports.
struct File {
    module: Names,
    /// The children that it declares and that only tests have.
    of_tests: Vec<String>,
    /// The children whose files have other names, with those names.
    elsewhere: Vec<(String, String)>,
    uses: Vec<Use>,
    /// The paths that stand in its code, and the single words.
    paths: Vec<Names>,
    words: BTreeSet<String>,
}

/// One name of a `use` statement.
struct Use {
    path: Names,
    name: String,
    is_public: bool,
}

/// The code as words, `::` and single signs, without comments, strings and the tests at its end.
fn tokens(source: &str) -> Vec<String> {
    let source = format!("\n{source}");
    let source = source.split("\n#[cfg(test)]").collect::<Vec<_>>();
    let is_code = |part: &&str| {
        let item = part.trim_start().trim_start_matches("pub(super) ");
        !(item.starts_with("mod ") && item.lines().next().is_some_and(|line| line.ends_with('{')))
    };
    // Tests in the file are its last item.
    let source = source.iter().enumerate().take_while(|(at, part)| *at == 0 || is_code(part));
    let source = source.map(|(_, part)| *part).collect::<Vec<_>>().join("\n#[cfg(test)]");
    let mut tokens = Vec::new();
    let mut rest = source.as_str();
    while let Some(c) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(text) = rest.strip_prefix("r#\"") {
            3 + text.find("\"#").map_or(text.len(), |end| end + 2)
        } else if c == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let is_end = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                is_end
            });
            let length = end.map_or(rest.len(), |end| end + 2);
            // The name of a file is needed.
            tokens.push(rest[..length].to_owned());
            length
        } else if rest.starts_with("'\"'") {
            3
        } else if is_word(c) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(rest[..length].to_owned());
            length
        } else if rest.starts_with("::") {
            tokens.push("::".into());
            2
        } else {
            if !c.is_whitespace() {
                tokens.push(c.into());
            }
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// Reads the rest of a `use` statement, after these names, up to its `;`, `,` or `}`.
fn read_use(tokens: &[String], at: &mut usize, before: &[String], uses: &mut Vec<(Names, String)>) {
    let mut path = before.to_vec();
    let (mut renamed, mut any) = (None, false);
    while let Some(token) = tokens.get(*at) {
        match token.as_str() {
            ";" | "," | "}" => break,
            "::" => {}
            "as" => {
                *at += 1;
                renamed = tokens.get(*at).cloned();
            }
            "{" => {
                while tokens.get(*at).is_some_and(|token| token != "}") {
                    *at += 1;
                    read_use(tokens, at, &path, uses);
                }
                *at += 1;
                return;
            }
            name => {
                path.push(name.to_owned());
                any = true;
            }
        }
        *at += 1;
    }
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    // Behind the last comma of a list there is nothing.
    if any {
        let name = renamed.or_else(|| path.last().cloned()).unwrap_or_default();
        uses.push((path, name));
    }
}

fn read(module: Names, source: &str) -> File {
    let (of_tests, elsewhere) = (Vec::new(), Vec::new());
    let (uses, paths, words) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut file = File { module, of_tests, elsewhere, uses, paths, words };
    let tokens = tokens(source);
    let word = |at: usize| tokens.get(at).map_or("", String::as_str);
    // Since the last item ended.
    let (mut at, mut item) = (0, 0);
    while at < tokens.len() {
        match word(at) {
            "use" => {
                let is_public = tokens[item..at].iter().any(|token| token == "pub");
                let mut found = Vec::new();
                at += 1;
                read_use(&tokens, &mut at, &[], &mut found);
                item = at + 1;
                file.uses.extend(found.into_iter().map(|(path, name)| Use {
                    path,
                    name,
                    is_public,
                }));
            }
            "mod" if word(at + 2) == ";" => {
                let attributes = &tokens[item..at];
                let name = word(at + 1).to_owned();
                let is_path = |two: &&[String]| two[0] == "=" && two[1].ends_with(".rs\"");
                if let Some(path) = attributes.windows(2).find(is_path) {
                    file.elsewhere.push((name, path[1].trim_matches('"').to_owned()));
                } else if attributes.iter().any(|token| token == "test")
                    && !attributes.iter().any(|token| token == "any")
                {
                    file.of_tests.push(name);
                }
                at += 2;
                item = at + 1;
            }
            ";" | "}" | "{" => item = at + 1,
            // Where an item can be seen is no import: `pub(in crate::client)`.
            "in" if at > 1 && word(at - 1) == "(" && word(at - 2) == "pub" => {
                at += tokens[at..].iter().position(|token| token == ")").unwrap_or(0);
            }
            first if word(at + 1) == "::" => {
                let mut path = vec![first.to_owned()];
                while word(at + 1) == "::" && word(at + 2).starts_with(char::is_alphabetic) {
                    at += 2;
                    path.push(word(at).to_owned());
                }
                file.words.insert(path[0].clone());
                file.paths.push(path);
            }
            one => {
                file.words.insert(one.to_owned());
            }
        }
        at += 1;
    }
    file
}

/// The files of a library by their paths.
struct Library {
    files: BTreeMap<String, File>,
    modules: BTreeMap<Names, String>,
}

impl Library {
    fn of(sources: &BTreeMap<String, String>) -> Self {
        let mut files: BTreeMap<_, _> = sources
            .iter()
            .map(|(path, source)| {
                let names = path.trim_end_matches(".rs").split('/').map(str::to_owned);
                let mut module: Names = names.collect();
                if module.last().is_some_and(|last| last == "mod" || last == "lib") {
                    module.pop();
                }
                (path.clone(), read(module, source))
            })
            .collect();
        let inside = |module: &Names, name: &str| {
            let name = name.trim_end_matches(".rs").split('/').map(str::to_owned);
            module.iter().cloned().chain(name).collect::<Names>()
        };
        let (mut of_tests, mut moved) = (BTreeSet::new(), BTreeMap::new());
        for (path, file) in &files {
            of_tests.extend(file.of_tests.iter().map(|name| inside(&file.module, name)));
            for (name, elsewhere) in &file.elsewhere {
                let is_folder = path.ends_with("mod.rs") || path.ends_with("lib.rs");
                let folder = if is_folder {
                    &file.module[..]
                } else {
                    &file.module[..file.module.len() - 1]
                };
                moved.insert(inside(&folder.to_vec(), elsewhere), inside(&file.module, name));
            }
        }
        files.retain(|_, file| !of_tests.iter().any(|module| file.module.starts_with(module)));
        for file in files.values_mut() {
            if let Some(module) = moved.get(&file.module) {
                file.module.clone_from(module);
            }
        }
        let modules = files.iter().map(|(path, file)| (file.module.clone(), path.clone()));
        // Of two files for one module the first is where others find it; both import.
        let mut by_module = BTreeMap::new();
        modules.for_each(|(module, path)| {
            by_module.entry(module).or_insert(path);
        });
        Self { files, modules: by_module }
    }

    /// The file that has what a path of this module names. `None` where that is no part of the library.
    fn file_of(&self, module: &Names, path: &[String], deep: usize) -> Option<&str> {
        let (mut now, mut rest) = (module.clone(), path);
        match rest.first()?.as_str() {
            "crate" => now.clear(),
            "self" => {}
            "super" => {
                now.pop()?;
            }
            child => {
                now.push(child.to_owned());
                if module.is_empty() && child == "std" || !self.modules.contains_key(&now) {
                    return None;
                }
            }
        }
        rest = &rest[1..];
        while let Some((name, after)) = rest.split_first() {
            let inside: Names = now.iter().cloned().chain([name.clone()]).collect();
            if name == "super" {
                now.pop()?;
            } else if self.modules.contains_key(&inside) {
                now = inside;
            } else {
                break;
            }
            rest = after;
        }
        let here = self.modules.get(&now)?;
        let reexported = rest.first().filter(|_| deep < 8).and_then(|name| {
            let found = self.files[here].uses.iter().find(|one| one.name == *name)?;
            self.file_of(&now, &found.path, deep + 1)
        });
        Some(reexported.unwrap_or(here))
    }

    fn imports_of(&self, path: &str, file: &File) -> BTreeSet<&str> {
        // What is only re-exported is not used here.
        let used = file.uses.iter().filter(|one| !one.is_public || file.words.contains(&one.name));
        let paths = used.map(|one| &one.path).chain(&file.paths);
        let files = paths.filter_map(|names| self.file_of(&file.module, names, 0));
        files.filter(|used| *used != path).collect()
    }

    /// The shortest circle through each file that is in one, each circle once.
    fn circles(&self) -> BTreeSet<String> {
        let files = self.files.iter();
        let imports: BTreeMap<&str, _> =
            files.map(|(path, file)| (path.as_str(), self.imports_of(path, file))).collect();
        let mut circles = BTreeSet::new();
        for start in imports.keys() {
            let mut from = BTreeMap::new();
            let mut open = VecDeque::from([*start]);
            while let Some(file) = open.pop_front() {
                for next in imports.get(file).into_iter().flatten() {
                    if !from.contains_key(next) {
                        from.insert(*next, file);
                        open.push_back(next);
                    }
                }
            }
            let Some(mut last) = from.get(start) else { continue };
            let mut circle = vec![*start];
            while last != start {
                circle.push(last);
                last = &from[last];
            }
            circle.reverse();
            let first = (0..circle.len()).min_by_key(|at| circle[*at]).unwrap_or(0);
            circle.rotate_left(first);
            circle.push(circle[0]);
            circles.insert(circle.join(" -> "));
        }
        circles
    }
}

fn collect(root: &Path, folder: &Path, sources: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("the sources") {
        let path = entry.expect("an entry").path();
        let name = path.strip_prefix(root).expect("inside").to_str().expect("a name").to_owned();
        if path.is_dir() {
            collect(root, &path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.insert(name, fs::read_to_string(&path).expect("a source file"));
        }
    }
}

#[test]
fn no_file_imports_one_that_imports_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = BTreeMap::new();
    collect(&root, &root, &mut sources);
    let circles = Library::of(&sources).circles();
    assert!(circles.is_empty(), "\n{}", circles.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn circles_are_found_however_they_are_written() {
    let circles = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(path, source)| (path.to_string(), source.to_string()));
        Library::of(&files.collect()).circles().into_iter().collect::<Vec<_>>()
    };
    let lib = ("lib.rs", "mod a;\nmod b;");
    // A list over several lines, and a path in code.
    let list = ("a.rs", "use std::fmt;\nuse crate::{\n    b::{self, B},\n};");
    let found = ["a.rs -> b.rs -> a.rs"];
    assert_eq!(circles(&[lib, list, ("b.rs", "fn f() { crate::a::f(); }")]), found);
    assert_eq!(circles(&[lib, list, ("b.rs", "use super::a::A as Other;")]), found);
    for harmless in [
        "// crate::a::f",
        r#"const A: &str = "crate::a::f";"#,
        "use crate::b::f;",
        "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}",
        "#[cfg(test)]\nmod tests;",
    ] {
        let tests = ("b/tests.rs", "use crate::a::A;");
        assert_eq!(circles(&[lib, list, ("b.rs", harmless), tests]), [""; 0], "{harmless}");
    }

    // A re-export stands for the file that defines the item.
    let lib = ("lib.rs", "mod a;");
    let child = ("a/c.rs", "use super::d::D;\npub struct C;");
    let other = ("a/d.rs", "use super::C;\npub struct D;");
    let parent = ("a/mod.rs", "mod c;\nmod d;\npub(crate) use c::C;");
    assert_eq!(circles(&[lib, parent, child, other]), ["a/c.rs -> a/d.rs -> a/c.rs"]);

    // A child may use its parent while the parent only re-exports it.
    let child = ("a/c.rs", "use super::A;\npub struct C;");
    let parent =
        |more| ("a.rs", ["mod c;\npub use c::C;\npub struct A;\n", more].concat().leak() as &str);
    assert_eq!(circles(&[lib, parent(""), child]), [""; 0]);
    let found = ["a.rs -> a/c.rs -> a.rs"];
    assert_eq!(circles(&[lib, parent("fn f(_: C) {}"), child]), found);
    assert_eq!(circles(&[lib, parent("fn f() { c::f() }"), child]), found);

    // The file of a module may have another name.
    let lib = ("lib.rs", "mod a;\n#[cfg_attr(not(x), path = \"b/without.rs\")]\nmod b;");
    let (a, b) = (("a.rs", "use crate::b::B;"), ("b.rs", "pub struct B;"));
    assert_eq!(circles(&[lib, a, b, ("b/without.rs", "use super::a::A;")]), [""; 0]);
    assert_eq!(
        circles(&[lib, a, ("b/without.rs", "use super::a::A;")]),
        ["a.rs -> b/without.rs -> a.rs"]
    );
}
