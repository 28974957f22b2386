//! Processes for bodies end with their workers, however these end.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::stage::Stage;

/// The system may take a moment to end one.
const ENDED_WITHIN: Duration = Duration::from_secs(5);

/// All workers have ended.
pub(crate) fn look(stage: &Stage) {
    let began = Instant::now();
    while !left(stage).is_empty() && began.elapsed() < ENDED_WITHIN {
        sleep(Duration::from_millis(50));
    }
    for child in left(stage) {
        stage.checker().wrong("no process for bodies outlives its worker", child);
    }
}

/// The processes for bodies of this run. Only Linux tells.
fn left(stage: &Stage) -> Vec<String> {
    let memory = stage.memory();
    let memory = memory.to_string_lossy();
    let of = |process: String| {
        let name = fs::read_to_string(format!("/proc/{process}/cmdline")).ok()?;
        // The environment is that of its worker.
        let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
        let is_ours = String::from_utf8_lossy(&environment).contains(&*memory);
        let is_child = name.starts_with("hworker-child-of-");
        (is_child && is_ours).then(|| format!("process {process}"))
    };
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes.filter_map(|entry| of(entry.ok()?.file_name().into_string().ok()?)).collect()
}
