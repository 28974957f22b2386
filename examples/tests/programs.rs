//! Runs the examples as a person would.

use std::process::{Command, Output};

fn run(program: &str, args: &[&str]) -> String {
    let Output { status, stdout, stderr } =
        Command::new(program).args(args).output().expect("the program starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

#[test]
fn the_mailing_reaches_everybody_although_its_worker_is_killed() {
    let output = run(env!("CARGO_BIN_EXE_mailing"), &["demo", "--recipients", "2000"]);
    for line in ["killed with SIGKILL after", "  2000 recipients in", "     0 got no mail"] {
        assert!(output.contains(line), "{output}");
    }
}

#[test]
fn the_ledger_books_once_and_refuses_what_is_written_late() {
    let output = run(env!("CARGO_BIN_EXE_ledger"), &[]);
    for line in [
        "killed with SIGKILL",
        "300 cents from Ada to Bob: was booked by an earlier run",
        "stopped with SIGSTOP",
        "statement of Ada: 600 cents, written",
        "statement of Ada: 700 cents, refused: a younger lease has written it",
        "Ada has 600 cents, Bob 400; 2 transfers are booked",
        "the statement of Ada says Some(600)",
    ] {
        assert!(output.contains(line), "{output}");
    }
}

#[test]
fn a_wrong_command_is_told_the_right_ones() {
    let output = Command::new(env!("CARGO_BIN_EXE_mailing")).arg("post").output();
    let output = output.expect("the program starts");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("usage: mailing demo"));
}
