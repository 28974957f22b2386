//! Each module may use only modules of lower layers, and its own folder.

use std::fs;
use std::path::Path;

/// The layers, the lowest first; a module may not use its neighbours either.
const LAYERS: &[&[&str]] = &[
    &[
        "embedded",
        "fnv",
        "fresh_uuid",
        "guarded",
        "join",
        "log",
        "open_metrics",
        "pause",
        "priority",
        "reconnect",
        "shards",
        "spelling",
        "strict_json",
        "time",
    ],
    &["calendar", "charts", "limit"],
    &["envelope", "keys"],
    &["hooks", "job_state"],
    &["error", "unique"],
    &["args", "outcome", "backoff", "durability", "encryption", "runtime"],
    &["context", "config", "kept"],
    &["job"],
    &["store", "registry"],
    &["client", "monitor"],
    &["audit", "cron", "dead_workers", "deploys", "events", "manifest", "relay", "reports"],
    &["batch", "scheduler", "table"],
    &["control", "enqueue", "inspect", "lock"],
    &["doctor", "results"],
    &["web"],
    &["worker"],
    &["properties", "testing"],
    &["lib", "__private"],
];

/// The error type names the id of the job whose enqueue is uncertain, and a server that cannot be started is an error.
const EXCEPTIONS: &[(&str, &str)] = &[("embedded", "error")];

fn layer(module: &str) -> usize {
    let layer = LAYERS.iter().position(|modules| modules.contains(&module));
    layer.unwrap_or_else(|| panic!("the module `{module}` is in no layer; add it to {}", file!()))
}

/// The modules that a source file names as `crate::module`.
fn used(source: &str) -> impl Iterator<Item = &str> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split("crate::").skip(1)).filter_map(|rest| {
        let name = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
        // A macro is at the root, whatever module makes it.
        let is_macro = rest[name.len()..].starts_with('!');
        (!is_macro && name.starts_with(|c: char| c.is_ascii_lowercase())).then_some(name)
    })
}

fn check(folder: &Path, module: Option<&str>, wrong: &mut Vec<String>) {
    for entry in
        fs::read_dir(folder).expect("the sources").map(|entry| entry.expect("an entry").path())
    {
        let stem = entry.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        let module = module.unwrap_or(&stem);
        if entry.file_name().is_some_and(|name| name == "bin") {
            // A program of its own, which has the public API alone.
            continue;
        }
        if entry.is_dir() {
            check(&entry, Some(module), wrong);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&entry).expect("a source file");
            for used in used(&source).filter(|used| *used != module) {
                // Items that lib.rs re-exports are reached through their own module, so this is one by name.
                let allowed = layer(used) < layer(module) || EXCEPTIONS.contains(&(module, used));
                if !allowed {
                    wrong.push(format!("{} uses crate::{used}", entry.display()));
                }
            }
            let redis = source.contains("redis::") || source.contains("use redis");
            if redis && module != "store" {
                wrong.push(format!(
                    "{} uses the redis crate, which only `store` may",
                    entry.display()
                ));
            }
        }
    }
}

#[test]
fn every_module_uses_only_lower_layers() {
    let mut wrong = Vec::new();
    check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), None, &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
