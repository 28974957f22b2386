//! Job: what happened to this one?

use axum::response::Html;
use maud::{Markup, html};
use serde_json::Value;

use super::fields::pick;
use super::figures::{NONE, bytes, count, from_now, instant, moment, number, span};
use super::frame::icon;
use super::link::encode;
use super::row::{badge, json, kind_icon, mark, text};
use super::text::{cut, foreign, lines, name, plain};
use super::timeline::{Attempt, attempts, timeline};
use super::view::{Button, View, head};
use crate::envelope::JobId;
use crate::manifest::HIDDEN;
use crate::reports::{LogLine, Progress};
use crate::time::millis;
use crate::web::api::extract::Path;
use crate::web::problem::Problem;
use crate::web::shown;

/// So much of the arguments, and of an error, is on the page.
const MOST: usize = 64 * 1024;

/// And of a line of its log.
const MOST_OF_A_LINE: usize = 4_100;

pub(super) async fn show(
    view: View,
    Path((queue, id)): Path<(String, String)>,
) -> Result<Html<String>, Problem> {
    let found = view.site.find(&queue, &JobId::from(&*id)).await?;
    let missing = || {
        Problem::not_found(format!(
            "no job {id} on the queue {queue}: it may be done, deleted, or on another queue"
        ))
    };
    let found = found.ok_or_else(missing)?;
    let job = shown::job(&found, &view.site.types().await?, &view.asked);
    let log = match found.log_lines {
        0 => Vec::new(),
        _ => view.site.client.inspect(&queue).log(&JobId::from(&*id)).await?,
    };
    let progress = found.progress.as_ref();
    let page = Shown { view: &view, queue: &queue, id: &id, job: &job };
    let (state, title) = (page.text("state"), text(&job, "job").unwrap_or("not readable"));
    let all = attempts(&job);
    let enqueued = job["enqueued_at"].as_u64();
    let content = html! {
        p.crumb { a href=(view.at("/jobs")) { "Jobs" } span { "/" } a href=(view.jobs_link(&queue, state, "")) { (state) } }
        (head(&html! { (name(title)) " " (badge(state)) }, &page.verdict(), &page.actions()))
        div.two {
            div.stack { (page.progress(progress)) (timeline(&all, enqueued, view.now)) (page.attempts(&all)) (page.log(log)) (page.result()) (page.args()) }
            div.stack { (page.facts()) (page.commands()) }
        }
    };
    Ok(view.page("/jobs", &format!("{title} {state}"), &content))
}

struct Shown<'a> {
    view: &'a View,
    queue: &'a str,
    id: &'a str,
    job: &'a Value,
}

