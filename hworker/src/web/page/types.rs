//! Types: what can I enqueue?

use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;

use super::ask::input;
use super::columns::columns;
use super::fields::Fields;
use super::figures::{bytes, count, from_now, number, share, span, span_of};
use super::frame::icon;
use super::history::{History, Past};
use super::link::with;
use super::schema::{Argument, arguments, example, inputs};
use super::text::{cut, foreign, lines, name, plain};
use super::view::{View, empty, head};
use crate::charts::Tally;
use crate::manifest::JobType;
use crate::priority::Priority;
use crate::web::api::extract::{Path, Query};
use crate::web::problem::Problem;

/// So many types are in a list.
const TYPES: usize = 300;

/// So much of a schema is on the page.
const SCHEMA: usize = 16 * 1024;

pub(super) async fn list(view: View) -> Result<Html<String>, Problem> {
    let types = view.site.types().await?;
    let verdict = html! {
        @if types.is_empty() { "No worker has announced a job type." }
        @else { "Workers have announced " (count(types.len() as u64, "job type", "job types")) "." }
    };
    let content = html! {
        (head(&html! { "Types" }, &verdict, &html! {}))
        section.panel {
            @if types.is_empty() { (empty("waiting", "No types yet", &html! { "A worker writes down what it knows when it starts." })) }
            @else { (table(&view, &types)) }
            @if types.len() > TYPES { p.pages { "The first " (TYPES) " are shown." } }
        }
    };
    Ok(view.page("/types", "Types", &content))
}

