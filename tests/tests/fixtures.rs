//! Jobs in crates of their own: which have neither serde nor tokio nor inventory, know hworker by another name, or are
//! strict about what they compile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Where the fixtures are built.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("fixtures")
}

/// A cargo command on the workspace of the fixtures, with the versions of ours: they are downloaded already.
fn cargo(arguments: &[&str]) -> Output {
    static LOCK: OnceLock<PathBuf> = OnceLock::new();
    let manifest = LOCK.get_or_init(|| {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let fixtures = tests.join("fixtures");
        fs::copy(tests.join("../Cargo.lock"), fixtures.join("Cargo.lock")).expect("a lock file");
        fixtures.join("Cargo.toml")
    });
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments).args(["--offline", "--quiet", "--manifest-path"]).arg(manifest);
    cargo.arg("--target-dir").arg(target()).output().expect("cargo runs")
}

#[track_caller]
fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// However hard the linker looks for what is unused, and though the worker's program never names a job.
#[test]
fn a_worker_finds_the_jobs_of_the_libraries_that_it_links() {
    succeeded(&cargo(&["build", "--release"]));
    let worker = format!("release/linked-worker{}", std::env::consts::EXE_SUFFIX);
    let listed = Command::new(target().join(worker)).output().expect("the worker runs");
    succeeded(&listed);
    let names = String::from_utf8_lossy(&listed.stdout);
    let expected = [
        "from_a_reexport",
        "in_a_body",
        "renamed",
        "reports.nightly",
        "send_welcome",
        "seven",
        "tick",
    ];
    assert_eq!(names.lines().collect::<Vec<_>>(), expected);
}

/// In another crate the constant that describes it may be a copy, with another address.
#[test]
fn a_linked_job_that_is_named_too_is_one_job() {
    succeeded(&cargo(&["build", "--release"]));
    let program = format!("release/names-a-job{}", std::env::consts::EXE_SUFFIX);
    let counted = Command::new(target().join(program)).output().expect("it runs");
    succeeded(&counted);
    assert_eq!(String::from_utf8_lossy(&counted.stdout), "1\n");
}

#[test]
fn jobs_in_crates_of_earlier_editions() {
    // `gen` as the name of a parameter, a job, a type and a module, in crates of editions in which it is no keyword -> they compile.
    // Guard: `attributes::at`.
    succeeded(&cargo(&["build", "--release", "-p", "edition-2018", "-p", "edition-2021"]));
}

#[test]
fn clippy_has_nothing_against_generated_code() {
    let found = Command::new(env!("CARGO")).args(["clippy", "--version"]).output();
    if !found.is_ok_and(|found| found.status.success()) {
        println!("skipped: there is no clippy here");
        return;
    }
    succeeded(&cargo(&["clippy"]));
}
