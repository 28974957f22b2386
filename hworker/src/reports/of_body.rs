//! What a body calls.

use std::fmt::Display;
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use super::progress::{StoredLine, StoredProgress};
use super::read::{checkpoint_of, opened};
use super::write::{changed, client_of, kept_under};
use crate::context::Context;
use crate::encryption::{Encrypted, Owner, What, is_sealed};
use crate::envelope::{bounded, describe};
use crate::error::{BoxError, Cause, Error};
use crate::strict_json;
use crate::time::{millis, since_1970};

/// The most bytes of a note, and of a line of the log.
const LONGEST_TEXT: usize = 4_000;

/// The most bytes of a checkpoint.
const LARGEST_CHECKPOINT: usize = 64 * 1024;

impl Context {
    /// Says how far the job is, for those who look: [`Inspect::progress`](crate::Inspect::progress), `hworker jobs show`, the web page. Never waits:
    /// the last one is written within a second, and before the attempt ends.
    ///
    /// ```
    /// # #[hworker::job]
    /// # async fn resize(pictures: Vec<String>, context: hworker::Context) {
    /// for (done, picture) in pictures.iter().enumerate() {
    ///     context.progress(done as u64, pictures.len() as u64).note(picture);
    /// }
    /// # }
    /// ```
    // A note need not follow.
    #[allow(clippy::must_use_candidate)]
    pub fn progress(&self, done: u64, of: u64) -> ProgressNote<'_> {
        let stored = self.is_at(done, of, true);
        ProgressNote { context: self, stored }
    }

    /// Sets the progress. That of a loop, which is not `by_body`, does not replace that of the body.
    pub(super) fn is_at(&self, done: u64, of: u64, by_body: bool) -> Option<StoredProgress> {
        let (at, attempt) = (now_ms(), self.attempt());
        changed(self, |unwritten| {
            if unwritten.body_tells && !by_body {
                return None;
            }
            unwritten.body_tells |= by_body;
            let (first_done, first_at) = *unwritten.first.get_or_insert((done, at));
            let stored = StoredProgress { done, of, note: None, at, attempt, first_done, first_at };
            unwritten.set("progress", serde_json::to_vec(&stored).ok()?);
            Some(stored)
        })
        .flatten()
    }

    /// Adds a line to the log of the job, for those who look: [`Inspect::log`](crate::Inspect::log), `hworker jobs log`, the web page. Never waits: it is
    /// written within a second, and before the attempt ends. The newest 1,000 lines and 256 KB are kept, of a line its first 4,000 bytes.
    ///
    /// ```
    /// # #[hworker::job]
    /// # async fn fetch(url: String, context: hworker::Context) {
    /// context.log(format_args!("{url} has 17 links"));
    /// # }
    /// ```
    pub fn log(&self, line: impl Display) {
        let text = self.stored_text(What::Log, &bounded(&line.to_string(), LONGEST_TEXT));
        let (Some(text), at, attempt) = (text, now_ms(), self.attempt()) else { return };
        if let Ok(line) = serde_json::to_vec(&StoredLine { at, attempt, text }) {
            changed(self, |unwritten| unwritten.add_line(line));
        }
    }

    /// Saves where the job stands, for its next attempt, which finds it with [`restored`](Self::restored): after a crash, a deploy, an error or a
    /// snooze, also where it is run again after it has failed for good. Never waits: it is written within a second, and before the attempt ends.
    /// Where the worker dies the last second may be missing, so what follows a checkpoint may run again.
    ///
    /// ```
    /// #[hworker::job(timeout = "8h")]
    /// async fn copy_table(name: String, context: hworker::Context) -> Result<(), hworker::Error> {
    ///     let mut row: u64 = context.restored().await?.unwrap_or(0);
    ///     while row < 1_000_000 {
    ///         // copy a thousand rows of `name`
    ///         row += 1_000;
    ///         context.checkpoint(&row)?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::Encode`] where the value cannot be turned into JSON, [`Error::Refused`] where that has more than 64 KB, [`Error::Config`] where it is to
    /// be encrypted and there is no key. The one before stands.
    pub fn checkpoint<T: Serialize>(&self, value: &T) -> Result<(), Error> {
        let refused = |source: BoxError| Error::Encode {
            job: self.attempt_of().job,
            source: Cause::new(source),
        };
        let mut json = Vec::new();
        strict_json::write(value, &mut json).map_err(|error| refused(error.into()))?;
        if json.len() > LARGEST_CHECKPOINT {
            let why = format!("it has {} bytes, and may have {LARGEST_CHECKPOINT}", json.len());
            return Err(Error::Refused {
                doing: format!("save a checkpoint of job {} {}", self.job(), self.id()),
                source: Cause::new(why),
            });
        }
        let text = String::from_utf8(json).map_err(|error| refused(error.into()))?;
        let raw = RawValue::from_string(text).map_err(|error| refused(error.into()))?;
        let stored = self.sealed(What::Checkpoint, raw)?;
        changed(self, |unwritten| unwritten.set("checkpoint", stored.get().into()));
        Ok(())
    }

    /// What the job saved last with [`checkpoint`](Self::checkpoint), in this attempt or an earlier one. It is kept for 7 days after the last time that
    /// the job reported anything, 30 days after it has failed for good.
    ///
    /// # Errors
    /// Where the server cannot be asked, and [`Error::Protocol`] where it does not fit the type, as after a deploy that changed that.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn restored<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let Some(text) = checkpoint_of(self, "checkpoint").await? else { return Ok(None) };
        let wrong = |why: String| Error::Protocol {
            operation: "restored",
            detail: format!("the checkpoint of job {} {} {why}", self.job(), self.id()),
        };
        let raw: Box<RawValue> = serde_json::from_slice(&text)
            .map_err(|error| wrong(format!("is no JSON: {}", describe(&error))))?;
        let held = self.attempt_of().held.as_ref();
        if held.is_some_and(|held| held.encrypted() == Encrypted::Only) && !is_sealed(raw.get()) {
            return Err(wrong("is not encrypted, and its type takes no other".into()));
        }
        let client = client_of(self);
        let json = opened(client.as_ref(), What::Checkpoint, &kept_under(self), raw)
            .map_err(|why| wrong(format!("cannot be read: {why}")))?;
        serde_json::from_str(&json)
            .map(Some)
            .map_err(|error| wrong(format!("does not fit: {}", describe(&error))))
    }

    /// A value as it is stored: encrypted where the arguments of the job are.
    fn sealed(&self, what: What, json: Box<RawValue>) -> Result<Box<RawValue>, Error> {
        let attempt = self.attempt_of();
        let own = attempt.held.as_ref().map_or(Encrypted::No, |held| held.encrypted());
        let Some(client) = client_of(self) else { return Ok(json) };
        let keys = client.keys_where(own).map_err(|why| {
            Error::config(format!("what job {} reports is to be encrypted, but {why}", attempt.job))
        })?;
        let Some(keys) = keys else { return Ok(json) };
        let id = kept_under(self);
        let owner = Owner { what, job: "", id: &id };
        let refused =
            |source: BoxError| Error::Encode { job: attempt.job, source: Cause::new(source) };
        let (sealed, _) = keys.seal(&json, owner).map_err(refused)?;
        to_raw_value(&sealed).map_err(|error| refused(error.into()))
    }

    /// A text as it is stored. One that cannot be encrypted is left out: it is only for those who look.
    fn stored_text(&self, what: What, text: &str) -> Option<Box<RawValue>> {
        self.sealed(what, to_raw_value(text).ok()?).ok()
    }
}

fn now_ms() -> u64 {
    millis(since_1970(SystemTime::now()))
}

/// What [`Context::progress`] gives: to say what the body is doing.
pub struct ProgressNote<'a> {
    context: &'a Context,
    stored: Option<StoredProgress>,
}

impl ProgressNote<'_> {
    /// Says it, in at most 4,000 bytes.
    pub fn note(self, note: impl Display) {
        let note = bounded(&note.to_string(), LONGEST_TEXT);
        let note = self.context.stored_text(What::Progress, &note);
        let Some(stored) = self.stored.map(|stored| StoredProgress { note, ..stored }) else {
            return;
        };
        if let Ok(json) = serde_json::to_vec(&stored) {
            changed(self.context, |unwritten| unwritten.set("progress", json));
        }
    }
}
