//! Envelopes that only have to be sent.

use std::ops::Range;

use super::super::ready::Ready;
use crate::error::Error;

/// Where an envelope is among the bytes of all.
pub(super) type Span = Range<usize>;

/// What became of jobs that were to be encoded.
#[derive(Default)]
pub(super) struct Encoded {
    pub(super) ready: Vec<Ready<Span>>,
    /// All envelopes.
    pub(super) bytes: Vec<u8>,
    pub(super) wrong: Vec<(usize, Error)>,
}

impl Encoded {
    pub(super) fn add(&mut self, result: Result<Ready<Span>, Error>) {
        match result {
            Ok(job) => self.ready.push(job),
            Err(error) => self.wrong.push((self.ready.len() + self.wrong.len(), error)),
        }
    }
}
