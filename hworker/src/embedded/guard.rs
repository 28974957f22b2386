//! Ends a server whose owner was killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use std::os::unix::process::CommandExt;

/// Waits for the end of its input, which comes when the owner is gone, however it died; then ends the server and
/// removes its directory. A `sh`, because asking the kernel to do it takes unsafe code, and only Linux can.
const SCRIPT: &str = r#"
while read -r _; do :; done
kill -TERM "$1"
tries=0
while kill -0 "$1" && [ "$tries" -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
kill -KILL "$1"
rm -rf "$2"
"#;

/// A process that outlives this one for as long as it takes to end the server; it ends without doing anything when
/// it is dropped.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    /// Guards `server`; `None` where there is no `sh`, since the server serves without.
    pub(super) fn start(server: &Child, home: &Path) -> Option<Self> {
        let guard = Command::new("sh")
            .args(["-c", SCRIPT, "hworker-guard", &server.id().to_string()])
            .arg(home)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        guard.ok().map(Self)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Killed while its input is still open, it never gets to the `kill`; `wait` would close the input first.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
