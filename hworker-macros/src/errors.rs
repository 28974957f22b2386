//! Collects everything that is wrong with a job, so that it is reported at once.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Error, Result};

/// The errors found so far. They have to be turned into tokens, or they would be lost.
#[derive(Default)]
pub(crate) struct Errors(Vec<Error>);

impl Errors {
    pub(crate) fn push(&mut self, error: Error) {
        self.0.push(error);
    }

    /// An error at `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    /// The value, or `None` where its error was collected.
    pub(crate) fn ok<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// One `compile_error!` for each error.
    pub(crate) fn into_tokens(mut self) -> TokenStream {
        self.0.drain(..).map(|error| error.to_compile_error()).collect()
    }

    #[cfg(test)]
    pub(crate) fn into_messages(mut self) -> Vec<String> {
        self.0.drain(..).map(|error| error.to_string()).collect()
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        debug_assert!(self.0.is_empty() || std::thread::panicking(), "errors were not reported");
    }
}
