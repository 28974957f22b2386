//! Jobs: which jobs, exactly?

use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::figures::{count, number};
use super::filter::conditions;
use super::frame::icon;
use super::link::with;
use super::row::in_state;
use super::text::{cut, foreign, name};
use super::view::{View, empty, head};
use crate::inspect::{Filter, JobInfo, Order, Page, QueueInfo};
use crate::job_state::JobState;
use crate::web::api::extract::Query;
use crate::web::problem::Problem;
use crate::web::shown;

#[derive(Deserialize)]
pub(super) struct Asks {
    #[serde(default)]
    queue: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    filter: String,
    /// What is added to the filter.
    #[serde(default)]
    add: String,
    #[serde(default)]
    order: String,
    #[serde(default)]
    cursor: String,
    limit: Option<usize>,
}

/// So many jobs are on a page, and at most so many: more cannot be changed at once.
const PAGE: usize = 50;
const MOST: usize = 100;

/// What is shown.
pub(super) struct List<'a> {
    pub(super) view: &'a View,
    /// The page in the list at the side.
    pub(super) path: &'static str,
    pub(super) queue: QueueInfo,
    pub(super) state: JobState,
    pub(super) filter: String,
    pub(super) order: String,
    pub(super) limit: Option<usize>,
    pub(super) is_first: bool,
}

pub(super) async fn show(view: View, Query(asks): Query<Asks>) -> Result<Html<String>, Problem> {
    list(&view, "/jobs", asks).await
}

pub(super) async fn scheduled(
    view: View,
    Query(asks): Query<Asks>,
) -> Result<Html<String>, Problem> {
    list(&view, "/scheduled", Asks { state: JobState::Scheduled.name().into(), ..asks }).await
}

async fn list(view: &View, path: &'static str, asks: Asks) -> Result<Html<String>, Problem> {
    let filter = format!("{} {}", asks.filter, asks.add).trim().to_owned();
    let read: Result<Filter, String> = filter.parse();
    let meant = read.clone().unwrap_or_default();
    let named = Some(&asks.state).filter(|state| !state.is_empty());
    let named = named.map(|state| state.parse().map_err(Problem::invalid)).transpose()?;
    let state = named.or(meant.state()).unwrap_or(JobState::Waiting);
    let asked_queue =
        Some(&*asks.queue).filter(|queue| !queue.is_empty()).or(meant.queue()).unwrap_or_default();
    let of = |queue: &QueueInfo| in_state(queue, state);
    let most = view
        .queues
        .iter()
        .rev()
        .max_by_key(|queue| of(queue))
        .map_or("default", |queue| &queue.name);
    let queue = if asked_queue.is_empty() { most } else { asked_queue };
    let info = match view.queue(queue) {
        Some(known) => known.clone(),
        None => view.site.client.inspect(queue).summary().await?,
    };
    let list = List {
        view,
        path,
        queue: info,
        state,
        filter: conditions(&filter).join(" "),
        order: asks.order,
        limit: asks.limit,
        is_first: asks.cursor.is_empty(),
    };
    let (body, verdict) = match read {
        Ok(filter) => {
            shown::check_filter(&filter, &view.asked)?;
            let page = list.page(filter, &asks.cursor).await?;
            (list.rows(&page).await?, list.verdict(&page))
        }
        Err(why) => (
            html! { section.panel { (empty("search", "This filter cannot be read", &html! { (foreign(&why)) })) } },
            html! { "Nothing was looked for." },
        ),
    };
    let title = if path == "/scheduled" { "Scheduled" } else { "Jobs" };
    let content = html! {
        (head(&html! { (title) }, &verdict, &list.actions()))
        @if path == "/jobs" { (list.tabs()) }
        (list.filter_form())
        (body)
    };
    let title = format!("{title}: {state} on {}", list.queue.name);
    Ok(view.page(path, &title, &content))
}

