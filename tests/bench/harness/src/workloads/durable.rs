//! W7: W2 at 100 and W4 on a server that writes to disk.

use super::{Bench, Sample, drain, sustained};
use crate::Failure;
use crate::contenders::Contender;
use crate::server::{Persistence, Setup};

/// What is done, and how safe it is; `-rewriting` where the server rewrites its file meanwhile.
pub const SETTINGS: &[&str] = &[
    "drain-none",
    "drain-everysec",
    "drain-everysec-rewriting",
    "drain-always",
    "both-none",
    "both-everysec",
    "both-everysec-rewriting",
    "both-always",
];

pub fn run(bench: &Bench, setting: &str, contender: &Contender) -> Result<Sample, Failure> {
    let (what, persistence) = setting.split_once('-').unwrap_or((setting, ""));
    let (persistence, rewrites) = match persistence.strip_suffix("-rewriting") {
        Some(persistence) => (persistence, true),
        None => (persistence, false),
    };
    let persistence = Persistence::parse(persistence).unwrap_or(Persistence::None);
    let server = Setup { persistence, rewrites, ..bench.server.clone() };
    let bench = Bench { server, ..bench.clone() };
    match what {
        "drain" => drain::run(&bench, "100", contender),
        _ => sustained::run(&bench, contender),
    }
}
