//! A contender's process: started, talked to in lines, ended with the harness.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::unistd::SysconfVar;
use serde_json::Value;

use crate::{Failure, fail};

pub struct Process {
    child: Child,
    input: ChildStdin,
    lines: Receiver<Value>,
    log: PathBuf,
}

impl Process {
    /// Starts a contender in a role; its log goes to a file in `dir`.
    pub fn start(mut command: Command, dir: &Path) -> Result<Self, Failure> {
        let log = tempfile::Builder::new().prefix("contender-").tempfile_in(dir)?.keep()?.1;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()
            .map_err(|error| fail(format!("{}: {error}", command.get_program().display())))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(fail("a contender without input or output"));
        };
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Libraries print, too.
                if let Ok(value) = serde_json::from_str::<Value>(&line)
                    && sender.send(value).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { child, input, lines, log })
    }

    pub fn tell(&mut self, line: &str) -> Result<(), Failure> {
        Ok(writeln!(self.input, "{line}").and_then(|()| self.input.flush())?)
    }

    /// The next line, whatever it says; `None` when the time is over.
    pub fn hear(&mut self, within: Duration) -> Result<Option<Value>, Failure> {
        match self.lines.recv_timeout(within) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait()?;
                Err(fail(format!("it ended ({status}): {}", self.last_words())))
            }
        }
    }

    /// Waits for an event, passing over others.
    pub fn await_event(&mut self, event: &str, within: Duration) -> Result<Value, Failure> {
        let give_up = Instant::now() + within;
        loop {
            let left = give_up.saturating_duration_since(Instant::now());
            match self.hear(left)? {
                Some(line) if line["event"] == event => return Ok(line),
                Some(_) => {}
                None => {
                    let words = self.last_words();
                    return Err(fail(format!(
                        "not {event} within {} s: {words}",
                        within.as_secs()
                    )));
                }
            }
        }
    }

    fn last_words(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        // The first line that tells of something, if one does; else the last.
        let tells =
            |line: &&str| line.contains("panicked") || line.to_lowercase().contains("error");
        let first = log.lines().position(|line| tells(&line));
        let from = first.unwrap_or_else(|| log.lines().count().saturating_sub(2));
        log.lines().skip(from).take(2).collect::<Vec<_>>().join(" | ").chars().take(400).collect()
    }

    pub fn used(&self) -> Result<Used, Failure> {
        Used::of(self.child.id())
    }

    /// Ends it at once, as the machine's failure would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a process has used so far.
#[derive(Clone, Copy)]
pub struct Used {
    pub cpu: f64,
    /// The most memory it ever had, in MB.
    pub peak: f64,
}

impl Used {
    pub fn of(pid: u32) -> Result<Self, Failure> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name of the program, in parentheses, may hold anything.
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks: f64 = after_name
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|n| n.parse::<f64>().ok())
            .sum();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok());
        let per_second = nix::unistd::sysconf(SysconfVar::CLK_TCK)?.unwrap_or(100) as f64;
        Ok(Self { cpu: ticks / per_second, peak: peak.unwrap_or(0.0) / 1024.0 })
    }
}
