//! Jobs whose results are kept.

use std::time::Duration;

use hworker::{BoxError, Context, Handle};
use serde::{Deserialize, Serialize};

use crate::runs::{Runner, Runs};

/// What they return.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sum {
    pub total: u64,
    pub parts: Vec<f64>,
    pub text: String,
}

impl Sum {
    pub fn of(total: u64) -> Self {
        Self { total, parts: vec![0.5], text: "größer".into() }
    }

    pub fn saying(text: impl Into<String>) -> Self {
        Self { total: 0, parts: Vec::new(), text: text.into() }
    }
}

/// The error with which they fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoSum {
    Overflow { at: u64 },
    Refused(String),
}

impl std::fmt::Display for NoSum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no sum")
    }
}

impl std::error::Error for NoSum {}

/// How an attempt ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Ending {
    Gives(Sum),
    Fails(NoSum),
    Panics(String),
    /// The process aborts.
    Aborts,
}

async fn end(
    name: &str,
    gate: Option<String>,
    endings: Vec<Ending>,
    (context, runs): (&Context, Runs),
) -> Result<Sum, NoSum> {
    let runner = Runner::from(context);
    let number = runs.begin(&runner);
    runs.note(name, "begin", number, &runner);
    while gate.as_ref().is_some_and(|gate| !runs.is_open(gate)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    runs.note(name, "end", number, &runner);
    match endings.get(number as usize).or(endings.last()).cloned() {
        None => Ok(Sum::of(number)),
        Some(Ending::Gives(sum)) => Ok(sum),
        Some(Ending::Fails(why)) => Err(why),
        Some(Ending::Panics(text)) => panic!("{text}"),
        Some(Ending::Aborts) => std::process::abort(),
    }
}

/// Keeps its result and its error.
#[hworker::job(backoff = "0s", max_attempts = 2, keep_result = "1m", keep_error)]
pub async fn keep(
    name: String,
    gate: Option<String>,
    endings: Vec<Ending>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<Sum, NoSum> {
    end(&name, gate, endings, (&context, runs)).await
}

/// The same, in a process of its own.
#[hworker::job(
    backoff = "0s",
    max_attempts = 2,
    isolate = "process",
    keep_result = "1m",
    keep_error
)]
pub async fn keep_isolated(
    name: String,
    gate: Option<String>,
    endings: Vec<Ending>,
    context: Context,
    #[inject] runs: Runs,
) -> Result<Sum, NoSum> {
    end(&name, gate, endings, (&context, runs)).await
}

/// Waits for one.
#[hworker::job]
pub async fn wait_for(handle: Handle<keep>) -> Result<(), BoxError> {
    handle.await?;
    Ok(())
}
