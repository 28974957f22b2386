//! The command line.

use std::path::PathBuf;

use lexopt::ValueExt as _;
use lexopt::prelude::{Long, Short, Value};

use crate::contenders::Contender;
use crate::server::{Persistence, Setup};
use crate::workloads::{Scale, Workload};
use crate::{Failure, fail};

const HELP: &str = "\
bench [w1 .. w9] [options]      measure; without names, all workloads
bench operate [options]         measure what an operator waits for, with a million jobs
bench report FILE.json          write the floors in docs/benchmarks.md from results
bench picture FILE.json         draw the picture of docs/benchmarks.md from results

  --quick               3 rounds of fewer jobs, to see where one stands
  --smoke               1 round of very few jobs, to see that everything works
  --rounds N            how often each contender runs each workload (9; with --quick 3)
  --against A,B         those beside hworker; without it, all that are built
  --only SETTINGS       of each workload only these: 100, bulk, pickup, 1m, ...
  --also NAME=PROGRAM   another build of hworker's contender
  --server PROGRAM      a Redis or Valkey server (redis-server)
  --persistence P       none, everysec or always (none)
  --socket S            tcp or unix (tcp)
  --pin                 servers have a core of their own (Linux)
  --dir DIR             where servers keep their data
  --payload BYTES       of the arguments of a job (100)
  --json FILE           write every figure there
";

pub enum Command {
    Run(Box<Run>),
    Operate(Box<Run>),
    Report(PathBuf),
    Picture(PathBuf),
}

pub struct Run {
    pub workloads: Vec<Workload>,
    pub scale: Scale,
    pub rounds: usize,
    pub against: Option<Vec<String>>,
    pub only: Option<Vec<String>>,
    pub also: Vec<Contender>,
    pub setup: Setup,
    pub payload: u64,
    pub json: Option<PathBuf>,
}

pub fn parse() -> Result<Command, Failure> {
    let mut run = Run {
        workloads: Vec::new(),
        scale: Scale::Full,
        rounds: 0,
        against: None,
        only: None,
        also: Vec::new(),
        setup: Setup {
            program: "redis-server".into(),
            unix: false,
            pinned: false,
            persistence: Persistence::None,
            rewrites: true,
            dir: None,
        },
        payload: 100,
        json: None,
    };
    let (mut parser, mut operate) = (lexopt::Parser::from_env(), false);
    while let Some(word) = parser.next()? {
        match word {
            Value(word) if word == "report" && run.workloads.is_empty() => {
                return Ok(Command::Report(parser.value()?.into()));
            }
            Value(word) if word == "picture" && run.workloads.is_empty() => {
                return Ok(Command::Picture(parser.value()?.into()));
            }
            Value(word) if word == "operate" => operate = true,
            Value(word) => {
                let workload = word.to_str().and_then(Workload::parse);
                run.workloads
                    .push(workload.ok_or_else(|| fail(format!("no workload {}", word.display())))?);
            }
            Short('h') | Long("help") => {
                print!("{HELP}");
                std::process::exit(0);
            }
            Long("quick") => run.scale = Scale::Quick,
            Long("smoke") => run.scale = Scale::Smoke,
            Long("rounds") => run.rounds = parser.value()?.parse()?,
            Long("against") => run.against = Some(list(&mut parser)?),
            Long("only") => run.only = Some(list(&mut parser)?),
            Long("also") => {
                let value = parser.value()?.string()?;
                let (name, program) =
                    value.split_once('=').ok_or_else(|| fail("--also NAME=PROGRAM"))?;
                run.also.push(Contender::other_build(name, program.as_ref()));
            }
            Long("server") => run.setup.program = parser.value()?.into(),
            Long("persistence") => {
                let value = parser.value()?.string()?;
                run.setup.persistence = Persistence::parse(&value)
                    .ok_or_else(|| fail("--persistence none, everysec or always"))?;
            }
            Long("socket") => {
                run.setup.unix = match parser.value()?.to_str() {
                    Some("unix") => true,
                    Some("tcp") => false,
                    _ => return Err(fail("--socket tcp or unix")),
                }
            }
            Long("pin") => run.setup.pinned = true,
            Long("dir") => run.setup.dir = Some(parser.value()?.into()),
            Long("payload") => run.payload = parser.value()?.parse()?,
            Long("json") => run.json = Some(parser.value()?.into()),
            other => return Err(fail(format!("{}\n\n{HELP}", other.unexpected()))),
        }
    }
    if operate {
        return Ok(Command::Operate(Box::new(run)));
    }
    if run.workloads.is_empty() {
        run.workloads = Workload::ALL.to_vec();
    }
    if run.rounds == 0 {
        run.rounds = match run.scale {
            Scale::Full => 9,
            Scale::Quick => 3,
            Scale::Smoke => 1,
        };
    }
    Ok(Command::Run(Box::new(run)))
}

fn list(parser: &mut lexopt::Parser) -> Result<Vec<String>, Failure> {
    Ok(parser.value()?.string()?.split(',').map(str::to_owned).collect())
}
