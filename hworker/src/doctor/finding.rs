//! What the doctor says.

use std::fmt;

use serde::Serialize;

use super::repair::Repair;
use crate::store::{Fault, FaultKind, Queue};

/// What the doctor says of one thing; [`Client::doctor`](crate::Client::doctor) gives all.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: `server`, `eviction`, `clock` and the like, or `queue` and its name.
    pub about: String,
    /// What was found, and what to do about it.
    pub text: String,
    /// What mends it, where the doctor can; for [`Client::repair`](crate::Client::repair).
    #[cfg_attr(feature = "web", schema(value_type = Option<String>))]
    pub repair: Option<Repair>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// It could not be looked at.
    Skip,
    /// Jobs may be late, or lost in an accident.
    Warn,
    /// Jobs are late or are lost.
    Fail,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Skip => "skip",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
        })
    }
}

/// What was found so far.
#[derive(Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    pub(super) fn say(
        &mut self,
        severity: Severity,
        about: impl Into<String>,
        text: impl Into<String>,
    ) {
        self.0.push(Finding { severity, about: about.into(), text: text.into(), repair: None });
    }

    /// A fault that a repair mends.
    pub(super) fn mends(
        &mut self,
        severity: Severity,
        about: &str,
        text: impl Into<String>,
        repair: Repair,
    ) {
        let (about, text) = (about.to_owned(), text.into());
        self.0.push(Finding { severity, about, text, repair: Some(repair) });
    }

    /// What a look gave. One that the server refused is skipped.
    pub(super) fn look<T>(
        &mut self,
        about: &str,
        answer: Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(fault) if matches!(fault.kind, FaultKind::Denied | FaultKind::Reply) => {
                self.say(Severity::Skip, about, format!("not looked at: {fault}"));
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }

    /// A key of another type than it should have: every call that touches it fails. Gives whether it is.
    pub(super) fn check_type(
        &mut self,
        about: &str,
        queue: Option<&Queue>,
        (key, wanted, found): (&str, &'static str, &str),
    ) -> bool {
        let wrong = found != wanted && found != "none";
        if wrong {
            let text =
                format!("the key {key} is a {found} and no {wanted}: another program wrote it");
            self.mends(Severity::Fail, about, text, Repair::set_aside(key, wanted, queue));
        }
        wrong
    }
}
