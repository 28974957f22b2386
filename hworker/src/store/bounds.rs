//! How much one call moves, and how long it may take.

use std::time::Duration;

/// A call that does not block is given up, with its connection, when its line has been silent for this long.
pub(crate) const CALL_WITHIN: Duration = Duration::from_secs(5);

/// About the most bytes that a script moves, unless one job is larger. Lua copies and hashes each byte: this many take 2 to 3 ms, in
/// which the server answers nothing else.
pub(crate) const SCRIPT_BYTES: usize = 1024 * 1024;

/// About the most bytes of one write, unless one job is larger, so that other calls do not wait long on a slow line.
pub(crate) const WRITE_BYTES: usize = 4 * 1024 * 1024;

/// No script moves more jobs than this.
pub(crate) const SCRIPT_JOBS: usize = 1000;

/// The most jobs that a script moves one by one, instead of only acking them. Each takes up to ten times as long as an ack (5 us for a
/// retry with a delay).
pub(crate) const SCRIPT_MOVES: usize = 250;

/// How long the counters of one day are kept.
pub(super) const DAY_TTL_S: u64 = 90 * 86_400;

/// A call under way gets this long even at the end of its time: a late answer is better than none.
pub(crate) const LAST_MOMENT: Duration = Duration::from_millis(100);

/// Calls under way at once on a connection; further ones wait.
pub(super) const CALLS_IN_FLIGHT: usize = 1024;