impl Shown<'_> {
    fn text(&self, field: &str) -> &str {
        text(self.job, field).unwrap_or_default()
    }

    fn verdict(&self) -> Markup {
        let (at, now) = (self.job["at"].as_u64(), self.view.now);
        let when =
            |word: &str| html! { " " (word) @if let Some(at) = at { " " (from_now(at, now)) } "." };
        html! {
            code { (cut(self.id, 100)) } " on " a href=(self.view.queue_link(self.queue)) { (name(self.queue)) } "."
            @match self.text("state") {
                "running" => { " It runs since " @if let Some(at) = at { (span(now.saturating_sub(at))) } "." },
                "waiting" => { " It waits" @if let Some(at) = at { " since " (span(now.saturating_sub(at))) } "." },
                "scheduled" => (when("It is due")),
                "parked" => " It waits for a worker that can run it.",
                "done" => (when("It was done")),
                "cancelled" => (when("It was cancelled")),
                "expired" => (when("It was not started in time, and expired")),
                "broken" => " It could not be run.",
                _ => (when("It failed for good")),
            }
        }
    }

    fn actions(&self) -> Markup {
        let pick = pick(self.job["at"].as_u64(), self.id);
        let state = self.text("state");
        let (main, rest): (&[&str], &[&str]) = match state {
            "running" => (&["cancel"], &[]),
            "waiting" => (&["promote", "edit"], &["move", "priority", "cancel", "delete"]),
            "scheduled" => {
                (&["promote", "edit", "reschedule"], &["move", "priority", "cancel", "delete"])
            }
            "parked" => (&["cancel"], &["delete"]),
            "broken" => (&[], &[]),
            _ => (&["retry", "edit", "move"], &["reset", "delete"]),
        };
        let fields = [("job", &*pick)];
        let list = self.view.jobs_link(self.queue, state, "");
        let button = |deed: &'static str, class: &'static str| Button {
            deed,
            queue: self.queue,
            fields: &fields,
            class,
            // It is not here any more afterwards.
            back: matches!(deed, "delete" | "move").then_some(&*list),
            label: (deed == "edit" && main.contains(&"retry")).then_some("Edit and retry"),
        };
        let menu: Vec<_> = rest.iter().map(|deed| button(deed, "")).collect();
        html! {
            @for (at, deed) in main.iter().enumerate() { (self.view.button(&button(deed, if at == 0 { "btn main" } else { "btn" }))) }
            (self.view.menu("", &menu))
        }
    }

    fn attempts(&self, all: &[Attempt]) -> Markup {
        let crashes = self.job["crashes"].as_array().map_or(0, Vec::len);
        html! {
            @if !all.is_empty() || crashes > 0 {
                section.panel data-live="attempts" {
                    header { h2 { "Attempts" } p { "newest first" } }
                    @for (at, attempt) in all.iter().rev().enumerate() { (self.attempt(attempt, at == 0)) }
                    @if crashes > 0 {
                        p.body.warn { (count(crashes as u64, "worker died while it", "workers died while each")) " held this job." }
                    }
                }
            }
        }
    }

    fn attempt(&self, attempt: &Attempt, is_open: bool) -> Markup {
        let first = attempt.message.lines().next().unwrap_or_default();
        let mark = if attempt.ended.is_none() {
            icon("running")
        } else {
            kind_icon(&attempt.kind, if attempt.kind.is_empty() { "done" } else { "failed" })
        };
        html! {
            details.try open[is_open] {
                summary {
                    (mark)
                    span {
                        b { "Attempt " (attempt.number) } " "
                        span.dim { @if attempt.place.is_empty() { (cut(first, 120)) } @else { "panic in " (cut(&attempt.place, 120)) } }
                    }
                    span.faint.hide-s {
                        @if let Some(started) = attempt.started { (moment(started)) }
                        @if !attempt.worker.is_empty() { " · " (cut(&attempt.worker, 12)) }
                        " · " (attempt.says(self.view.now))
                    }
                    (icon("caret"))
                }
                div {
                    @if !attempt.message.is_empty() { pre.code.wrap tabindex="0" { (lines(&attempt.message, MOST)) } }
                    @if !attempt.backtrace.is_empty() {
                        details.fold open[is_open] { summary { "Backtrace" } pre.code tabindex="0" { (backtrace(&attempt.backtrace)) } }
                    }
                }
            }
        }
    }

    fn progress(&self, progress: Option<&Progress>) -> Markup {
        let state = self.text("state");
        let Some(progress) = progress else { return html! { div data-live="progress" hidden {} } };
        let (done, of) = (number(progress.done), number(progress.of));
        let note = self.job["progress"]["note"].as_str().unwrap_or_default();
        let left =
            progress.time_left().filter(|_| state == "running" && progress.done < progress.of);
        html! {
            section.panel data-live="progress" {
                header { h2 { "Progress" } p { (done) " of " (of) } }
                div.body.stack {
                    progress max="100" value=(format!("{:.1}", progress.percent())) aria-label={ (done) " of " (of) } {}
                    p.meta {
                        @if !note.is_empty() { span { (cut(note, 300)) } }
                        @if let Some(left) = left { span { "about " (span(millis(left))) " left" } }
                        @if let Some(pace) = progress.per_second() { span { (format!("{pace:.1}")) " a second" } }
                        span { "said " (instant(progress.at, self.view.now)) ", in attempt " (number(u64::from(progress.attempt))) }
                    }
                }
            }
        }
    }

    fn log(&self, log: Vec<LogLine>) -> Markup {
        html! {
            section.panel data-live="log" hidden[log.is_empty()] {
                header { h2 { "Log" } p { (count(log.len() as u64, "line", "lines")) ", the newest last" } }
                div.body {
                    pre.code.wrap tabindex="0" {
                        @for line in log {
                            @let line = shown::line(line, &self.view.asked);
                            span.k { (moment(line.at)) " #" (line.attempt) " " } (lines(&line.text, MOST_OF_A_LINE)) "\n"
                        }
                    }
                }
            }
        }
    }

    fn result(&self) -> Markup {
        let result = &self.job["result"];
        html! {
            @if !result.is_null() {
                section.panel {
                    header { h2 { "Result" } }
                    div.body { pre.code.wrap tabindex="0" { (json(result, MOST)) } }
                }
            }
        }
    }

    fn args(&self) -> Markup {
        let args = &self.job["args"];
        let is_hidden = args.as_str() == Some(HIDDEN);
        html! {
            section.panel {
                header {
                    h2 { "Arguments" } p { "the whole job: " (bytes(self.job["bytes"].as_u64().unwrap_or(0))) }
                    @if !is_hidden {
                        span.push.row {
                            button.btn.bare.low type="button" data-copy="args-json" hidden data-script="" { (icon("copy")) "Copy" }
                        }
                    }
                }
                div.body {
                    pre.code.wrap tabindex="0" id="args-json" { (json(args, MOST)) }
                    @if is_hidden { p.sub { "They are not shown to you, or no worker has written down which of them may be." } }
                }
            }
        }
    }

    fn facts(&self) -> Markup {
        let (job, now) = (self.job, self.view.now);
        let time = |field: &str| job[field].as_u64();
        let tags: Vec<&str> =
            job["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        html! {
            section.panel {
                header { h2 { "Facts" } }
                div.body data-live="facts" {
                    dl.facts {
                        dt { "Type" }
                        dd { @if let Some(of) = text(job, "job") { a href=(self.view.type_link(of)) { (name(of)) } } @else { (NONE) } }
                        dt { "Queue" } dd { a href=(self.view.queue_link(self.queue)) { (name(self.queue)) } }
                        dt { "Attempt" } dd { (number(job["attempt"].as_u64().unwrap_or(1))) }
                        dt { "Priority" } dd { (self.text("priority")) }
                        @if let Some(version) = job["args_v"].as_u64().filter(|version| *version > 1) {
                            dt { "Version" } dd { (number(version)) " " span.faint { "of its arguments" } }
                        }
                        @if let Some(worker) = text(job, "worker") {
                            dt { "Worker" } dd { a href=(self.view.worker_link(worker)) title=(plain(worker)) { (cut(worker, 20)) } }
                        }
                        @if let Some(parent) = text(job, "parent") {
                            dt { "Parent" }
                            dd { a href={ (self.view.at("/find")) "?id=" (encode(parent)) } title=(plain(parent)) { (cut(parent, 36)) } }
                        }
                        @if let Some(group) = text(job, "group") {
                            dt { "Error group" }
                            dd { a href=(self.view.jobs_link(self.queue, "failed", &format!("group:{group}"))) { (foreign(group)) } }
                        }
                    }
                    dl.facts {
                        @if let Some(at) = time("enqueued_at") {
                            dt { "Enqueued" } dd { (moment(at)) " " span.faint { (instant(at, now)) } }
                        }
                        @if let Some(at) = time("started_at") { dt { "Started" } dd { (moment(at)) " " span.faint { (instant(at, now)) } } }
                        @if let Some(at) = time("at") {
                            dt { (self.time_label()) } dd { (moment(at)) " " span.faint { (instant(at, now)) } }
                        }
                        @if let Some(times) = time("snoozes").filter(|times| *times > 0) {
                            dt { "Put off" } dd { (count(times, "time", "times")) }
                        }
                    }
                    dl.facts {
                        dt { "Tags" }
                        dd.row {
                            @if tags.is_empty() { span.faint { "none" } }
                            @for tag in &tags { span.tag title=(plain(tag)) { (foreign(tag)) } }
                        }
                        @for (of, value) in job["meta"].as_object().into_iter().flatten().take(40) {
                            dt { (cut(of, 20)) } dd { (cut(&value.as_str().map_or_else(|| value.to_string(), str::to_owned), 300)) }
                        }
                    }
                }
            }
        }
    }

    fn time_label(&self) -> &'static str {
        match self.text("state") {
            "waiting" => "Waits since",
            "scheduled" => "Due",
            "parked" => "Parked",
            "running" => "Runs since",
            "broken" => "Last came",
            _ => "Ended",
        }
    }

    fn commands(&self) -> Markup {
        let (queue, id) = (quoted(self.queue), quoted(self.id));
        let verb = if mark(self.text("state")) == "failed" { "retry" } else { "show" };
        html! {
            section.panel {
                header {
                    h2 { "From a terminal" }
                    span.push.row { button.btn.bare.low type="button" data-copy="command" hidden data-script="" { (icon("copy")) "Copy" } }
                }
                div.body {
                    pre.code.wrap tabindex="0" id="command" { (lines(&format!("hworker jobs {verb} --queue {queue} {id}"), 1_000)) }
                }
            }
        }
    }
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A backtrace, in which the frames of the user's own code stand out.
fn backtrace(text: &str) -> Markup {
    let (text, _) = super::text::begin(text, MOST);
    let mut before = false;
    let told: Vec<_> = text
        .lines()
        .map(|line| {
            before = owns(line, before);
            (line, before)
        })
        .collect();
    html! {
        @for (line, is_own) in told {
            @if is_own { span.own { (lines(line, 500)) } } @else { span.k { (lines(line, 500)) "\n" } }
        }
    }
}

