//! What stands in the place of the cipher where the feature `encryption` is off: no key can be made.

use super::unopened::Unopened;
use crate::error::BoxError;

#[derive(Debug)]
pub(crate) enum Key {}

/// What would be opened with a key.
pub(super) type Text = String;

impl Key {
    pub(super) fn id(&self) -> &str {
        match *self {}
    }

    pub(super) fn seal(&self, _: Vec<u8>, _: &str) -> Result<(String, String), BoxError> {
        match *self {}
    }

    pub(super) fn digest(&self, _: &str) -> Option<String> {
        match *self {}
    }

    pub(super) fn open(&self, _: &str, _: &str, _: &str) -> Result<Text, Unopened> {
        match *self {}
    }
}

pub(crate) fn parse(_: &str) -> Result<Vec<Key>, String> {
    Err("encryption needs the feature `encryption` of hworker; add it in Cargo.toml".into())
}
