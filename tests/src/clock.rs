//! Wall clocks that a test sets for the processes that it starts with them.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A wall clock of its own for a process: `LD_PRELOAD` of a library that moves what the process reads as the time of day.
/// Its monotonic clock stays the machine's.
pub struct Clock {
    dir: TempDir,
    library: PathBuf,
}

impl Clock {
    /// Compiles it; `None`, with a word, where this machine cannot.
    pub fn new() -> Option<Self> {
        let dir = TempDir::new().expect("a directory");
        let library = dir.path().join("clock.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/clock.c");
        let compiled =
            Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
        if cfg!(target_os = "linux") && compiled.is_ok_and(|status| status.success()) {
            let clock = Self { dir, library };
            clock.set(0);
            return Some(clock);
        }
        let required = std::env::var("HWORKER_MATRIX").is_ok_and(|matrix| matrix == "required");
        assert!(!required, "a C compiler and Linux are needed to move clocks");
        eprintln!("skipped: a C compiler and Linux are needed to move clocks");
        None
    }

    /// Moves it by so many seconds from the machine's.
    pub fn set(&self, seconds: i64) {
        let fresh = self.dir.path().join("fresh");
        std::fs::write(&fresh, seconds.to_string()).expect("the offset");
        std::fs::rename(fresh, self.offset()).expect("the offset");
    }

    /// Lets a process live by it.
    pub fn rule(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("CLOCK_OFFSET_FILE", self.offset());
    }

    /// A program that is this one and lives by it, for who starts programs by their path.
    pub fn wrap(&self, program: &Path) -> std::io::Result<PathBuf> {
        let wrapper = self.dir.path().join("wrapper");
        let (library, offset) = (self.library.display(), self.offset());
        let script = format!(
            "#!/bin/sh\nLD_PRELOAD='{library}' CLOCK_OFFSET_FILE='{}' exec '{}' \"$@\"\n",
            offset.display(),
            program.display()
        );
        let text = self.dir.path().join("wrapper.sh");
        std::fs::write(&text, script)?;
        // Written by another process: a process that another thread starts meanwhile would hold a file open that is written here, and such
        // a file cannot be executed (ETXTBSY).
        let copied =
            Command::new("install").args(["-m", "755"]).arg(text).arg(&wrapper).status()?;
        assert!(copied.success(), "the wrapper is installed");
        Ok(wrapper)
    }

    /// The file that holds by how much it is moved.
    fn offset(&self) -> PathBuf {
        self.dir.path().join("offset")
    }
}
