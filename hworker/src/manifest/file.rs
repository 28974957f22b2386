//! The file of job types that a test compares with those of the program.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use serde::Serialize;

use super::{JobType, Parameter, TypeChange};
use crate::config::MANIFEST;
use crate::job::Definition;
use crate::registry::Registry;

/// What writes the file.
const WRITE: &str = "HWORKER_MANIFEST=write cargo test";

/// Compares the job types that the program links with a file that is kept beside the code, and panics where they differ: for a test. So what
/// would break jobs that wait is found before it is deployed, with what to write instead.
///
/// ```rust,ignore
/// // tests/manifest.rs
/// use my_app as _; // links its jobs
///
/// #[test]
/// fn manifest() {
///     hworker::check_manifest("jobs.json");
/// }
/// ```
///
/// `HWORKER_MANIFEST=write cargo test` writes the file, which is to be committed. Its path begins at the folder of the crate's `Cargo.toml`
/// (`CARGO_MANIFEST_DIR`, which `cargo test` sets). It has the names of the job types, their queues, versions and arguments, in the form in
/// which workers write them into Redis; what does not matter to jobs that wait, as timeouts, is not in it.
///
/// # Panics
/// - Where a change breaks jobs that wait: a job type that no name or alias leads to any more, an argument that is new and must be there, one
///   of a type that does not read what the old one wrote, a version that is lower. The text says what to write. A higher `version` with an
///   `upgrade` allows any change of the arguments.
/// - Where the file lacks a change that breaks nothing, such as a new job type: what is not in the file is not protected when it changes
///   again. Nothing but the command above is needed then, and a review sees what comes.
/// - Where there is no such file, or the program links no job.
#[track_caller]
pub fn check_manifest(path: impl AsRef<Path>) {
    let crate_folder = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let how = env::var(MANIFEST).unwrap_or_default();
    if let Err(why) = check(&crate_folder.join(path), &how, &Registry::collect()) {
        panic!("{why}");
    }
}

fn check(path: &Path, how: &str, linked: &Registry) -> Result<(), String> {
    let now: Vec<_> = linked.definitions().map(JobType::in_file).collect();
    let file = path.display();
    if now.is_empty() {
        return Err(
            "no job is linked: name the crate that has the jobs, with `use its_name as _;`".into(),
        );
    }
    let failed = |what: &str, error: &dyn std::error::Error| format!("{file} {what}: {error}");
    match how {
        "" => {}
        "write" => {
            let lines = now.iter().map(Filed::of).collect::<Vec<_>>();
            let json = serde_json::to_string_pretty(&lines);
            let json = json.map_err(|error| failed("cannot be written", &error))?;
            return fs::write(path, json + "\n")
                .map_err(|error| failed("cannot be written", &error));
        }
        other => return Err(format!("{MANIFEST} is `{other}`; it is `write`, or not set")),
    }
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(format!("{file} is not there; write it: {WRITE}"));
        }
        read => read.map_err(|error| failed("cannot be read", &error))?,
    };
    let before: Vec<JobType> = serde_json::from_str(&text)
        .map_err(|error| failed(&format!("is no list of job types; write it: {WRITE}"), &error))?;
    told(path, &JobType::changes(&before, &now)).map_or(Ok(()), Err)
}

/// What is said of changes, where there are any.
fn told(path: &Path, changes: &[TypeChange]) -> Option<String> {
    if changes.is_empty() {
        return None;
    }
    let (file, mut text) = (path.display(), String::new());
    // Writing to a text does not fail.
    let mut list = |head: &str, breaks: bool| {
        let those: Vec<_> = changes.iter().filter(|change| change.breaks == breaks).collect();
        if !those.is_empty() {
            _ = writeln!(text, "{file}: {head}");
        }
        for TypeChange { job, change, what, mend, .. } in those {
            let state = if *change == "changed" { String::new() } else { format!(" is {change}") };
            _ = writeln!(text, "  `{job}`{state}: {what}");
            if let Some(mend) = mend {
                _ = writeln!(text, "    write {mend}");
            }
        }
        text.len()
    };
    let is_broken = list("these changes would break jobs that wait", true) > 0;
    list("these changes break nothing, and are to be written into it", false);
    let when = if is_broken {
        "once that is mended, or if no such job waits anywhere"
    } else {
        "commit the file then"
    };
    _ = write!(text, "{WRITE} writes it anew; {when}");
    Some(text)
}

impl JobType {
    /// With what a file has of it, and nothing else.
    fn in_file(definition: &'static Definition) -> Self {
        Self {
            parameters: Parameter::all(definition),
            timeout_ms: 0,
            max_attempts: 0,
            blocking: false,
            isolated: false,
            redact: Vec::new(),
            place: String::new(),
            fingerprint: String::new(),
            ..Self::with(definition, Self::deep_schema(definition).unwrap_or_default(), 0)
        }
    }
}

