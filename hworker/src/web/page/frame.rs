//! What stands around every page: the bar at the top and the list of pages.

use maud::{DOCTYPE, Markup, html};

use super::figures::number;
use super::link::{overview, with};
use super::text::{foreign, plain};
use crate::web::asset;

/// What is known of a page before its content.
#[derive(Default)]
pub(super) struct Frame<'a> {
    /// The path of this server's pages.
    pub(super) base: &'a str,
    /// The path of all servers' pages.
    pub(super) mount: &'a str,
    /// Who looks, and as what.
    pub(super) who: Option<(&'a str, &'a str)>,
    pub(super) is_read_only: bool,
    /// The server's short name and those of all, where there are several.
    pub(super) name: &'a str,
    pub(super) servers: &'a [String],
    /// The path of the page in the list that this one belongs to.
    pub(super) active: &'a str,
    pub(super) title: &'a str,
    /// When it was made, as `14:02:11` and as a browser reads it.
    pub(super) made: Option<(String, String)>,
    pub(super) counts: Counted,
}

/// What stands beside the names of pages.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) queues: u64,
    pub(super) failed: u64,
    pub(super) broken: u64,
    pub(super) scheduled: u64,
    /// There are more queues than were counted.
    pub(super) is_cut: bool,
}

/// The pages in their groups.
const PAGES: &[(&str, &[(&str, &str)])] = &[
    (
        "Work",
        &[
            ("/queues", "Queues"),
            ("/jobs", "Jobs"),
            ("/failed", "Failed"),
            ("/broken", "Broken"),
            ("/scheduled", "Scheduled"),
            ("/cron", "Cron"),
        ],
    ),
    ("Together", &[("/limits", "Limits")]),
    (
        "Fleet",
        &[
            ("/workers", "Workers"),
            ("/crashes", "Crashes"),
            ("/charts", "Metrics"),
            ("/types", "Types"),
        ],
    ),
    ("Operate", &[("/audit", "Audit"), ("/server", "Server")]),
];

impl Counted {
    fn of(&self, page: &str) -> Option<(u64, &'static str)> {
        let (count, class) = match page {
            "/queues" => (self.queues, ""),
            "/failed" => (self.failed, "failed"),
            "/broken" => (self.broken, "failed"),
            "/scheduled" => (self.scheduled, ""),
            _ => return None,
        };
        Some((count, class)).filter(|(count, _)| *count > 0)
    }
}

/// A whole page.
pub(super) fn page(frame: &Frame<'_>, content: &Markup) -> Markup {
    let of = if frame.name.is_empty() { String::new() } else { format!("{} · ", frame.name) };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (plain(frame.title)) " · " (plain(&of)) "hworker" }
                link rel="icon" href=(asset::path(frame.mount, "icon.svg"));
                link rel="stylesheet" href=(asset::path(frame.mount, "app.css"));
                script type="module" src=(asset::path(frame.mount, "app.js")) {}
            }
            body data-base=(frame.base) {
                a.btn.skip href="#main" { "Skip to content" }
                (bar(frame))
                (pages(frame))
                main id="main" { (content) }
                (keys())
            }
        }
    }
}

fn bar(frame: &Frame<'_>) -> Markup {
    html! {
        header.top {
            button.btn.bare.icon.burger type="button" popovertarget="nav" aria-label="Pages" { (icon("list")) }
            a.brand href=(overview(frame.base)) aria-label="hworker, overview" {
                svg viewBox="0 0 20 20" aria-hidden="true" {
                    rect width="20" height="20" rx="5" fill="currentColor" {}
                    path d="M6.5 4.5v11M6.5 11.5a3.4 3.4 0 0 1 6.8 0v0M13.3 15.5v.01" fill="none" stroke-width="2.2" stroke-linecap="round" {

                    }
                }
                span.hide-s { "hworker" }
            }
            @if !frame.name.is_empty() {
                span.faint.hide-s aria-hidden="true" { "/" }
                (servers(frame))
            }
            span.push {}
            @if let Some((clock, iso)) = &frame.made {
                span.live.off id="live" data-live="clock" title="When these numbers were read" {
                    span { "As of" } time datetime=(iso) data-clock="" { (clock) }
                }
            }
            a.btn.bare.icon href=(with(&format!("{}/find", frame.base), &[])) data-ask="" aria-label="Find a job by its id" title="Find a job ( / )" {
                (icon("search"))
            }
            button.btn.bare.icon.hide-s type="button" popovertarget="keys" aria-label="Keys" title="Keys ( ? )" hidden data-script="" {
                kbd { "?" }
            }
            button.btn.bare.icon type="button" id="theme" aria-label="Dark or light" title="Dark or light" hidden data-script="" {
                (icon("theme"))
            }
            @if let Some((who, role)) = frame.who {
                @let may = if frame.is_read_only { "read only" } else { role };
                span.badge.hide-s title={ "Signed in as " (plain(who)) ", " (may) } { (icon("shield")) (foreign(who)) " · " (may) }
            }
        }
    }
}

fn servers(frame: &Frame<'_>) -> Markup {
    html! {
        details.menu name="menu" {
            summary.btn.bare.low { (foreign(frame.name)) (icon("caret")) }
            div.pop.left {
                @for server in frame.servers {
                    a href={ (frame.mount) "/i/" (server) } aria-current=[(server == frame.name).then_some("true")] { (foreign(server)) }
                }
            }
        }
    }
}

fn pages(frame: &Frame<'_>) -> Markup {
    let current = |page: &str| (frame.active == page).then_some("page");
    html! {
        nav.nav id="nav" popover aria-label="Pages" data-live="pages" {
            a href=(overview(frame.base)) aria-current=[current("/")] { "Overview" }
            @for (group, pages) in PAGES {
                h2 { (group) }
                @for (path, name) in *pages {
                    a href={ (frame.base) (path) } aria-current=[current(path)] {
                        (name)
                        @if let Some((count, class)) = frame.counts.of(path) {
                            span class=(class) { (number(count)) @if frame.counts.is_cut { "+" } }
                        }
                    }
                }
            }
        }
    }
}

fn keys() -> Markup {
    const KEYS: [(&str, &str); 6] = [
        ("/", "find a job by its id"),
        ("j", "next row"),
        ("k", "row before"),
        ("Enter", "open the row"),
        ("x", "select the row"),
        ("?", "this list"),
    ];
    html! {
        div.card id="keys" popover {
            h2 { "Keys" }
            dl.keys { @for (key, does) in KEYS { dt { kbd { (key) } } dd.dim { (does) } } }
        }
    }
}

/// An icon by its name, or that of a state.
pub(super) fn icon(name: &str) -> Markup {
    html! { i class={ "i " (name) } aria-hidden="true" {} }
}
