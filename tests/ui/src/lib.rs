//! Nothing but its tests: `ui.rs`.