/// Whether a line of a backtrace is of the user's code: a place belongs to the name before it.
fn owns(line: &str, before: bool) -> bool {
    const OTHERS: [&str; 9] =
        ["std::", "core::", "alloc::", "tokio::", "hworker::", "futures", "rust_", "__rust", "<"];
    let Some((number, name)) = line.trim_start().split_once(": ") else { return before };
    if !number.chars().all(|c| c.is_ascii_digit()) {
        return before;
    }
    !name.starts_with('_')
        && name.contains("::")
        && !OTHERS.iter().any(|other| name.starts_with(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_frames_stand_out() {
        let text = "   0: std::panicking::begin_panic_handler
   1: app::pay::charge
             at src/pay.rs:61:19
   2: tokio::runtime::poll
             at x";
        let owned: Vec<bool> = text
            .lines()
            .scan(false, |is, line| {
                *is = owns(line, *is);
                Some(*is)
            })
            .collect();
        assert_eq!(owned, [false, true, true, false, false]);
    }

    #[test]
    fn an_id_is_one_word_of_a_shell() {
        assert_eq!(quoted("019a-4f"), "019a-4f");
        assert_eq!(quoted("-x"), "'-x'");
        assert_eq!(quoted("a'; rm -rf /"), r"'a'\''; rm -rf /'");
    }
}
