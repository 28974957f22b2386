//! What only root on Linux can have: networks to cut and a disk to fill, in namespaces that vanish with the suite.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::report::Failure;

/// Set in the process that is inside.
const INSIDE: &str = "HWORKER_TEST_FIRE_ROOM";

/// The port on which the server listens in there.
pub(crate) const PORT: u16 = 6379;

/// Megabytes of the disk.
const DISK_MB: u32 = 768;

/// Runs this program again in mount and network namespaces of its own, where that is possible. Gives why it is not.
pub(crate) fn enter() -> Result<(), String> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "--propagation", "private", "--"]);
        command
    };
    let possible = unshare().arg("true").stderr(Stdio::null()).status();
    if !possible.is_ok_and(|status| status.success()) {
        return Err("there are no namespaces without root on Linux".into());
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let error = unshare().arg(program).args(std::env::args_os().skip(1)).env(INSIDE, "1").exec();
    Err(error.to_string())
}

/// Mounts a disk of a known size there.
pub(crate) fn mount_disk(at: &Path) -> Result<(), String> {
    let size = format!("size={DISK_MB}m");
    let at = at.to_str().ok_or("the path is no text")?;
    run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", at])
}

/// The network of one worker, and the link to it that can be cut.
pub(crate) struct Network {
    name: String,
    number: usize,
}

impl Network {
    /// So many networks.
    pub(crate) fn all(count: usize) -> Result<Vec<Self>, String> {
        std::fs::create_dir_all("/run/netns").map_err(|error| error.to_string())?;
        // Names that are only seen in here.
        run("mount", &["-t", "tmpfs", "tmpfs", "/run/netns"])?;
        run("ip", &["link", "set", "lo", "up"])?;
        (0..count).map(Self::new).collect()
    }

    fn new(number: usize) -> Result<Self, String> {
        let name = format!("fire{number}");
        let (host, guest) = (format!("10.77.{number}.1/30"), format!("10.77.{number}.2/30"));
        run("ip", &["netns", "add", &name])?;
        run("ip", &["link", "add", &name, "type", "veth", "peer", "name", "eth0", "netns", &name])?;
        run("ip", &["addr", "add", &host, "dev", &name])?;
        run("ip", &["link", "set", &name, "up"])?;
        run("ip", &["-n", &name, "addr", "add", &guest, "dev", "eth0"])?;
        run("ip", &["-n", &name, "link", "set", "eth0", "up"])?;
        Ok(Self { name, number })
    }

    /// The server's address, from in there.
    pub(crate) fn address(&self) -> String {
        format!("10.77.{}.1", self.number)
    }

    /// A program that runs in there.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Takes the link away, or gives it back. Neither side is told of the connections over it.
    pub(crate) fn cut(&self, yes: bool) -> Result<(), Failure> {
        let state = if yes { "down" } else { "up" };
        run("ip", &["link", "set", &self.name, state]).map_err(Into::into)
    }
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let said = |error: io::Error| format!("{program} {}: {error}", args.join(" "));
    let output = output.map_err(said)?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}