impl List<'_> {
    async fn page(&self, filter: Filter, cursor: &str) -> Result<Page<JobInfo>, Problem> {
        let inspect = self.view.site.client.inspect(&self.queue.name);
        let limit = self.limit.unwrap_or(PAGE).clamp(1, MOST);
        let mut jobs = inspect.jobs(self.state).filter(filter).limit(limit);
        match &*self.order {
            "next" => jobs = jobs.order(Order::Next),
            "newest" => jobs = jobs.order(Order::Newest),
            _ => {}
        }
        if !cursor.is_empty() {
            jobs = jobs.after(cursor);
        }
        Ok(jobs.page().await?)
    }

    /// The address of the list with some things other than here.
    pub(super) fn link(&self, state: JobState, filter: &str, order: &str, cursor: &str) -> String {
        let state = if self.path == "/jobs" { state.name() } else { "" };
        let limit = self.limit.map(|limit| limit.to_string()).unwrap_or_default();
        let asked = [
            ("queue", &*self.queue.name),
            ("state", state),
            ("filter", filter),
            ("order", order),
            ("limit", &limit),
            ("cursor", cursor),
        ];
        with(&self.view.at(self.path), &asked)
    }

    fn verdict(&self, page: &Page<JobInfo>) -> Markup {
        let (total, state) = (page.total, self.state);
        html! {
            @if self.filter.is_empty() {
                (count(total, "job is", "jobs are")) " " (state.name()) " on " (name(&self.queue.name)) "."
            } @else if page.next.is_some() {
                (number(page.items.len() as u64)) " found so far, among the " (number(page.scanned)) " of "
                (number(total)) " " (state.name()) " jobs that were looked at."
            } @else {
                (number(page.items.len() as u64)) " found; " (number(page.scanned)) " of "
                (number(total)) " " (state.name()) " jobs were looked at for this page."
            }
            @if !page.complete { " Those in the middle of so long a queue cannot be reached." }
        }
    }

    fn actions(&self) -> Markup {
        html! {
            @if self.view.may("enqueue", &self.queue.name) { a.btn.main href=(self.view.at("/types")) { (icon("plus")) "Enqueue" } }
        }
    }

    async fn rows(&self, page: &Page<JobInfo>) -> Result<Markup, Problem> {
        if page.items.is_empty() {
            return Ok(html! { section.panel { (self.nothing(page)) } });
        }
        let types = self.view.site.types().await?;
        let jobs: Vec<Value> =
            page.items.iter().map(|job| shown::job(job, &types, &self.view.asked)).collect();
        let has_error = self.state.ended().is_some() || self.state == JobState::Broken;
        Ok(html! {
            form.panel method="post" action=(self.view.at("/act")) data-bulk="" data-ask="" {
                table {
                    thead {
                        tr {
                            th.pick { input type="checkbox" aria-label="Select all on this page" data-all="" hidden; }
                            th.w5.flex-s scope="col" { "Job" }
                            th.ge-l scope="col" { "Arguments" }
                            @if has_error { th.ge-s scope="col" { "Error" } }
                            th.n.w2.ge-s scope="col" { "Attempt" }
                            th.w3.ge-m scope="col" { @if has_error || self.state == JobState::Running { "Worker" } @else { "Priority" } }
                            th.n.w3 scope="col" { (self.time_label()) }
                            th.act.ge-s { span.sr { "Actions" } }
                        }
                    }
                    tbody data-live="jobs" { @for job in &jobs { (self.row(job, has_error)) } }
                }
                (self.view.hidden("", &self.queue.name, &[], None))
                (self.bulk())
                (self.pages(page))
            }
        })
    }

    fn nothing(&self, page: &Page<JobInfo>) -> Markup {
        if let (Some(next), false) = (&page.next, self.filter.is_empty()) {
            let further = self.link(self.state, &self.filter, &self.order, next);
            let text = html! { (number(page.scanned)) " of " (number(page.total)) " jobs were looked at. " };
            return html! { (empty("search", "None so far", &text)) div.pages { a.btn.main href=(further) { "Look further" } } };
        }
        if !self.filter.is_empty() {
            let all = self.link(self.state, "", &self.order, "");
            let text = html! {
                (number(page.scanned)) " of " (number(page.total)) " " (self.state.name()) " jobs on " (name(&self.queue.name))
                " were looked at for " code { (cut(&self.filter, 200)) } ". "
                a href=(all) { "Clear the filter" }
            };
            return empty("search", "No job matches", &text);
        }
        match self.state {
            JobState::Failed => empty(
                "done",
                "Nothing failed",
                &html! { "No record of a failed job is kept for " (name(&self.queue.name)) "." },
            ),
            JobState::Broken => empty(
                "done",
                "Nothing is broken",
                &html! { "Every payload on " (name(&self.queue.name)) " could be decoded." },
            ),
            state => empty(
                super::row::mark(state.name()),
                "No jobs here",
                &html! { "None is " (state.name()) " on " (name(&self.queue.name)) "." },
            ),
        }
    }
}
