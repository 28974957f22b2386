//! A part of a list, as the API gives it.

use serde::Serialize;
use utoipa::ToSchema;

/// A part of a list.
#[derive(Serialize, ToSchema)]
pub(super) struct List<T> {
    pub(super) items: Vec<T>,
    /// For `cursor`, where there may be more.
    pub(super) next: Option<String>,
    /// How many were looked at.
    pub(super) scanned: u64,
    /// How many there are, with those that a filter leaves out.
    pub(super) total: u64,
    /// False where some of them cannot be reached.
    pub(super) complete: bool,
}

impl<T> List<T> {
    /// A whole list.
    pub(super) fn all(items: Vec<T>) -> Self {
        let total = items.len() as u64;
        Self { items, next: None, scanned: total, total, complete: true }
    }
}