/// A job type in a file, without what is not said of it.
#[derive(Serialize)]
struct Filed<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    aliases: &'a [String],
    queue: &'a str,
    version: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    upgrades: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    encrypted: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    parameters: &'a [Parameter],
    #[serde(skip_serializing_if = "str::is_empty")]
    schema: &'a str,
}

impl<'a> Filed<'a> {
    fn of(job: &'a JobType) -> Self {
        let JobType {
            name, aliases, queue, version, upgrades, encrypted, parameters, schema, ..
        } = job;
        let (version, upgrades, encrypted) = (*version, *upgrades, *encrypted);
        Self { name, aliases, queue, version, upgrades, encrypted, parameters, schema }
    }
}

#[cfg(test)]
mod tests {
    // A job is async, and an upgrade may fail, whether these do or not.
    #![allow(clippy::unused_async, clippy::needless_pass_by_value, clippy::unnecessary_wraps)]

    use super::*;
    use crate::args::Args;
    use crate::error::BoxError;

    #[hworker::job(name = "charge", type = ChargeOnce)]
    async fn charge_once(user: u64, euros: u64) {
        let _ = (user, euros);
    }

    #[hworker::job(name = "charge", type = ChargeNow)]
    async fn charge_now(user: String, euros: u64, note: &str) {
        let _ = (user, euros, note);
    }

    fn up(_: u32, args: Args) -> Result<Args, BoxError> {
        Ok(args)
    }

    #[hworker::job(name = "bill", aliases = ["charge"], type = Bill, version = 2, upgrade = up, timeout = "7s")]
    async fn bill(user: String, #[serde(default)] cents: Vec<u64>) {
        let _ = (user, cents);
    }

    fn file() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    #[test]
    fn what_would_break_is_told_with_what_to_write() {
        let folder = file();
        let path = &folder.path().join("jobs.json");
        let (once, now) =
            (Registry::new().with::<ChargeOnce>(), Registry::new().with::<ChargeNow>());
        let missing = check(path, "", &once).expect_err("there is no file");
        assert!(
            missing
                .ends_with("jobs.json is not there; write it: HWORKER_MANIFEST=write cargo test"),
            "{missing}"
        );
        check(path, "write", &once).expect("written");
        check(path, "", &once).expect("it is the same");
        let broken = check(path, "", &now).expect_err("it breaks");
        let file = path.display();
        let expected = format!(
            "{file}: these changes would break jobs that wait\n  `charge`: argument user is String, was u64\n    write a type that reads what \
             the old one wrote; or `version = 2, upgrade = ..`\n  `charge`: argument note is new and must be there\n    write `Option<..>` or \
             `#[serde(default)]`; or `version = 2, upgrade = ..`\nHWORKER_MANIFEST=write cargo test writes it anew; once that is mended, or if no \
             such job waits anywhere"
        );
        assert_eq!(broken, expected);
        let gone = check(path, "", &Registry::new().with::<Other>()).expect_err("it is gone");
        assert!(gone.contains("`charge` is gone: no job type has this name or alias\n    write `aliases = [\"charge\"]`"), "{gone}");
        assert!(
            gone.contains(
                "these changes break nothing, and are to be written into it\n  `other` is new"
            ),
            "{gone}"
        );
    }

    #[hworker::job(name = "other", type = Other)]
    async fn other() {}

    #[test]
    fn what_breaks_nothing_is_to_be_written_too() {
        let folder = file();
        let path = &folder.path().join("jobs.json");
        check(path, "write", &Registry::new().with::<ChargeOnce>()).expect("written");
        let renamed = Registry::new().with::<Bill>();
        let told = check(path, "", &renamed).expect_err("it is not in the file");
        assert!(
            !told.contains("would break") && told.ends_with("writes it anew; commit the file then"),
            "{told}"
        );
        check(path, "write", &renamed).expect("written");
        check(path, "", &renamed).expect("it is the same");
        if cfg!(feature = "schema") {
            return;
        }
        let expected = r#"[
  {
    "name": "bill",
    "aliases": [
      "charge"
    ],
    "queue": "default",
    "version": 2,
    "upgrades": true,
    "parameters": [
      {
        "name": "user",
        "type": "String"
      },
      {
        "name": "cents",
        "type": "Vec<u64>",
        "optional": true
      }
    ]
  }
]
"#;
        assert_eq!(fs::read_to_string(path).expect("read"), expected);
    }

    #[test]
    fn a_check_of_nothing_fails() {
        let folder = file();
        let path = &folder.path().join("jobs.json");
        let linked = Registry::new().with::<Other>();
        let none = check(path, "write", &Registry::new()).expect_err("no job");
        assert!(none.contains("use its_name as _;") && !path.exists(), "{none}");
        let unknown = check(path, "renew", &linked).expect_err("no such way");
        assert_eq!(unknown, "HWORKER_MANIFEST is `renew`; it is `write`, or not set");
        fs::write(path, "{").expect("written");
        let garbage = check(path, "", &linked).expect_err("no list");
        assert!(
            garbage.contains("is no list of job types; write it: HWORKER_MANIFEST=write"),
            "{garbage}"
        );
    }
}
