//! In which order jobs are shown.

/// In which order jobs are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// The one whose turn comes next is the first: the oldest of waiting and of ended ones, the earliest due of scheduled ones.
    Next,
    /// The newest is the first.
    Newest,
}
