//! How much one call moves, and how long it may take.

use std::time::Duration;

/// After so long without a byte on its line a call that does not block is given up, with its connection.
pub(crate) const CALL_WITHIN: Duration = Duration::from_secs(5);

/// No script moves more bytes than about this, unless they are one job's: it takes 2 to 3 ms for as many, since Lua copies and hashes
/// each of them, and nobody else is answered meanwhile.
pub(crate) const SCRIPT_BYTES: usize = 1024 * 1024;

/// No write has more bytes than about this, unless they are one job's, so that on a slow line others are not long behind it.
pub(crate) const WRITE_BYTES: usize = 4 * 1024 * 1024;

/// No script moves more jobs than this.
pub(crate) const SCRIPT_JOBS: usize = 1000;

/// Of jobs that do not just end, but are put elsewhere one by one, no script moves more than this: each takes up to ten times as
/// long as an ack (5 us for a retry with a delay), and nobody else is answered meanwhile.
pub(crate) const SCRIPT_MOVES: usize = 250;

/// How long the counters of one day are kept.
pub(super) const DAY_TTL_S: u64 = 90 * 86_400;

/// What is under way gets a moment even at the end: its answer is worth more than none.
pub(crate) const LAST_MOMENT: Duration = Duration::from_millis(100);

/// Calls that may be under way at once on a connection before a further one waits for a place.
pub(super) const CALLS_IN_FLIGHT: usize = 1024;
