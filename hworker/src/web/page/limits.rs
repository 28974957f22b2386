//! Limits: what holds jobs back, and which keys unique jobs hold.

use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;

use super::chart::meter;
use super::columns::columns;
use super::figures::{NONE, count, from_now, instant, number};
use super::frame::icon;
use super::text::{cut, foreign, name, plain};
use super::view::{Button, View, empty, head};
use crate::control::{LimitInfo, LockInfo};
use crate::web::api::extract::Query;
use crate::web::api::limits::LOCKS;
use crate::web::each::{each, readable};
use crate::web::problem::Problem;
use crate::web::shown;

#[derive(Deserialize)]
pub(super) struct Asks {
    #[serde(default)]
    queue: String,
}

/// So many limits are on the page.
const LIMITS: usize = 200;

pub(super) async fn show(view: View, Query(asks): Query<Asks>) -> Result<Html<String>, Problem> {
    let queue = &*asks.queue;
    let names = if queue.is_empty() { view.names() } else { vec![queue.to_owned()] };
    // Keys are listed of one queue alone: there may be many.
    let of = names.first().filter(|_| names.len() == 1).cloned();
    let read = |client: crate::Client, name: String| async move {
        readable(client.control(&name).limits().await)
    };
    let answers = each(&view.site.client, names, read).await?;
    let limits: Vec<_> = answers
        .into_iter()
        .flat_map(|(queue, limits)| limits.into_iter().map(move |limit| (queue.clone(), limit)))
        .collect();
    let locks: Option<Vec<LockInfo>> = match &of {
        Some(queue) => Some(readable(view.site.client.control(queue).locks(LOCKS).await)?),
        None => None,
    };
    let paused = limits.iter().filter(|(_, limit)| limit.paused.is_some()).count() as u64;
    let full = limits.iter().filter(|(_, limit)| is_full(limit)).count() as u64;
    let verdict = html! {
        (count(limits.len() as u64, "limit", "limits")) "."
        @if full > 0 { " " (count(full, "is used up.", "are used up.")) }
        @if paused > 0 { " " (count(paused, "is paused.", "are paused.")) }
    };
    let content = html! {
        (head(&html! { "Limits" }, &verdict, &view.picker("/limits", queue, &[], true)))
        section.panel {
            header { h2 { "Limits" } p { "over all workers" } }
            @if limits.is_empty() {
                (empty("done", "No limits", &html! { "Jobs run as slots are free. An attribute sets one: " code { "concurrency(limit = 20)" } }))
            }
            @else { (table(&view, &limits[..limits.len().min(LIMITS)])) }
            @if limits.len() > LIMITS { p.pages { (LIMITS) " of " (limits.len()) " are shown: choose a queue." } }
        }
        (set(&view, of.as_deref()))
        (keys(&view, of.as_deref(), locks.as_deref()))
    };
    Ok(view.page("/limits", "Limits", &content))
}

fn is_full(limit: &LimitInfo) -> bool {
    let is_one = !limit.name.ends_with(['=', '@']);
    is_one && limit.at_once.is_some_and(|most| limit.running >= most)
}

/// What a limit says, in a cell.
pub(super) fn says(limit: &LimitInfo) -> Markup {
    html! {
        @if let Some(most) = limit.at_once {
            span.row.load {
                (meter(limit.running, most, if is_full(limit) { "paused" } else { "" }, &format!("{} of {most} used", limit.running)))
                span { (number(limit.running)) small { " / " (number(most)) } }
            }
        }
        @if let Some(rate) = limit.rate { span { (rate) } }
        @if limit.at_once.is_none() && limit.rate.is_none() { span.faint { (NONE) } }
    }
}

fn table(view: &View, limits: &[(String, LimitInfo)]) -> Markup {
    html! {
        table {
            (columns(&[
                ("flex-s", "Limit"), ("w4 ge-s", "Queue"), ("w4", "At once"), ("n w3 ge-s", "Rate"),
                ("n w3 ge-m", "Waiting at most"), ("w4 ge-m", "State"), ("act", ""),
            ]))
            tbody data-live="limits" { @for (queue, limit) in limits { (line(view, queue, limit)) } }
        }
    }
}

