//! Server: what does the doctor say?

use axum::response::Html;
use maud::{Markup, html};

use super::figures::count;
use super::frame::icon;
use super::text::{foreign, lines};
use super::view::{View, head};
use crate::doctor::{Finding, Severity};
use crate::web::problem::Problem;

/// So many findings are on the page, the worst first.
const FINDINGS: usize = 500;

pub(super) async fn show(view: View) -> Result<Html<String>, Problem> {
    let mut findings = view.site.client.doctor().await?;
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let of =
        |severity| findings.iter().filter(|finding| finding.severity == severity).count() as u64;
    let (fails, warns) = (of(Severity::Fail), of(Severity::Warn));
    let verdict = html! {
        @if fails + warns == 0 { "Nothing is wrong with the server and its queues." }
        @else { (count(fails, "thing fails", "things fail")) ", " (count(warns, "may become trouble.", "may become trouble.")) }
    };
    let content = html! {
        (head(&html! { "Server" }, &verdict, &html! {}))
        div.two {
            section.panel {
                header { h2 { "The doctor" } p { "looks, and changes nothing" } }
                ul.list role="list" data-live="findings" { @for finding in findings.iter().take(FINDINGS) { (line(finding)) } }
            }
            section.panel {
                header { h2 { "Facts" } }
                div.body {
                    dl.facts { dt { "Server" } dd { (foreign(&view.site.client.place())) } dt { "Queues" } dd { (view.known) } }
                    p.sub { "From a terminal, " code { "hworker doctor --repair" } " mends what it can, each shown first." }
                }
            }
        }
    };
    Ok(view.page("/server", "Server", &content))
}

fn line(finding: &Finding) -> Markup {
    let (mark, word) = match finding.severity {
        Severity::Ok => ("done", "ok"),
        Severity::Skip => ("cancelled", "not looked at"),
        Severity::Warn => ("broken paused", "warning"),
        Severity::Fail => ("failed", "fails"),
    };
    html! {
        li {
            (icon(mark))
            div { p { b { (foreign(&finding.about)) } " " span.sub { (word) } } p.dim { (lines(&finding.text, 2_000)) } }
            span {}
        }
    }
}
