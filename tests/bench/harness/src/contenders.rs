//! Who takes part, and how each is started.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One way to use one library.
#[derive(Clone, Debug)]
pub struct Contender {
    /// As it is named in tables: `chasquimq`, `chasquimq:defaults`.
    pub name: String,
    program: Program,
    variant: &'static str,
    env: &'static [(&'static str, &'static str)],
    /// The most jobs that it is given in one run, where it is slow or breaks beyond.
    pub most_jobs: u64,
    /// Whether it has a call for many jobs.
    pub has_bulk: bool,
    /// The oldest server that it works with.
    pub server: (u32, u32),
    /// Whether W2, and for ways to use hworker how soon one job is picked up, is all that it makes a difference to.
    pub only_drains: bool,
}

#[derive(Clone, Debug)]
enum Program {
    Rust(PathBuf),
    Node(PathBuf),
}

struct Known {
    name: &'static str,
    program: &'static str,
    variant: &'static str,
    env: &'static [(&'static str, &'static str)],
    most_jobs: u64,
    has_bulk: bool,
    server: (u32, u32),
    only_drains: bool,
}

const KNOWN: Known = Known {
    name: "",
    program: "",
    variant: "",
    env: &[],
    most_jobs: u64::MAX,
    has_bulk: true,
    server: (6, 2),
    only_drains: false,
};

/// Whatever is tuned is tuned as its own documentation says; `:defaults` is the same without.
const ALL: &[Known] = &[
    Known { name: "hworker", program: "hworker", ..KNOWN },
    Known {
        name: "hworker:prefetch-off",
        program: "hworker",
        env: &[("HWORKER_PREFETCH", "off")],
        only_drains: true,
        ..KNOWN
    },
    // Jobs in lists beside the plain one.
    Known {
        name: "hworker:priority",
        program: "hworker",
        variant: "priority",
        only_drains: true,
        ..KNOWN
    },
    Known {
        name: "hworker:limit",
        program: "hworker",
        variant: "limit",
        only_drains: true,
        ..KNOWN
    },
    Known { name: "hworker:keys", program: "hworker", variant: "keys", only_drains: true, ..KNOWN },
    Known { name: "limit", program: "limit", ..KNOWN },
    Known { name: "limit:two", program: "limit", variant: "two", only_drains: true, ..KNOWN },
    Known { name: "limit:crate", program: "limit", variant: "crate", only_drains: true, ..KNOWN },
    Known { name: "chasquimq", program: "chasquimq", server: (8, 6), ..KNOWN },
    Known {
        name: "chasquimq:defaults",
        program: "chasquimq",
        variant: "defaults",
        server: (8, 6),
        ..KNOWN
    },
    // With more than 8,000 due jobs it exits with `too many results to unpack`.
    Known { name: "apalis", program: "apalis", most_jobs: 7_000, ..KNOWN },
    Known {
        name: "apalis:defaults",
        program: "apalis",
        variant: "defaults",
        most_jobs: 7_000,
        ..KNOWN
    },
    Known {
        name: "rusty-sidekiq",
        program: "rusty-sidekiq",
        most_jobs: 50_000,
        has_bulk: false,
        ..KNOWN
    },
    Known { name: "oxana", program: "oxana", most_jobs: 20_000, ..KNOWN },
    Known { name: "bullmq-rust", program: "bullmq-rust", most_jobs: 20_000, ..KNOWN },
    Known { name: "bullmq-node", program: "bullmq-node", most_jobs: 20_000, ..KNOWN },
];

impl Contender {
    /// Those whose programs are there: the Rust ones beside the harness, others under `scripts`.
    pub fn all(programs: &Path, scripts: &Path) -> Vec<Self> {
        ALL.iter().filter_map(|known| known.find(programs, scripts)).collect()
    }

    /// Another build of hworker's contender, to compare two states of the source.
    pub fn other_build(name: &str, program: &Path) -> Self {
        Self {
            name: name.into(),
            program: Program::Rust(program.into()),
            variant: "",
            env: &[],
            most_jobs: u64::MAX,
            has_bulk: true,
            server: KNOWN.server,
            only_drains: false,
        }
    }

    /// A program that is no contender but drains as one.
    pub fn yardstick(name: &str, program: &Path) -> Self {
        Self { only_drains: true, ..Self::other_build(name, program) }
    }

    /// How its jobs lie in the server; for hworker and `limit` only.
    pub fn waiting(&self) -> Waiting {
        if self.is_limit() {
            Waiting { list: "bench", scheduled: "bench-scheduled", hworker: false }
        } else {
            Waiting {
                list: "hworker-jobs-bench",
                scheduled: "hworker-scheduled-bench",
                hworker: true,
            }
        }
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|known| known.name)
    }

    pub fn command(&self, role: &str) -> Command {
        let mut command = match &self.program {
            Program::Rust(program) => Command::new(program),
            Program::Node(script) => {
                let mut command = Command::new("node");
                command.arg(script);
                command
            }
        };
        for (name, _) in std::env::vars_os() {
            let ours = |name: &str| name.starts_with("HWORKER_") && name != "HWORKER_PREFETCH";
            if name.to_str().is_some_and(ours) {
                command.env_remove(name);
            }
        }
        command
            .arg(role)
            .envs(self.env.iter().copied())
            .env("HWORKER_LOG", "warn")
            .env("NO_COLOR", "1");
        if !self.variant.is_empty() {
            command.arg(format!("variant={}", self.variant));
        }
        command
    }

    /// The program alone, for what is no contender's.
    pub fn bare_command(&self) -> Command {
        match &self.program {
            Program::Rust(program) | Program::Node(program) => Command::new(program),
        }
    }

    pub fn is_hworker(&self) -> bool {
        !self.is_limit() && self.name != crate::check::BENCHMARK && self.stores_plainly()
    }

    pub fn is_limit(&self) -> bool {
        self.name.starts_with("limit")
    }

    /// Whether the harness can write its waiting jobs by itself.
    pub fn stores_plainly(&self) -> bool {
        let mut others = ALL.iter().filter(|known| !["hworker", "limit"].contains(&known.program));
        others.all(|known| known.name != self.name)
    }
}

/// How jobs lie in the server.
pub struct Waiting {
    pub list: &'static str,
    pub scheduled: &'static str,
    hworker: bool,
}

impl Waiting {
    /// A job as the contender itself would have written it, with arguments of so many bytes.
    pub fn envelope(&self, n: u64, payload: u64) -> String {
        let text = "x".repeat((payload as usize).saturating_sub(46));
        let id = format!("0198f3c2-7c3a-7000-8000-{n:012}");
        let args = format!(r#"{{"n":{n},"at":1767225600000000,"text":"{text}"}}"#);
        if self.hworker {
            format!(
                r#"{{"v":1,"id":"{id}","job":"run","args":{args},"enqueued_at":1767225600000}}"#
            )
        } else {
            format!(r#"{{"id":"{id}","args":{args}}}"#)
        }
    }
}

impl Known {
    fn find(&self, programs: &Path, scripts: &Path) -> Option<Contender> {
        let program = if self.program == "bullmq-node" {
            let script = scripts.join("bullmq-node/main.mjs");
            let ready = script.with_file_name("node_modules").exists();
            ready.then_some(Program::Node(script))?
        } else {
            let program = programs.join(format!("contender-{}", self.program));
            program.exists().then_some(Program::Rust(program))?
        };
        Some(Contender {
            name: self.name.into(),
            program,
            variant: self.variant,
            env: self.env,
            most_jobs: self.most_jobs,
            has_bulk: self.has_bulk,
            server: self.server,
            only_drains: self.only_drains,
        })
    }
}
