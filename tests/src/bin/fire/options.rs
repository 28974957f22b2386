//! What the command line asks for.

use std::path::PathBuf;
use std::time::Duration;

use hworker_tests::Deployment;

use crate::faults::Kind;

pub(crate) const HELP: &str = "\
Runs many workers and producers against a real server, lets faults strike them at random, and checks that nothing was lost,
doubled or left over. See docs/reliability.md.

    script/fire [options]

    --duration 30m      how long faults strike; 90s, 30m, 1h (default 2m)
    --seed N            the schedule of faults and jobs; a run prints its own
    --deployment NAME   sentinel or cluster: the server changes, by failovers and slots that move; then duration, seed, rate
                        (at most 200), workers and where to keep things are what can be set
    --server PATH       the server program (default: what the tests use)
    --json FILE         writes the summary there too
    --only a,b          only these kinds of faults (--kinds lists them)
    --rate N            jobs a second (default 750)
    --workers N         workers at a time (default 8, at least 4)
    --stop-when-cut     all workers with HWORKER_CANCEL_ON_DISCONNECT, not only some
    --until-violation   ends with the first violation, and fails if there was none
    --keep DIR          leaves diaries and logs there; with --deployment what each server has on disk, its log, and those of
                        the workers
    --without NAME      on a build without one guard, until that is found; `all` for each of them
    --guards            lists the guards
    --check-guards      says whether each can still be taken out
    --release           on an optimised build
    --kinds             lists the kinds of faults
";

/// A run of the suite.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) duration: Duration,
    pub(crate) seed: u64,
    pub(crate) deployment: Deployment,
    pub(crate) server: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) only: Option<Vec<Kind>>,
    pub(crate) rate: u32,
    pub(crate) workers: usize,
    pub(crate) cancel_on_disconnect: bool,
    pub(crate) until_violation: bool,
    pub(crate) keep: Option<PathBuf>,
}

impl Options {
    /// Reads the arguments of the program.
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = args;
        let mut options = Self {
            duration: Duration::from_secs(120),
            seed: fastrand::u64(..1_000_000_000),
            deployment: Deployment::Single,
            server: None,
            json: None,
            only: None,
            rate: 750,
            workers: 8,
            cancel_on_disconnect: false,
            until_violation: false,
            keep: None,
        };
        while let Some(arg) = args.next() {
            let (name, given) = match arg.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (arg.clone(), None),
            };
            let mut value =
                || given.clone().or_else(|| args.next()).ok_or(format!("{name} needs a value"));
            let number = |text: String| text.parse().map_err(|_| format!("`{text}` is no number"));
            match name.as_str() {
                "--duration" => options.duration = duration(&value()?)?,
                "--seed" => options.seed = number(value()?)?,
                "--deployment" => options.deployment = value()?.parse()?,
                "--server" => options.server = Some(value()?.into()),
                "--json" => options.json = Some(value()?.into()),
                "--only" => options.only = Some(kinds(&value()?)?),
                "--rate" => options.rate = number(value()?)? as u32,
                "--workers" => options.workers = number(value()?)? as usize,
                "--stop-when-cut" => options.cancel_on_disconnect = true,
                "--until-violation" => options.until_violation = true,
                "--keep" => options.keep = Some(value()?.into()),
                _ => return Err(format!("unknown option {arg}\n\n{HELP}")),
            }
        }
        let only_single = options.server.is_some()
            || options.json.is_some()
            || options.only.is_some()
            || options.cancel_on_disconnect;
        if options.deployment != Deployment::Single && only_single {
            return Err("with --deployment only --duration, --seed, --rate, --workers and --keep can be set, and the server program with \
                HWORKER_TEST_SERVERS".into());
        }
        if options.workers < 4 {
            return Err("at least 4 workers: some must be there to notice the others".into());
        }
        Ok(options)
    }

    /// The command that runs the same again.
    pub(crate) fn command(&self) -> String {
        let mut command =
            format!("script/fire --seed {} --duration {}s", self.seed, self.duration.as_secs());
        let mut add = |name: &str, value: String| command.extend([" ", name, value.as_str()]);
        if let Ok(guard) = std::env::var("HWORKER_TEST_FIRE_WITHOUT") {
            add("--without ", guard);
        }
        if self.deployment != Deployment::Single {
            add("--deployment ", self.deployment.name().to_owned());
        }
        if let Some(server) = &self.server {
            add("--server ", server.display().to_string());
        }
        if let Some(only) = &self.only {
            let names: Vec<_> = only.iter().map(|kind| kind.name()).collect();
            add("--only ", names.join(","));
        }
        if self.rate != 750 {
            add("--rate ", self.rate.to_string());
        }
        if self.workers != 8 {
            add("--workers ", self.workers.to_string());
        }
        if self.cancel_on_disconnect {
            add("--stop-when-cut", String::new());
        }
        command
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.trim_end_matches(|c: char| !c.is_ascii_digit()).len());
    let factor = match unit {
        "s" | "" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err(format!("`{text}` is no duration; write 90s, 30m or 1h")),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    seconds.map(Duration::from_secs).ok_or(format!("`{text}` is no duration; write 90s, 30m or 1h"))
}

fn kinds(text: &str) -> Result<Vec<Kind>, String> {
    let kind = |name: &str| {
        let found = Kind::all().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("there is no fault `{name}`; --kinds lists them"))
    };
    text.split(',').map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_can_be_repeated() {
        let args = ["--seed=7", "--duration", "5m", "--only", "stop,cut", "--workers", "6"];
        let other = ["--deployment", "cluster", "--seed", "7", "--keep", "x"].map(str::to_owned);
        let other = Options::parse(other.into_iter()).expect("good").command();
        assert_eq!(other, "script/fire --seed 7 --duration 120s --deployment cluster");
        let options = Options::parse(args.iter().map(ToString::to_string)).expect("good");
        let command = options.command();
        assert_eq!(command, "script/fire --seed 7 --duration 300s --only stop,cut --workers 6");
        let again = command.split_whitespace().skip(1).map(str::to_owned);
        assert_eq!(Options::parse(again).expect("good").command(), command);
        for wrong in [
            &["--duration", "5x"][..],
            &["--deployment", "cluster", "--json", "a"],
            &["--only", "rain"],
            &["--seed"],
            &["--what"],
        ] {
            assert!(Options::parse(wrong.iter().map(ToString::to_string)).is_err(), "{wrong:?}");
        }
    }
}