/// The name of a limit, and of what it is one.
pub(super) fn label(of: &str) -> Markup {
    match (of, of.strip_suffix('='), of.strip_suffix('@')) {
        ("*", ..) => html! { "the queue itself" },
        (_, Some(before), _) => html! { (name(before)) span.faint { " per key" } },
        (.., Some(before)) => html! { (name(before)) span.faint { " per worker" } },
        _ => name(of),
    }
}

fn line(view: &View, queue: &str, limit: &LimitInfo) -> Markup {
    let told = shown::limit(limit.clone(), &view.asked);
    let at_once = LimitInfo { rate: None, ..limit.clone() };
    html! {
        tr {
            th scope="row" { span.cut title=(plain(&told.name)) { (label(&told.name)) } }
            td.ge-s { a href=(view.queue_link(queue)) { (name(queue)) } }
            td { (says(&at_once)) }
            td.n.ge-s { @if let Some(rate) = limit.rate { (rate) } @else { span.faint { (NONE) } } }
            td.n.ge-m { @if let Some(most) = limit.max_waiting { (number(most)) } @else { span.faint { (NONE) } } }
            td.ge-m {
                @if let Some(pause) = limit.paused {
                    span.badge.paused { (icon("")) "paused" @if let Some(until) = pause.until { ", ends " (from_now(until, view.now)) } }
                }
                @else if limit.is_set { span.dim { "set by hand" } } @else { span.faint { "as code says" } }
            }
            // What is hidden cannot be named in a form either.
            td.act { @if told.name == limit.name { (menu(view, queue, limit)) } }
        }
    }
}

fn menu(view: &View, queue: &str, limit: &LimitInfo) -> Markup {
    let fields = [("name", &*limit.name)];
    let pause = if limit.paused.is_some() { "limit-resume" } else { "limit-pause" };
    let mut deeds = vec!["limit-set", pause];
    if limit.is_set {
        deeds.push("limit-unset");
    }
    let buttons: Vec<_> = deeds
        .into_iter()
        .map(|deed| Button { deed, queue, fields: &fields, ..Button::default() })
        .collect();
    view.menu("bare low", &buttons)
}

/// A limit of the queue itself, or of one value of a key.
fn set(view: &View, queue: Option<&str>) -> Markup {
    html! {
        @if let Some(queue) = queue.filter(|queue| view.may("limit-set", queue)) {
            form.panel method="post" action=(view.at("/act")) data-ask="" {
                header { h2 { "Set another" } p { "of the queue " (name(queue)) } }
                div.body.stack {
                    (view.hidden("limit-set", queue, &[], None))
                    div.fields {
                        (super::ask::input("name", "Name", "* is the queue, name=key one value of a key", "tenant=acme", ""))
                    }
                    div.row { button.btn type="submit" { (icon("edit")) "Set" } }
                }
            }
        }
    }
}

fn keys(view: &View, queue: Option<&str>, locks: Option<&[LockInfo]>) -> Markup {
    let (Some(queue), Some(locks)) = (queue, locks) else {
        return html! { p.sub { "Choose a queue to see the keys that its unique jobs hold." } };
    };
    html! {
        section.panel {
            header { h2 { "Keys" } p { "that unique jobs hold" @if locks.len() >= LOCKS { ", the first " (LOCKS) } } }
            @if locks.is_empty() { p.body.faint { "No unique job holds a key." } }
            @else {
                table {
                    (columns(&[("", "Key"), ("w4 ge-s", "Held by"), ("w3 ge-s", "State"), ("n w3", "Until"), ("act", "")]))
                    tbody data-live="keys" { @for lock in locks { (key(view, queue, lock)) } }
                }
            }
        }
    }
}

fn key(view: &View, queue: &str, lock: &LockInfo) -> Markup {
    let told = shown::lock(lock.clone(), &view.asked);
    let fields = [("key", &*lock.key)];
    let buttons = [Button { deed: "unlock", queue, fields: &fields, ..Button::default() }];
    html! {
        tr {
            th scope="row" { span.cut title=(plain(&told.key)) { (foreign(&told.key)) } }
            td.ge-s { a href=(view.job_link(queue, lock.id.as_str())) { code { (cut(lock.id.as_str(), 20)) } } }
            td.ge-s { @if let Some(state) = lock.state { (state.name()) } @else { "ended" } }
            td.n { @if let Some(until) = lock.until { (instant(until, view.now)) } @else { span.faint { "it ends" } } }
            td.act { @if told.key == lock.key { (view.menu("bare low", &buttons)) } }
        }
    }
}
