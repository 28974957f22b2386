//! Cron entries: jobs that run by a cron expression, or at an interval.

mod build;
mod entry;
mod fire;
mod plan;
mod schedule;
mod template;
#[cfg(test)]
mod tests;

pub(crate) use build::{DeclaredEntry, declared, entry_of};
pub(crate) use entry::{Entry, When, check_entry, run_of};
pub(crate) use fire::{Notes, fire, run_now};
pub use schedule::Schedule;
pub(crate) use template::Template;
