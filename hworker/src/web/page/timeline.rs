//! The time line of one job: how long each attempt was held back, and how long it ran, to scale.

use maud::{Markup, html};
use serde_json::Value;

use super::figures::{clock, count, span};
use super::row::text;
use super::text::{begin, plain};

/// So much of the word for how an attempt ended is shown: others may have written it.
const KIND: usize = 20;

/// An attempt that has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) number: u64,
    pub(super) started: Option<u64>,
    /// When it ended; none while it runs.
    pub(super) ended: Option<u64>,
    /// How: `error`, `panic`; empty for a success, and while it runs.
    pub(super) kind: String,
    pub(super) message: String,
    pub(super) place: String,
    pub(super) backtrace: String,
    pub(super) worker: String,
}

/// The attempts of a job, the first one first.
pub(super) fn attempts(job: &Value) -> Vec<Attempt> {
    let errors = job["errors"].as_array().into_iter().flatten();
    let mut attempts: Vec<_> = errors.map(|error| of(error, error["attempt"].as_u64())).collect();
    let number = job["attempt"].as_u64().unwrap_or(1);
    let state = text(job, "state").unwrap_or_default();
    let runs = state == "running";
    let is_told = attempts.last().is_some_and(|last| last.number == number);
    if (runs || matches!(state, "failed" | "done" | "cancelled")) && !is_told {
        let mut last = of(job, Some(number));
        if runs {
            (last.started, last.ended) = (last.ended, None);
        }
        if last.started.is_some() {
            attempts.push(last);
        }
    }
    attempts
}

fn of(told: &Value, number: Option<u64>) -> Attempt {
    let text = |field| text(told, field).unwrap_or_default().to_owned();
    Attempt {
        number: number.unwrap_or(1),
        started: told["started_at"].as_u64(),
        ended: told["at"].as_u64(),
        kind: plain(begin(&text("kind"), KIND).0),
        message: text("message"),
        place: text("place"),
        backtrace: text("backtrace"),
        worker: text("worker"),
    }
}

impl Attempt {
    pub(super) fn ran(&self, now: u64) -> Option<u64> {
        Some(self.ended.unwrap_or(now).saturating_sub(self.started?))
    }

    /// How it ended, in words.
    pub(super) fn says(&self, now: u64) -> String {
        let how = match (&*self.kind, self.ended) {
            (_, None) => "runs since",
            ("", _) => "ended after",
            (kind, _) => {
                return self
                    .ran(now)
                    .map_or_else(|| kind.to_owned(), |ran| format!("{kind} after {}", span(ran)));
            }
        };
        self.ran(now).map_or_else(|| how.to_owned(), |ran| format!("{how} {}", span(ran)))
    }

    fn class(&self) -> &'static str {
        match (&*self.kind, self.ended) {
            (_, None) => "running",
            ("", _) => "done",
            ("retry" | "cancelled", _) => "cancelled",
            _ => "failed",
        }
    }
}

/// The time line; nothing where no attempt has started.
pub(super) fn timeline(attempts: &[Attempt], enqueued: Option<u64>, now: u64) -> Markup {
    let started = attempts.iter().filter_map(|attempt| attempt.started).min();
    let begin = match (enqueued, started) {
        // A producer's clock may be ahead.
        (Some(enqueued), Some(started)) => enqueued.min(started),
        (_, Some(started)) => started,
        _ => return html! {},
    };
    // Anybody may have written these times.
    let begin = begin.min(now.saturating_sub(1));
    let end = attempts
        .iter()
        .filter(|attempt| attempt.started.is_some())
        .map(|attempt| attempt.ended.unwrap_or(now))
        .max();
    let end = end.unwrap_or(now).max(begin.saturating_add(1));
    let part = |at: u64| (at.clamp(begin, end) - begin) as f64 * 100.0 / (end - begin) as f64;
    let mut before = begin;
    let lanes: Vec<_> = attempts
        .iter()
        .filter_map(|attempt| {
            let (from, to) = (part(attempt.started?), part(attempt.ended.unwrap_or(now)));
            let held = part(before);
            before = attempt.ended.unwrap_or(now);
            Some((attempt, held, from, to.max(from + 0.4)))
        })
        .collect();
    html! {
        section.panel data-live="timeline" {
            header {
                h2 { "Timeline" } p { (span(end - begin)) " in " (count(attempts.len() as u64, "attempt", "attempts")) }
                span.key.push { span.scheduled.rest { "held back" } span.failed { "ran, failed" } span.done { "done" } }
            }
            div.body {
                div.lanes {
                    @for (attempt, held, from, to) in &lanes {
                        @let says = attempt.says(now);
                        span { "Attempt " (attempt.number) }
                        svg role="img" aria-label=(says) {
                            (bar("rest scheduled", *held, *from))
                            (bar(attempt.class(), *from, *to))
                        }
                        span.n.dim { (says) }
                    }
                    span.hide-s {}
                    svg.axis aria-hidden="true" {
                        text x="0%" y="11" text-anchor="start" data-at=(begin) { (clock(begin)) }
                        text x="50%" y="11" text-anchor="middle" { "+" (span((end - begin) / 2)) }
                        text x="100%" y="11" text-anchor="end" data-at=(end) { (clock(end)) }
                    }
                    span.hide-s {}
                }
            }
        }
    }
}

fn bar(class: &str, from: f64, to: f64) -> Markup {
    html! {
        @if to > from {
            rect class=(class) x={ (format!("{from:.2}")) "%" } width={ (format!("{:.2}", to - from)) "%" } height="100%" rx="2" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_an_attempt_ended_is_a_word_that_others_wrote() {
        let kind = format!("\u{202e}{}", "x".repeat(100));
        let job = serde_json::json!({ "errors": [{ "attempt": 1, "started_at": 1, "at": 2, "kind": kind }] });
        assert_eq!(attempts(&job)[0].says(9), format!("⟨RLO⟩{} after 1 ms", "x".repeat(19)));
    }

    #[test]
    fn the_last_attempt_of_a_failed_job_is_its_own() {
        let job = serde_json::json!({
            "state": "failed", "attempt": 2, "started_at": 5_000, "at": 6_000, "kind": "panic", "message": "no", "worker": "w",
            "errors": [{ "attempt": 1, "started_at": 1_000, "at": 2_000, "kind": "error", "message": "first", "worker": "w" }],
        });
        let all = attempts(&job);
        let told: Vec<_> = all.iter().map(|one| (one.number, one.says(9_000))).collect();
        assert_eq!(told, [(1, "error after 1 s".to_owned()), (2, "panic after 1 s".to_owned())]);
        let line = timeline(&all, Some(500), 9_000).into_string();
        assert!(line.contains("Attempt 2") && !line.contains("NaN"), "{line}");
        assert_eq!(timeline(&[], Some(500), 9_000).into_string(), "");
        let running =
            serde_json::json!({ "state": "running", "attempt": 1, "at": 5_000, "errors": [] });
        assert_eq!(attempts(&running)[0].says(7_000), "runs since 2 s");
        assert!(attempts(&serde_json::json!({ "state": "waiting", "attempt": 1 })).is_empty());
    }
}
