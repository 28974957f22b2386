//! One attempt, from reserved bytes to the end of its lease.

pub(crate) mod admit;
pub(crate) mod blocking;
pub(crate) mod decide;
pub(crate) mod decode;
pub(crate) mod finish;
pub(crate) mod panic;
pub(crate) mod record;
pub(crate) mod run;
pub(crate) mod runner;
