//! Nothing but its tests: `refused.rs`, and the programs under `pass`.
