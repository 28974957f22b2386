//! Guards that can be taken out of the sources, so that it is seen whether the suite misses them.
//!
//! Each is a file: what is wrong without it, and blocks of lines as in a diff, without the place: a block is looked for in all
//! sources, whatever its indentation, and has to be there once, or under `@@ everywhere` at least once. So it fits wherever the code moves.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::report::Failure;

const GUARDS: &str = "tests/fire/guards";
const SOURCES: &str = "hworker/src";

type Sources = BTreeMap<PathBuf, Vec<String>>;

/// Lines that are to be others.
#[derive(Debug, Default)]
struct Swap {
    everywhere: bool,
    before: Vec<String>,
    after: Vec<String>,
}

/// Says whether each guard can still be taken out of the tree at `root`, and how many there are.
pub(crate) fn check(root: &Path) -> Result<usize, Failure> {
    let sources = sources(&root.join(SOURCES))?;
    let names = names(root)?;
    for name in &names {
        swapped(sources.clone(), name, &guard(root, name)?)?;
    }
    Ok(names.len())
}

/// Prints the name of each, and what is wrong without it.
pub(crate) fn list(root: &Path) -> Result<(), Failure> {
    for name in names(root)? {
        let about = guard(root, &name)?;
        let about: Vec<_> = about.lines().take_while(|line| !line.starts_with("@@")).collect();
        println!("{name}: {}", about.join(" ").trim());
    }
    Ok(())
}

/// Takes one out of the tree at `root`.
pub(crate) fn take_out(root: &Path, name: &str) -> Result<(), Failure> {
    let before = sources(&root.join(SOURCES))?;
    let after = swapped(before.clone(), name, &guard(root, name)?)?;
    for (path, lines) in after.iter().filter(|(path, lines)| before[*path] != **lines) {
        fs::write(path, lines.join("\n") + "\n")?;
    }
    Ok(())
}

fn names(root: &Path) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join(GUARDS))? {
        let name = entry?.file_name().into_string().unwrap_or_default();
        names.extend(name.strip_suffix(".swap").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn guard(root: &Path, name: &str) -> Result<String, Failure> {
    let path = root.join(GUARDS).join(name).with_extension("swap");
    let known = || names(root).unwrap_or_default().join(", ");
    fs::read_to_string(path)
        .map_err(|_| format!("there is no guard {name}, but {}", known()).into())
}

fn sources(under: &Path) -> Result<Sources, Failure> {
    let mut sources = Sources::new();
    for entry in fs::read_dir(under)? {
        let path = entry?.path();
        if path.is_dir() {
            sources.append(&mut self::sources(&path)?);
        } else {
            let lines = fs::read_to_string(&path)?.lines().map(str::to_owned).collect();
            sources.insert(path, lines);
        }
    }
    Ok(sources)
}

fn swapped(mut sources: Sources, name: &str, guard: &str) -> Result<Sources, Failure> {
    for swap in swaps(guard) {
        let mut places = 0;
        for lines in sources.values_mut() {
            places += swap.make(lines);
        }
        if places != 1 && !(swap.everywhere && places > 1) {
            let first = swap.before.first().map_or("", |line| line.trim());
            return Err(format!(
                "the guard {name}: the lines from `{first}` are in {places} places"
            )
            .into());
        }
    }
    Ok(sources)
}

fn swaps(guard: &str) -> Vec<Swap> {
    let mut swaps: Vec<Swap> = Vec::new();
    for line in guard.lines() {
        if let Some(which) = line.strip_prefix("@@") {
            swaps.push(Swap { everywhere: which.trim() == "everywhere", ..Swap::default() });
        } else if let Some(swap) = swaps.last_mut() {
            let (sign, text) = line.split_at_checked(1).unwrap_or((" ", ""));
            if sign != "+" {
                swap.before.push(text.to_owned());
            }
            if sign != "-" {
                swap.after.push(text.to_owned());
            }
        }
    }
    swaps
}

impl Swap {
    /// Makes it in these lines; says in how many places.
    fn make(&self, lines: &mut Vec<String>) -> usize {
        let (mut at, mut places) = (0, 0);
        let count = self.before.len();
        while count > 0 && at + count <= lines.len() {
            let there = lines[at..at + count].iter().zip(&self.before);
            if !there.into_iter().all(|(line, before)| line.trim() == before.trim()) {
                at += 1;
                continue;
            }
            places += 1;
            let (is, was) = (indentation(&lines[at]), indentation(&self.before[0]));
            let after = self.after.iter().map(|line| {
                let own = (is + indentation(line)).saturating_sub(was);
                if line.trim().is_empty() {
                    String::new()
                } else {
                    " ".repeat(own) + line.trim_start()
                }
            });
            let after: Vec<_> = after.collect();
            let next = at + after.len();
            lines.splice(at..at + count, after);
            at = next;
        }
        places
    }
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_guard_can_be_taken_out() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert!(check(&root).expect("each fits") > 0);
    }

    #[test]
    fn lines_are_swapped_where_they_stand_and_only_there() {
        let source =
            |text: &str| Sources::from([("a".into(), text.lines().map(str::to_owned).collect())]);
        let swapped = |text: &str, guard: &str| {
            swapped(source(text), "it", guard).map(|sources| sources[Path::new("a")].join("\n"))
        };
        let guard = "Without it.\n\n@@\n if a {\n-    b();\n+    c();\n+    d();\n }\n";
        let moved = "fn f() {\n    if a {\n        b();\n    }\n}";
        let without = "fn f() {\n    if a {\n        c();\n        d();\n    }\n}";
        assert_eq!(swapped(moved, guard).expect("it fits"), without);
        let again = swapped(without, guard).expect_err("it is not there");
        assert!(again.to_string().contains("`if a {` are in 0 places"), "{again}");
        let twice = format!("{moved}\n{moved}");
        assert!(swapped(&twice, guard).is_err());
        let everywhere = guard.replace("@@", "@@ everywhere");
        let without = format!("{without}\n{without}");
        assert_eq!(swapped(&twice, &everywhere).expect("it fits"), without);
    }
}
