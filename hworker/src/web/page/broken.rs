//! Broken: payloads that could not be decoded, or that no worker could run.

use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::columns::columns;
use super::figures::{NONE, bytes, count, instant, moment, number};
use super::frame::icon;
use super::link::with;
use super::row::text;
use super::text::{cut, foreign, lines, name};
use super::view::{Button, View, empty, head};
use crate::job_state::JobState;
use crate::web::access::Role;
use crate::web::act::find_broken;
use crate::web::api::extract::{Path, Query};
use crate::web::problem::Problem;
use crate::web::shown;

#[derive(Deserialize)]
pub(super) struct Asks {
    #[serde(default)]
    queue: String,
    #[serde(default)]
    cursor: String,
}

/// So much of a payload is shown as text, and so many bytes of it as hex.
const TEXT: usize = 4096;
const HEX: usize = 512;

pub(super) async fn list(view: View, Query(asks): Query<Asks>) -> Result<Html<String>, Problem> {
    let queue = view.chosen(&asks.queue, |counts| counts.broken);
    let inspect = view.site.client.inspect(queue);
    let mut jobs = inspect.jobs(JobState::Broken);
    if !asks.cursor.is_empty() {
        jobs = jobs.after(&*asks.cursor);
    }
    let page = jobs.page().await?;
    let types = if page.items.is_empty() { Vec::new() } else { view.site.types().await? };
    let rows: Vec<Value> =
        page.items.iter().map(|job| shown::job(job, &types, &view.asked)).collect();
    let verdict = html! {
        @if page.total == 0 { "Every payload on " (name(queue)) " could be decoded and run." }
        @else {
            (count(page.total, "payload", "payloads")) " on " (name(queue))
            " could not be decoded, or no worker could run them. Their bytes are kept."
        }
    };
    let link = |cursor: &str| with(&view.at("/broken"), &[("queue", queue), ("cursor", cursor)]);
    let content = html! {
        (head(&html! { "Broken" }, &verdict, &view.picker("/broken", queue, &[], false)))
        section.panel {
            @if rows.is_empty() {
                @let text = "What cannot be decoded, or is of a type that no worker knows for long, is set aside here.";
                (empty("done", "Nothing is broken", &html! { (text) }))
            } @else {
                (table(&view, queue, &rows))
                div.pages {
                    span { (count(rows.len() as u64, "payload", "payloads")) span.faint { " of " (number(page.total)) } }
                    span.push.group {
                        @if !asks.cursor.is_empty() { a.btn.low href=(link("")) { "First page" } }
                        @if let Some(next) = &page.next { a.btn.low href=(link(next)) { "Next page" } }
                    }
                }
            }
        }
    };
    Ok(view.page("/broken", "Broken", &content))
}

fn table(view: &View, queue: &str, rows: &[Value]) -> Markup {
    html! {
        table {
            (columns(&[
                ("w4", "Payload"), ("", "Reason"), ("n w1 ge-s", "Times"), ("n w2 ge-s", "Size"),
                ("n w3 ge-s", "Last"), ("act", ""),
            ]))
            tbody data-live="broken" {
                @for row in rows {
                    @let digest = text(row, "digest").unwrap_or_default();
                    @let link = format!("{}/broken/{digest}", view.queue_link(queue));
                    tr data-href=(link) {
                        th scope="row" { a.name href=(link) { code { (digest) } } }
                        td { (cut(text(row, "message").unwrap_or(NONE), 200)) }
                        td.n.ge-s { (number(row["times"].as_u64().unwrap_or(1))) }
                        td.n.ge-s { (bytes(row["bytes"].as_u64().unwrap_or(0))) }
                        td.n.ge-s { @if let Some(at) = row["at"].as_u64() { (instant(at, view.now)) } @else { (NONE) } }
                        td.act { (menu(view, queue, digest)) }
                    }
                }
            }
        }
    }
}

fn menu(view: &View, queue: &str, digest: &str) -> Markup {
    let fields = [("digest", digest)];
    let buttons = ["broken-requeue", "broken-delete"].map(|deed| Button {
        deed,
        queue,
        fields: &fields,
        ..Button::default()
    });
    view.menu("bare low", &buttons)
}

