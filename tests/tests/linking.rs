//! Jobs of a library are found in a program that never names them, however hard the linker looks for what is unused; in
//! crates that have neither serde nor tokio nor inventory, nor know hworker by its name.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn a_worker_finds_the_jobs_of_the_libraries_that_it_links() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fixtures = tests.join("fixtures");
    // The same versions as here, all of them downloaded already.
    fs::copy(tests.join("../Cargo.lock"), fixtures.join("Cargo.lock")).expect("the lock is copied");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fixtures");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--offline", "--quiet", "--manifest-path"])
        .arg(fixtures.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        // Of the build of this test, not of the user's.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let worker =
        target.join("release").join(format!("linked-worker{}", std::env::consts::EXE_SUFFIX));
    let listed = Command::new(worker).output().expect("the worker runs");
    let names = String::from_utf8_lossy(&listed.stdout);
    let names: Vec<&str> = names.lines().collect();
    let expected =
        ["from_a_reexport", "in_a_body", "renamed", "reports.nightly", "send_welcome", "tick"];
    assert_eq!(names, expected);
}