fn table(view: &View, types: &[JobType]) -> Markup {
    html! {
        table {
            (columns(&[
                ("flex-s", "Type"), ("w4", "Queue"), ("n w2 ge-m", "Version"), ("n w2 ge-s", "Timeout"), ("n w2 ge-s", "Attempts"),
                ("w5 ge-m", "Source"), ("n w3 ge-s", "Announced"),
            ]))
            tbody data-live="types" {
                @for known in types.iter().take(TYPES) {
                    tr data-href=(view.type_link(&known.name)) {
                        th scope="row" {
                            span.cut { a.name href=(view.type_link(&known.name)) title=(plain(&known.name)) { (name(&known.name)) } }
                        }
                        td { a href=(view.queue_link(&known.queue)) { (name(&known.queue)) } }
                        td.n.ge-m { (number(known.version.into())) }
                        td.n.ge-s { (span(known.timeout_ms)) }
                        td.n.ge-s { (number(known.max_attempts.into())) }
                        td.ge-m { code title=(plain(&known.place)) { (cut(&known.place, 60)) } }
                        td.n.ge-s { (from_now(known.seen.min(view.now), view.now)) }
                    }
                }
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Asks {
    /// `json`: all arguments in one field.
    #[serde(default)]
    form: String,
}

pub(super) async fn show(
    view: View,
    Path(job): Path<String>,
    Query(asks): Query<Asks>,
) -> Result<Html<String>, Problem> {
    let types = view.site.types().await?;
    let is_json = asks.form == "json";
    page(&view, &types, &job, &Fields::default(), is_json, None).await
}

/// The page of a type; with what was given in its form and is wrong.
pub(super) async fn page(
    view: &View,
    types: &[JobType],
    job: &str,
    given: &Fields,
    is_json: bool,
    wrong: Option<&Problem>,
) -> Result<Html<String>, Problem> {
    let missing = || Problem::not_found(format!("no worker knows a job `{job}`"));
    let known = types.iter().find(|known| known.is_called(job)).ok_or_else(missing)?;
    let history = History::of(view, &Past::named("1h")?, &known.queue).await?;
    let mut lately = Tally::default();
    for tally in history
        .1
        .iter()
        .flat_map(|chart| &chart.points)
        .filter_map(|point| point.jobs.get(&known.name))
    {
        lately.add(tally);
    }
    let verdict = html! {
        "Its jobs go to " a href=(view.queue_link(&known.queue)) { (name(&known.queue)) } "."
        @if lately.ended() == 0 {
            " None ended in the last hour."
        } @else {
            " " (number(lately.ended())) " ended in the last hour, " (share(lately.failed, lately.ended())) " of them failed."
        }
    };
    let content = html! {
        p.crumb { a href=(view.at("/types")) { "Types" } }
        (head(&html! { (name(&known.name)) }, &verdict, &html! {}))
        div.triple {
            (picks(view, types, &known.name))
            (form(view, known, given, is_json, wrong))
            div.stack { (facts(view, known)) (last_hour(&lately)) (schema(known)) }
        }
    };
    Ok(view.page("/types", &known.name, &content))
}

fn picks(view: &View, types: &[JobType], current: &str) -> Markup {
    html! {
        nav.panel.picks aria-label="Job types" {
            @for known in types.iter().take(TYPES) {
                a href=(view.type_link(&known.name)) title=(plain(&known.name)) aria-current=[(known.name == current).then_some("page")] {
                    b.cut { (name(&known.name)) } span.cut.sub { (name(&known.queue)) }
                }
            }
        }
    }
}

fn form(
    view: &View,
    known: &JobType,
    given: &Fields,
    is_json: bool,
    wrong: Option<&Problem>,
) -> Markup {
    if !view.may("enqueue", &known.queue) {
        return html! { section.panel { (empty("shield", "No form", &html! { "You may not enqueue jobs here." })) } };
    }
    if known.encrypted {
        let why = "Its arguments are encrypted: only a program with the key can enqueue it.";
        return html! { section.panel { (empty("shield", "No form", &html! { (why) })) } };
    }
    let arguments = arguments(&known.schema);
    let fields = arguments.as_deref().filter(|_| !is_json);
    let link = view.type_link(&known.name);
    html! {
        form.panel method="post" action=(view.at("/act")) {
            (view.hidden("enqueue", "", &[("job", &known.name), ("form", if fields.is_some() { "" } else { "json" })], None))
            header {
                h2 { "Enqueue" } p { "checked against its schema" }
                @if arguments.is_some() {
                    span.push.group role="group" aria-label="Form of the arguments" {
                        a.btn.low href=(link) aria-current=[fields.is_some().then_some("true")] { "Fields" }
                        a.btn.low href=(with(&link, &[("form", "json")])) aria-current=[fields.is_none().then_some("true")] { "JSON" }
                    }
                }
            }
            div.body.stack {
                @if let Some(wrong) = wrong { (problem(wrong)) }
                @match fields {
                    Some([]) => p.sub { "It takes no arguments." },
                    Some(fields) => (inputs(fields, given, wrong.map_or(&[], |wrong| &wrong.errors))),
                    None => (json(arguments.as_deref(), given)),
                }
                (when_and_where(known, given))
                div.row { button.btn.main type="submit" { "Enqueue on " (plain(view.server())) } }
            }
        }
    }
}

fn problem(wrong: &Problem) -> Markup {
    html! {
        div.banner.failed role="alert" {
            (icon("broken"))
            div {
                p { b { "Nothing was enqueued." } " " (lines(&wrong.detail, 1_000)) }
                @for one in wrong.errors.iter().take(20) { p { code { (foreign(&one.pointer)) } " " (foreign(&one.detail)) } }
            }
        }
    }
}

fn json(arguments: Option<&[Argument]>, given: &Fields) -> Markup {
    let text = match given.one("args") {
        "" => arguments.map_or_else(|| "{}".to_owned(), example),
        text => text.to_owned(),
    };
    html! {
        div.field {
            label for="args" { "Arguments " span { "JSON, an object" } }
            textarea id="args" name="args" rows="8" spellcheck="false" { "\n" (text) }
        }
    }
}

fn when_and_where(known: &JobType, given: &Fields) -> Markup {
    let queue = given.given("queue").unwrap_or(&known.queue);
    let priority = given.one("priority");
    html! {
        details.fold open[!given.0.is_empty()] {
            summary { "When, where, how often" }
            div.fields {
                (input("queue", "Queue", "", &known.queue, queue))
                (input("at", "Run", "in a time, or at a time in UTC", "at once, 10m, 2026-12-24T18:00", given.one("at")))
                (input("max_attempts", "Attempts at most", "", &known.max_attempts.to_string(), given.one("max_attempts")))
                (input("tags", "Tags", "with commas between", "eu, tenant:acme", given.one("tags")))
                (input("id", "Id", "one with it is not enqueued twice", "a fresh one", given.one("id")))
                div.field {
                    label for="priority" { "Priority" }
                    select id="priority" name="priority" {
                        option value="" { "as the type says" }
                        @for one in Priority::ALL { option value=(one.name()) selected[one.name() == priority] { (one.name()) } }
                    }
                }
            }
        }
    }
}

/// Where its bodies run.
fn place(known: &JobType) -> &'static str {
    match known {
        known if known.isolated => "a process of its own",
        known if known.blocking => "a thread for blocking work",
        _ => "the async runtime",
    }
}

fn facts(view: &View, known: &JobType) -> Markup {
    html! {
        section.panel {
            header { h2 { "Facts" } }
            div.body {
                dl.facts {
                    dt { "Queue" } dd { a href=(view.queue_link(&known.queue)) { (name(&known.queue)) } }
                    dt { "Timeout" } dd { (span(known.timeout_ms)) }
                    dt { "Attempts" } dd { (number(known.max_attempts.into())) }
                    dt { "Runs on" } dd { (place(known)) }
                    dt { "Arguments" } dd { @if known.encrypted { "encrypted" } @else { "in the clear" } }
                    dt { "Version" }
                    dd {
                        (number(known.version.into()))
                        @if known.upgrades { span.faint { " older arguments are upgraded" } }
                    }
                    @if !known.aliases.is_empty() {
                        dt { "Aliases" } dd { @for alias in known.aliases.iter().take(20) { code { (cut(alias, 60)) } " " } }
                    }
                    dt { "Secret" }
                    dd {
                        @if known.redact.is_empty() { span.faint { "none" } }
                        @for one in known.redact.iter().take(40) { code { (cut(one, 60)) } " " }
                    }
                    dt { "Source" } dd { code { (cut(&known.place, 200)) } }
                    dt { "Announced" } dd { (from_now(known.seen.min(view.now), view.now)) }
                }
            }
        }
    }
}

fn last_hour(lately: &Tally) -> Markup {
    html! {
        section.panel {
            header { h2 { "Last hour" } }
            div.body {
                dl.facts data-live="lately" {
                    dt { "Done" } dd { (number(lately.ok)) }
                    dt { "Retried" } dd { (number(lately.retried)) }
                    dt { "Failed" } dd class=[(lately.failed > 0).then_some("bad")] { (number(lately.failed)) }
                    @for (label, part) in [("Run p50", 0.5), ("Run p95", 0.95), ("Run p99", 0.99)] {
                        dt { (label) } dd { (span_of(lately.run.quantile(part))) }
                    }
                }
            }
        }
    }
}

fn schema(known: &JobType) -> Markup {
    let pretty: serde_json::Value = serde_json::from_str(&known.schema).unwrap_or_default();
    html! {
        section.panel {
            header { h2 { "Schema" } p { (bytes(known.schema.len() as u64)) } }
            div.body {
                details.fold { summary { "JSON Schema of the arguments" } pre.code tabindex="0" { (super::row::json(&pretty, SCHEMA)) } }
            }
        }
    }
}