pub(super) async fn show(
    view: View,
    Path((queue, digest)): Path<(String, String)>,
) -> Result<Html<String>, Problem> {
    let found = find_broken(&view.site, &queue, &digest).await?;
    let types = view.site.types().await?;
    let row = shown::job(&found, &types, &view.asked);
    // What cannot be decoded cannot be cleaned either.
    let redacts = types.iter().any(|known| !known.redact.is_empty());
    let sees = view.asked.operator.sees_args;
    let raw = format!("{}/broken/{digest}/raw", view.queue_link(&queue));
    let fields = [("digest", &*digest)];
    let back = with(&view.at("/broken"), &[("queue", &queue)]);
    let button = |deed, class| Button {
        deed,
        queue: &queue,
        fields: &fields,
        class,
        back: Some(&back),
        ..Button::default()
    };
    let actions = html! {
        (view.button(&button("broken-requeue", "btn main")))
        @if sees { a.btn href=(raw) download="" { (icon("down")) "Download" } }
        (view.button(&button("broken-delete", "btn")))
    };
    let verdict = html! { (lines(text(&row, "message").unwrap_or("It could not be run."), 2_000)) };
    let content = html! {
        p.crumb { a href=(view.at("/broken")) { "Broken" } span { "/" } a href=(back) { (name(&queue)) } }
        (head(&html! { code { (foreign(&digest)) } }, &verdict, &actions))
        div.two {
            div.stack { (contents(found.payload(), sees, redacts)) }
            section.panel {
                header { h2 { "Facts" } }
                div.body {
                    dl.facts {
                        dt { "Queue" } dd { a href=(view.queue_link(&queue)) { (name(&queue)) } }
                        dt { "Type" } dd { @if let Some(job) = text(&row, "job") { (name(job)) } @else { span.faint { "not readable" } } }
                        dt { "Id" }
                        dd { @if let Some(id) = text(&row, "id") { code { (cut(id, 100)) } } @else { span.faint { "not readable" } } }
                        dt { "Came" } dd { (count(found.times.unwrap_or(1), "time", "times")) }
                        @if let Some(at) = found.at { dt { "Last" } dd { (moment(at)) " " span.faint { (instant(at, view.now)) } } }
                        dt { "Size" } dd { (bytes(found.bytes)) }
                    }
                }
            }
        }
    };
    Ok(view.page("/broken", "Broken payload", &content))
}

fn contents(payload: &[u8], sees: bool, redacts: bool) -> Markup {
    let start = &payload[..payload.len().min(HEX)];
    html! {
        @if !sees || redacts {
            section.panel {
                header { h2 { "Bytes" } }
                p.body.dim {
                    @if sees {
                        "Some job types hide arguments, and these bytes cannot be taken apart: they are shown in no page. Download them."
                    }
                    @else { "They may hold arguments, which are not shown to you." }
                }
            }
        } @else {
            section.panel {
                header { h2 { "As text" } } div.body { pre.code.wrap tabindex="0" { (lines(&String::from_utf8_lossy(payload), TEXT)) } }
            }
            section.panel {
                header { h2 { "As bytes" } p { "the first " (start.len()) " of " (number(payload.len() as u64)) } }
                div.body { pre.code tabindex="0" { (hex(start)) } }
            }
        }
    }
}

/// Sixteen bytes a line: where they stand, in hex, and as letters where they are some.
fn hex(bytes: &[u8]) -> String {
    let line = |(at, bytes): (usize, &[u8])| {
        let codes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let letters: String =
            bytes
                .iter()
                .map(|byte| {
                    if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '·' }
                })
                .collect();
        format!("{:04x}  {:<47}  {letters}", at * 16, codes.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// The bytes as they are, as a file.
pub(super) async fn raw(
    view: View,
    Path((queue, digest)): Path<(String, String)>,
) -> Result<Response, Problem> {
    if !view.asked.operator.sees_args {
        return Err(Problem::forbidden(
            "these bytes may hold arguments, which are not shown to you",
        ));
    }
    let types = view.site.types().await?;
    if types.iter().any(|known| !known.redact.is_empty()) && view.asked.operator.role < Role::Admin
    {
        return Err(Problem::forbidden(
            "some job types have arguments that no tool shows, and these bytes may hold them: an admin may load them",
        ));
    }
    let found = find_broken(&view.site, &queue, &digest).await?;
    let file = format!("attachment; filename=\"{}.bin\"", found.digest());
    let headers =
        [(CONTENT_TYPE, "application/octet-stream".to_owned()), (CONTENT_DISPOSITION, file)];
    Ok((headers, found.payload().to_vec()).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_lines() {
        assert_eq!(hex(b"<a>\x1b"), format!("0000  {:<47}  <a>·", "3c 61 3e 1b"));
        assert_eq!(hex(&[0; 17]).lines().count(), 2);
        let hidden = contents(b"secret", true, true).into_string()
            + &contents(b"secret", false, false).into_string();
        assert!(!hidden.contains("secret") && !hidden.contains("73 65"), "{hidden}");
    }
}
