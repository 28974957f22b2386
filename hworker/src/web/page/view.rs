//! What a page is made with: who looks, at which server, and what its queues have.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Html;
use maud::{Markup, html};

use super::deeds::Deed;
use super::figures::{clock, iso, number};
use super::frame::{self, Counted, Frame, icon};
use super::link::{encode, with, without};
use super::note::Note;
use crate::inspect::{Counts, QueueInfo};
use crate::web::each::{QUEUES, each, readable};
use crate::web::guard::Asked;
use crate::web::problem::Problem;
use crate::web::site::Site;

/// What a page is made with.
pub(super) struct View {
    pub(super) site: Arc<Site>,
    pub(super) asked: Asked,
    pub(super) base: String,
    /// The address of this page without what is told once.
    pub(super) here: String,
    /// The queues that have jobs, workers or a pause, of the first hundred.
    pub(super) queues: Vec<QueueInfo>,
    /// How many queues are known.
    pub(super) known: usize,
    /// In ms since 1970.
    pub(super) now: u64,
    note: Option<Note>,
}

impl FromRequestParts<Arc<Site>> for View {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Problem> {
        let asked = Asked::from_request_parts(parts, site).await?;
        let base = site.base(&asked);
        let inner = parts.uri.path_and_query().map_or("/", |inner| inner.as_str());
        let done = parts.uri.query().unwrap_or_default().split('&');
        let note = done.filter_map(|one| one.strip_prefix("done=")).find_map(Note::parse);
        // The first page has no slash behind it where it is nested.
        let inner = inner.strip_prefix('/').filter(|rest| rest.is_empty() || rest.starts_with('?'));
        let inner = match (inner, parts.uri.path_and_query()) {
            (Some(rest), _) if !base.is_empty() => rest,
            (_, Some(inner)) => inner.as_str(),
            (_, None) => "/",
        };
        let here = without(&format!("{base}{inner}"), "done");
        let names = site.queue_names().await?;
        let known = names.len();
        let queues = summaries(site, names.into_iter().take(QUEUES)).await?;
        let now = crate::time::local_unix_ms(std::time::SystemTime::now());
        Ok(Self { site: Arc::clone(site), asked, base, here, queues, known, now, note })
    }
}

/// Those of these queues that have something.
pub(super) async fn summaries(
    site: &Site,
    names: impl IntoIterator<Item = String>,
) -> Result<Vec<QueueInfo>, Problem> {
    let summary = |client: crate::Client, name: String| async move {
        readable(client.inspect(&name).summary().await.map(Some))
    };
    let answers = each(&site.client, names, summary).await?.into_iter();
    let queues = answers.filter_map(|(_, queue)| queue);
    let has_something = |queue: &QueueInfo| {
        queue.counts != Counts::default() || queue.workers > 0 || queue.paused.is_some()
    };
    Ok(queues.filter(has_something).collect())
}

#[cfg(test)]
impl View {
    /// What a page below `/jobs` is made with, of a server that nobody asks.
    pub(super) fn of_test(role: crate::web::access::Role) -> Self {
        use crate::web::access::Operator;
        let client = crate::Client::new("redis://127.0.0.1:1").expect("an address");
        let stop = tokio_util::sync::CancellationToken::new();
        let site = Site::new(client, String::new(), String::new(), &[], false, &stop);
        let asked = Asked { operator: Operator::new("ada", role), mount: "/jobs".into() };
        let (base, here) = ("/jobs".to_owned(), "/jobs/queues".to_owned());
        let (queues, known, now, note) = (Vec::new(), 0, 0, None);
        Self { site: Arc::new(site), asked, base, here, queues, known, now, note }
    }
}

/// A button that does something.
#[derive(Default)]
pub(super) struct Button<'a> {
    pub(super) deed: &'a str,
    pub(super) queue: &'a str,
    pub(super) fields: &'a [(&'a str, &'a str)],
    /// In place of the deed's own.
    pub(super) label: Option<&'a str>,
    pub(super) class: &'a str,
    /// Where it leads, if not back to this page.
    pub(super) back: Option<&'a str>,
}

impl View {
    /// Whether this operator may do something here.
    pub(super) fn may(&self, deed: &str, queue: &str) -> bool {
        Deed::named(deed).is_some_and(|deed| self.site.may(&self.asked, deed.verb, queue))
    }

