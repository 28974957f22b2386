//! What `#[hworker::job]` says about what it refuses, and that nothing of what it accepts is left out.
//!
//! After an intended change of a message, `TRYBUILD=overwrite cargo test -p hworker-ui-tests` writes the files
//! under `fail` anew; read the difference.

use std::process::Command;

/// The compiler whose words the files under `fail` hold. Half of each message is the compiler's own, and its wording,
/// its order and what it quotes change from release to release, so under another release they are not compared.
const TOOLCHAIN: &str = "rustc 1.95.";

#[test]
fn refused() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("rustc can be asked").stdout;
    let version = String::from_utf8_lossy(&version).into_owned();
    if !version.starts_with(TOOLCHAIN) {
        println!("skipped: the expected messages are those of {TOOLCHAIN}x, this is {version}");
        return;
    }
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}

#[test]
fn every_program_under_pass_is_run() {
    // Guard: `Cargo.toml` names each of them, since it does not find what lies there by itself.
    let manifest = include_str!("Cargo.toml");
    for program in std::fs::read_dir("pass").expect("the programs") {
        let name = program.expect("a file").file_name();
        let path = format!("path = \"pass/{}\"", name.to_string_lossy());
        assert!(manifest.contains(&path), "no [[test]] in tests/ui/Cargo.toml has {path}");
    }
}
