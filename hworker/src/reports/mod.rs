//! What a body reports of its job while it runs: how far it is, the lines of its log, and the checkpoints from which the next attempt goes on.
//!
//! `of_body` is what a body calls. It never waits: what it reports stands in the attempt (`context/report.rs`), and a task of the attempt writes it
//! (`write`), at most once a second, under the lease, so that an attempt that has lost its job reports nothing more. `each` is a loop that does
//! all of this by itself. `read` is for those who look.

mod each;
mod of_body;
mod progress;
mod read;
mod write;

pub use each::Each;
pub use of_body::ProgressNote;
pub use progress::{LogLine, Progress};
pub(crate) use read::Reports;
#[cfg(feature = "testing")]
pub(crate) use read::unwritten;
pub(crate) use write::{Ends, last};
