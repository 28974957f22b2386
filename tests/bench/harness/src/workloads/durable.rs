//! W7: W2 at 100 and W4 on a server that writes to disk.

use super::{Bench, Sample, drain, sustained};
use crate::Failure;
use crate::contenders::Contender;
use crate::server::{Persistence, Setup};

pub const SETTINGS: &[&str] =
    &["drain-none", "drain-everysec", "drain-always", "both-none", "both-everysec", "both-always"];

pub fn run(bench: &Bench, setting: &str, contender: &Contender) -> Result<Sample, Failure> {
    let (what, persistence) = setting.split_once('-').unwrap_or((setting, ""));
    let persistence = Persistence::parse(persistence).unwrap_or(Persistence::None);
    let bench = Bench { server: Setup { persistence, ..bench.server.clone() }, ..bench.clone() };
    match what {
        "drain" => drain::run(&bench, "100", contender),
        _ => sustained::run(&bench, contender),
    }
}
