//! What is wrong, as a page.

use axum::http::header::RETRY_AFTER;
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};

use super::frame::{Frame, icon, page};
use super::link::overview;
use super::text::{foreign, lines};
use crate::web::access::Operator;
use crate::web::problem::Problem;

/// What is wrong, as a page.
pub(in crate::web) fn problem(mount: &str, who: Option<&Operator>, problem: &Problem) -> Response {
    let frame = Frame {
        base: mount,
        mount,
        who: who.map(|who| (&*who.name, who.role.name())),
        title: problem.title,
        ..Frame::default()
    };
    let shown = page(&frame, &content(mount, problem)).into_string();
    let mut response = (problem.status(), Html(shown)).into_response();
    if problem.status == 429 {
        response.headers_mut().insert(RETRY_AFTER, 60.into());
    }
    response
}

fn content(mount: &str, problem: &Problem) -> Markup {
    html! {
        section.panel.none role="alert" {
            (icon(if problem.status < 500 { "search" } else { "broken failed" }))
            h1 { (problem.title) }
            p { (lines(&problem.detail, 2_000)) }
            (wrong(problem))
            div.row { a.btn.main href=(overview(mount)) { "Overview" } }
        }
    }
}

/// What is wrong at which place.
fn wrong(problem: &Problem) -> Markup {
    html! {
        @for wrong in problem.errors.iter().take(20) {
            p { code { (foreign(&wrong.pointer)) } " " (lines(&wrong.detail, 500)) }
        }
    }
}
