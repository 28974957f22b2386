//! What pages show of a job, of what it may show to whoever looks.

use maud::{Markup, html};
use serde_json::Value;

use super::frame::icon;
use super::text::{cut, marked, plain};
use crate::inspect::QueueInfo;
use crate::job_state::JobState;

/// So many characters of arguments and errors are in a line.
const LINE: usize = 200;

/// A text that a job has.
pub(super) fn text<'a>(job: &'a Value, field: &str) -> Option<&'a str> {
    job.get(field)?.as_str().filter(|text| !text.is_empty())
}

/// Its arguments in a line.
pub(super) fn args(job: &Value) -> Markup {
    let args = &job["args"];
    let text = args.as_str().map_or_else(|| args.to_string(), str::to_owned);
    html! { span.mono { (cut(&text, LINE)) } }
}

/// Its error in a line, or what is wrong with it.
pub(super) fn error(job: &Value) -> Markup {
    html! {
        @if let Some(message) = text(job, "message") {
            @let first = message.lines().next().unwrap_or_default();
            (kind_icon(text(job, "kind").unwrap_or_default(), text(job, "state").unwrap_or_default())) " "
            span title=(plain(first)) { (cut(first, LINE)) }
        }
    }
}

/// The icon of how an attempt ended, or of a state.
pub(super) fn kind_icon(kind: &str, state: &str) -> Markup {
    icon(match (kind, state) {
        ("panic", _) => "panic failed",
        ("timeout" | "deadline", _) => "expired failed",
        ("crash", _) => "crash failed",
        ("retry", _) => "retry scheduled",
        (_, state) => mark(state),
    })
}

/// The classes of a state: its icon and its colour.
pub(super) fn mark(state: &str) -> &'static str {
    match state {
        "done" => "done",
        "running" => "running",
        "waiting" => "waiting",
        "scheduled" => "scheduled",
        "parked" => "paused",
        "cancelled" => "cancelled",
        "expired" => "cancelled expired",
        "broken" => "failed broken",
        _ => "failed",
    }
}

/// How many jobs are in a state.
pub(super) fn in_state(queue: &QueueInfo, state: JobState) -> u64 {
    let counts = &queue.counts;
    match state {
        JobState::Waiting => counts.waiting,
        JobState::Scheduled => counts.scheduled,
        JobState::Parked => counts.parked,
        JobState::Running => counts.running,
        JobState::Failed => counts.failed,
        JobState::Cancelled => counts.cancelled,
        JobState::Expired => counts.expired,
        JobState::Done => counts.done,
        JobState::Broken => counts.broken,
    }
}

/// A state as a badge.
pub(super) fn badge(state: &str) -> Markup {
    let mut word = state.to_owned();
    if let Some(first) = word.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    html! { span class={ "badge " (mark(state)) } { (icon(mark(state))) (word) } }
}

/// JSON over several lines, with names, texts and numbers apart; no more than so many characters.
pub(super) fn json(value: &Value, most: usize) -> Markup {
    let mut left = most;
    html! { (node(value, 0, &mut left)) @if left == 0 { "\n…" } }
}

fn node(value: &Value, depth: usize, left: &mut usize) -> Markup {
    *left = left.saturating_sub(2 + depth);
    if *left == 0 {
        return html! {};
    }
    match value {
        Value::Object(object) if !object.is_empty() => html! {
            "{\n"
            @for (at, (name, value)) in object.iter().enumerate() {
                @if *left > 0 {
                    (indent(depth + 1)) span.k { (string(name, left)) } ": " (node(value, depth + 1, left))
                    @if at + 1 < object.len() { "," } "\n"
                }
            }
            (indent(depth)) "}"
        },
        Value::Array(list) if !list.is_empty() => html! {
            "[\n"
            @for (at, value) in list.iter().enumerate() {
                @if *left > 0 {
                    (indent(depth + 1)) (node(value, depth + 1, left)) @if at + 1 < list.len() { "," } "\n"
                }
            }
            (indent(depth)) "]"
        },
        Value::String(text) => html! { bdi.s { (string(text, left)) } },
        other => html! { span.v { (other.to_string()) } },
    }
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth.min(32))
}

fn string(text: &str, left: &mut usize) -> Markup {
    let quoted = Value::from(text).to_string();
    let (shown, is_whole) = super::text::begin(&quoted, *left);
    *left = if is_whole { left.saturating_sub(shown.len()) } else { 0 };
    marked(shown, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_shown_as_text_and_no_longer_than_asked_for() {
        let value =
            serde_json::json!({ "a<b": "</pre><script>\u{202e}", "n": [1, true, null], "e": {} });
        let shown = json(&value, 1_000).into_string();
        assert!(shown.contains("&quot;a&lt;b&quot;") && !shown.contains("<script"), "{shown}");
        assert!(shown.contains("RLO") && !shown.contains('\u{202e}'), "{shown}");
        let long = json(&Value::from(vec!["x".repeat(100); 1_000]), 500).into_string();
        assert!(long.len() < 2_000 && long.ends_with('…'), "{long}");
    }

    #[test]
    fn every_state_has_a_mark() {
        for state in crate::job_state::JobState::ALL {
            assert!(state.name() == "failed" || mark(state.name()) != "failed", "{state}");
        }
    }
}
