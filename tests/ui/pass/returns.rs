//! Everything that a job may return.
#![deny(warnings)]

use std::fmt;

use hworker::{BoxError, Outcome, Verdict};

type JobResult = Result<(), std::io::Error>;
type OutcomeResult = Result<Outcome, BoxError>;

/// An error that only says how it turns into a boxed one.
struct Convertible;

impl From<Convertible> for BoxError {
    fn from(_: Convertible) -> Self {
        "convertible".into()
    }
}

/// An error that is one itself and takes verdicts.
#[derive(Debug)]
struct Own;

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("own")
    }
}

impl std::error::Error for Own {}

impl From<Verdict> for Own {
    fn from(_: Verdict) -> Self {
        Own
    }
}

macro_rules! jobs {
    ($($name:ident $returned:ty = $value:expr;)*) => { $(
        #[hworker::job]
        async fn $name() -> $returned {
            $value
        }
    )* };
}

jobs! {
    unit () = ();
    number u64 = 1;
    text &'static str = "1";
    optional Option<u8> = None;
    outcome Outcome = Outcome::Success;
    unit_or_io Result<(), std::io::Error> = Ok(());
    unit_or_text Result<(), String> = Ok(());
    unit_or_static Result<(), &'static str> = Ok(());
    number_or_box Result<u64, Box<dyn std::error::Error + Send + Sync>> = Ok(1);
    nested Result<JobResult, String> = Ok(Err(std::io::Error::other("no")));
    nested_outcome Result<OutcomeResult, String> = Ok(Ok(Outcome::Success));
    outcome_or_box OutcomeResult = Ok(Outcome::Success);
    alias JobResult = Ok(());
    convertible Result<(), Convertible> = Err(Convertible);
    verdict Result<(), Verdict> = Err(hworker::fail("no"));
    own Result<(), Own> = Err(hworker::fail("no").into());
    infallible Result<(), std::convert::Infallible> = Ok(());
}

#[hworker::job]
async fn nothing_written() {}

#[hworker::job]
fn lent_from_an_argument(text: &str) -> &str {
    text
}

#[hworker::job]
fn blocking() -> JobResult {
    Err(std::io::Error::other("no"))
}

fn main() {}