    /// The path of a page.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub(super) fn queue_link(&self, queue: &str) -> String {
        format!("{}/queues/{}", self.base, encode(queue))
    }

    pub(super) fn job_link(&self, queue: &str, id: &str) -> String {
        format!("{}/jobs/{}", self.queue_link(queue), encode(id))
    }

    pub(super) fn jobs_link(&self, queue: &str, state: &str, filter: &str) -> String {
        with(&self.at("/jobs"), &[("queue", queue), ("state", state), ("filter", filter)])
    }

    pub(super) fn type_link(&self, name: &str) -> String {
        format!("{}/types/{}", self.base, encode(name))
    }

    pub(super) fn worker_link(&self, id: &str) -> String {
        format!("{}/workers/{}", self.base, encode(id))
    }

    /// The names of the queues that are shown.
    pub(super) fn names(&self) -> Vec<String> {
        self.queues.iter().map(|queue| queue.name.clone()).collect()
    }

    /// What a queue has, if it is one of those that are shown.
    pub(super) fn queue(&self, name: &str) -> Option<&QueueInfo> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    pub(super) fn sum(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.queues.iter().map(|queue| of(&queue.counts)).sum()
    }

    /// The queue that is asked for, else the one that has most of something, else the first.
    pub(super) fn chosen<'a>(&'a self, asked: &'a str, of: impl Fn(&Counts) -> u64) -> &'a str {
        if !asked.is_empty() {
            return asked;
        }
        let most = self.queues.iter().rev().max_by_key(|queue| of(&queue.counts));
        most.map_or("default", |queue| &queue.name)
    }

    /// The server, as it is named to people.
    pub(super) fn server(&self) -> &str {
        if self.site.name.is_empty() { "this server" } else { &self.site.name }
    }

    /// A whole page. `active`: the page in the list at the side that it belongs to.
    pub(super) fn page(&self, active: &str, title: &str, content: &Markup) -> Html<String> {
        let operator = &self.asked.operator;
        let frame = Frame {
            base: &self.base,
            mount: &self.asked.mount,
            who: Some((&operator.name, operator.role.name())),
            is_read_only: self.site.read_only,
            name: &self.site.name,
            servers: &self.site.servers,
            active,
            title,
            made: Some((clock(self.now), iso(self.now))),
            counts: Counted {
                queues: self.known as u64,
                failed: self.sum(|counts| counts.failed),
                broken: self.sum(|counts| counts.broken),
                scheduled: self.sum(|counts| counts.scheduled),
                is_cut: self.known > QUEUES,
            },
        };
        let content = html! {
            (content)
            @if let Some(note) = &self.note { (note.shown(&self.here)) }
        };
        Html(frame::page(&frame, &content).into_string())
    }

    /// A button in a form of its own; nothing where it is not allowed.
    pub(super) fn button(&self, button: &Button<'_>) -> Markup {
        let Some(deed) = Deed::named(button.deed).filter(|_| self.may(button.deed, button.queue))
        else {
            return html! {};
        };
        let is_bad = deed.is_final && !button.class.contains("main");
        let class = format!("{}{}", button.class, if is_bad { " bad" } else { "" });
        html! {
            form.inline method="post" action=(self.at("/act")) data-ask=[deed.asks_for(1).then_some("")] {
                (self.hidden(deed.name, button.queue, button.fields, button.back))
                button class=(class) type="submit" { (icon(deed.icon)) (button.label.unwrap_or(deed.label)) }
            }
        }
    }

    /// The fields of a form that are not seen.
    pub(super) fn hidden(
        &self,
        deed: &str,
        queue: &str,
        fields: &[(&str, &str)],
        back: Option<&str>,
    ) -> Markup {
        html! {
            @if !deed.is_empty() { input type="hidden" name="action" value=(deed); }
            @if !queue.is_empty() { input type="hidden" name="queue" value=(queue); }
            @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
            input type="hidden" name="back" value=(back.unwrap_or(&self.here));
        }
    }

    /// A menu with what else can be done; nothing where it is empty.
    pub(super) fn menu(&self, class: &str, buttons: &[Button<'_>]) -> Markup {
        let is_any = buttons.iter().any(|button| self.may(button.deed, button.queue));
        html! {
            @if is_any {
                details.menu name="menu" {
                    summary class={ "btn icon " (class) } aria-label="More actions" { (icon("dots")) }
                    div.pop { @for one in buttons { (self.button(one)) } }
                }
            }
        }
    }

    /// A choice of the queue that is shown.
    pub(super) fn picker(
        &self,
        path: &str,
        queue: &str,
        rest: &[(&str, &str)],
        has_all: bool,
    ) -> Markup {
        let link = |name: &str| {
            let asked: Vec<_> = [("queue", name)].into_iter().chain(rest.iter().copied()).collect();
            with(&self.at(path), &asked)
        };
        html! {
            details.menu name="menu" {
                summary.btn { @if queue.is_empty() { "All queues" } @else { (super::text::name(queue)) } (icon("caret")) }
                div.pop {
                    @if has_all { a href=(link("")) aria-current=[queue.is_empty().then_some("true")] { "All queues" } }
                    @for known in self.queues.iter().take(50) {
                        a href=(link(&known.name)) aria-current=[(known.name == queue).then_some("true")] {
                            (super::text::name(&known.name))
                        }
                    }
                    @if self.queues.len() > 50 { a href=(self.at("/queues")) { "All " (number(self.known as u64)) } }
                }
            }
        }
    }
}

/// The title of a page with the sentence that says how it stands, and what can be done.
pub(super) fn head(title: &Markup, verdict: &Markup, actions: &Markup) -> Markup {
    html! {
        div.head {
            div { h1 { (title) } p data-live="verdict" { (verdict) } }
            div.row { (actions) }
        }
    }
}

/// What stands where there is nothing.
pub(super) fn empty(mark: &str, title: &str, text: &Markup) -> Markup {
    html! { div.none { (icon(mark)) h2 { (title) } p { (text) } } }
}

/// The choice of the time that charts show.
pub(super) fn windows(path: &str, rest: &[(&str, &str)], window: &str) -> Markup {
    html! {
        span.group role="group" aria-label="Window" {
            @for (name, label) in [("1h", "1 h"), ("24h", "24 h"), ("30d", "30 d")] {
                @let asked: Vec<_> = rest.iter().copied().chain([("w", name)]).collect();
                a.btn href=(with(path, &asked)) aria-current=[(name == window).then_some("true")] { (label) }
            }
        }
    }
}
