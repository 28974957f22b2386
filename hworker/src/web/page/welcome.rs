//! First run: why is it empty? Three steps that tick themselves.

use axum::response::Html;
use maud::{Markup, html};

use super::text::{foreign, name};
use super::view::{View, head};
use crate::manifest::JobType;
use crate::web::problem::Problem;

const JOB: &str = "#[hworker::job]
pub async fn send_welcome(to: String, user_id: u64) -> Result<(), std::io::Error> {
    println!(\"welcome, {to} ({user_id})\");
    Ok(())
}";

pub(super) async fn show(view: &View) -> Result<Html<String>, Problem> {
    let types = view.site.types().await?;
    let verdict = html! { "The server is reached and holds no job yet. Three steps, then this page fills by itself." };
    let content = html! {
        (head(&html! { "Welcome" }, &verdict, &html! {}))
        div.two data-live="steps" { (steps(view, &types)) (hints(view)) }
    };
    Ok(view.page("/", "Welcome", &content))
}

fn steps(view: &View, types: &[JobType]) -> Markup {
    let has_types = !types.is_empty();
    html! {
        section.panel {
            header { h2 { "First steps" } p.push { (1 + usize::from(has_types)) " of 3 done" } }
            ol.steps {
                li.ok { h2 { "Server reached" } p.dim { (foreign(&view.site.client.place())) } }
                li class=(if has_types { "ok" } else { "now" }) {
                    h2 { "Write a job and start a worker" }
                    p.dim { "Any async function will do. Put the attribute on it and start the binary that links it." }
                    pre.code tabindex="0" { (JOB) }
                    pre.code tabindex="0" { "$ cargo run --bin worker" }
                }
                li class=[has_types.then_some("now")] {
                    h2 { "Enqueue the first job" }
                    p.dim { "From your program, from a terminal, or by the form of a type that a worker has announced." }
                    @if let Some(known) = types.first() {
                        p { a.btn.main href=(view.type_link(&known.name)) { "Enqueue " (name(&known.name)) } }
                    } @else {
                        pre.code.wrap tabindex="0" { "$ hworker enqueue send_welcome --args '{\"to\":\"ada@example.org\",\"user_id\":42}'" }
                    }
                }
            }
        }
    }
}

fn hints(view: &View) -> Markup {
    html! {
        section.panel {
            header { h2 { "Not what you expected?" } }
            div.body.stack {
                p.dim { "Jobs live under a prefix and a database. If your worker runs but nothing shows here, compare these with its settings." }
                dl.facts { dt { "Server" } dd { (foreign(&view.site.client.place())) } }
                p { a href=(view.at("/server")) { "What the doctor says" } }
            }
        }
    }
}
