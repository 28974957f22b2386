//! How the program ends when it does not end well: exit codes.

use std::process::ExitCode;

use hworker::Error;

const NOTHING_DONE: &str = "nothing done";

/// A reason to end, with its exit code.
#[derive(Debug)]
pub(crate) struct Stop {
    code: u8,
    why: String,
}

impl Stop {
    fn new(code: u8, why: impl Into<String>) -> Self {
        Self { code, why: why.into() }
    }

    /// It failed, or only a part was done.
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self::new(1, why)
    }

    pub(crate) fn usage(why: impl Into<String>) -> Self {
        Self::new(2, why)
    }

    pub(crate) fn not_found(why: impl Into<String>) -> Self {
        Self::new(3, why)
    }

    /// The server was not reached, and nothing changed.
    pub(crate) fn unreached(why: impl Into<String>) -> Self {
        Self::new(4, why)
    }

    /// It may have been done: the answer was lost.
    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self::new(5, why)
    }

    /// The same after a part was done, so that nobody takes it for nothing.
    pub(crate) fn after(self, done: &str) -> Self {
        Self {
            code: if self.code == 5 { 5 } else { 1 },
            why: format!("{done}, then: {}", self.why),
        }
    }

    /// Rights, no confirmation, or read-only.
    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Self::new(6, why)
    }

    /// Somebody was asked, and did not say yes.
    pub(crate) fn said_no() -> Self {
        Self::new(6, NOTHING_DONE)
    }

    pub(crate) fn is_no(&self) -> bool {
        self.code == 6 && self.why == NOTHING_DONE
    }

    /// What the doctor found stands above.
    pub(crate) fn doctor(code: u8) -> Self {
        Self::new(code, "")
    }

    pub(crate) fn interrupted() -> Self {
        Self::new(130, "interrupted")
    }

    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    /// Says why, and gives the code.
    pub(crate) fn say(self) -> ExitCode {
        if !self.why.is_empty() {
            crate::output::tell(&format!("hworker: {}", self.why));
        }
        ExitCode::from(self.code)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Config(_) | Error::Encode { .. } | Error::Invalid { .. } => 2,
            Error::NotFound { .. } => 3,
            Error::Unavailable { .. } => 4,
            Error::Uncertain { .. } | Error::Unanswered { .. } => 5,
            Error::Refused { .. } | Error::Vetoed { .. } => 6,
            _ => 1,
        };
        Self::new(code, error.to_string())
    }
}
