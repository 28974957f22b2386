//! An event as it stands in the stream: one line of JSON. The names of the fields are in `docs/wire-format.md`.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hooks::{Event, EventKind};

/// A message is cut to so many bytes.
pub(crate) const MESSAGE_BYTES: usize = 500;

/// An event. The entry says which worker tells it and when, where the line does not.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Line<'a> {
    #[serde(borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<u32>,
    /// How long the body ran, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ran_ms: Option<u64>,
    /// In ms since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<u64>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<Cow<'a, str>>,
}

impl<'a> Line<'a> {
    pub(crate) fn new(kind: EventKind, job: Option<&'a str>, id: Option<&'a str>) -> Self {
        let kind = Cow::Borrowed(kind.name());
        Self { kind, job: job.map(Cow::Borrowed), id: id.map(Cow::Borrowed), ..Self::default() }
    }

    /// Without its end.
    pub(crate) fn text(&self) -> String {
        // It has texts and numbers alone.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What a line says, with what its entry says; `None` of a line that this version does not know.
    pub(super) fn event(
        line: &'a str,
        queue: &str,
        at: u64,
        worker: &str,
        unsure: bool,
    ) -> Option<Event> {
        let line: Self = serde_json::from_str(line).ok()?;
        let owned = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
        Some(Event {
            kind: line.kind.parse().ok()?,
            at: line.at.unwrap_or(at),
            queue: queue.to_owned(),
            job: owned(line.job),
            id: line.id.map(|id| (*id).into()),
            attempt: line.attempt,
            worker: owned(line.worker)
                .or_else(|| Some(worker.to_owned()))
                .filter(|worker| !worker.is_empty()),
            message: owned(line.message),
            elapsed: line.ran_ms.map(Duration::from_millis),
            unsure,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut line = Line::new(EventKind::Failed, Some("a"), Some("\"1\""));
        (line.attempt, line.ran_ms, line.message) = (Some(2), Some(5), Some("no\nwell".into()));
        let text = line.text();
        assert!(!text.contains('\n'), "{text}");
        let event = Line::event(&text, "mail", 7, "w", false).expect("an event");
        assert_eq!(event.kind, EventKind::Failed);
        assert_eq!(event.id.as_ref().map(crate::envelope::JobId::as_str), Some("\"1\""));
        assert_eq!((event.attempt, event.at, event.worker.as_deref()), (Some(2), 7, Some("w")));
        assert_eq!(event.elapsed, Some(Duration::from_millis(5)));
        assert_eq!(event.message.as_deref(), Some("no\nwell"));
        for unknown in ["", "{}", "[]", r#"{"kind":"flown"}"#, r#"{"kind":7}"#] {
            assert_eq!(Line::event(unknown, "mail", 7, "w", false), None, "{unknown}");
        }
    }
}
