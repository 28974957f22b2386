//! Runs the quickstart as a person would, and looks at what that builds.

use std::process::Command;

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{}\n{said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

#[test]
fn the_quickstart_runs_its_jobs() {
    let said = run(env!("CARGO_BIN_EXE_hworker-quickstart"), &[]);
    for name in ["Ada", "Grace", "Edsger", "late friend"] {
        assert_eq!(said.matches(&format!("hello, {name}, from attempt 1")).count(), 1, "{said}");
    }
}

#[test]
fn it_builds_the_library_and_tokio_alone() {
    // Guard: the package of its own; in that of the other examples it also built SQLite, a mail client and a web server.
    let said = run(
        env!("CARGO"),
        &["tree", "--offline", "--edges", "normal", "--depth", "1", "--prefix", "none"],
    );
    let names: Vec<_> = said.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["hworker-quickstart", "hworker", "tokio"]);
}
