//! The jobs of a list in lines, and what can be done to them.

use maud::{Markup, html};
use serde_json::Value;

use super::deeds::Deed;
use super::fields::pick;
use super::figures::{NONE, count, instant, number, since};
use super::frame::icon;
use super::jobs::List;
use super::row::{args, error, text};
use super::text::{cut, name, plain};
use crate::inspect::{JobInfo, Page};
use crate::job_state::JobState;

impl List<'_> {
    pub(super) fn time_label(&self) -> &'static str {
        match self.state {
            JobState::Scheduled => "Due",
            JobState::Waiting => "Waits",
            JobState::Parked => "Parked for",
            JobState::Running => "Runs for",
            JobState::Broken => "Last",
            _ => "Ended",
        }
    }

    pub(super) fn row(&self, job: &Value, has_error: bool) -> Markup {
        let (queue, id) = (&*self.queue.name, text(job, "id"));
        let broken = text(job, "digest")
            .map(|digest| format!("{}/broken/{digest}", self.view.queue_link(queue)));
        let link = broken.or_else(|| id.map(|id| self.view.job_link(queue, id)));
        let (at, title) = (job["at"].as_u64(), text(job, "job").unwrap_or("not readable"));
        let chosen = id.filter(|_| self.state != JobState::Broken).map(|id| pick(at, id));
        let lasts = matches!(self.state, JobState::Waiting | JobState::Parked | JobState::Running);
        html! {
            tr data-href=[link.as_deref()] {
                td.pick {
                    @if let Some(chosen) = &chosen {
                        input type="checkbox" name="job" value=(chosen) aria-label={ "Select " (plain(title)) " " (plain(id.unwrap_or_default())) };
                    }
                }
                th scope="row" {
                    span.cut {
                        @if let Some(link) = &link { a.name href=(link) title=(plain(title)) { (name(title)) } } @else { (name(title)) }
                    }
                    span.cut.sub.lt-s { @if has_error { (error(job)) } @else { (args(job)) } }
                }
                td.ge-l { (args(job)) }
                @if has_error { td.ge-s { (error(job)) } }
                td.n.ge-s { (job["attempt"].as_u64().unwrap_or(1)) }
                td.ge-m {
                    @if has_error || self.state == JobState::Running {
                        @if let Some(worker) = text(job, "worker") {
                            a href=(self.view.worker_link(worker)) title=(plain(worker)) { (cut(worker, 12)) }
                        }
                        @else { span.faint { (NONE) } }
                    } @else { (text(job, "priority").unwrap_or(NONE)) }
                }
                td.n {
                    @match at {
                        Some(at) if lasts => (since(at, self.view.now)),
                        Some(at) => (instant(at, self.view.now)),
                        None => span.faint { (NONE) }
                    }
                }
                td.act.ge-s { @if let Some(chosen) = &chosen { (self.menu(chosen)) } }
            }
        }
    }

    /// What can be done to jobs in this state.
    fn deeds(&self) -> Vec<&'static Deed> {
        let names: &[&str] = match self.state {
            JobState::Running => &["cancel"],
            JobState::Waiting => &["promote", "move", "priority", "edit", "cancel", "delete"],
            JobState::Scheduled => {
                &["promote", "reschedule", "move", "priority", "edit", "cancel", "delete"]
            }
            JobState::Parked => &["cancel", "delete"],
            JobState::Broken => &[],
            _ => &["retry", "reset", "move", "edit", "delete"],
        };
        let may = |name: &&&str| self.view.may(name, &self.queue.name);
        names.iter().filter(may).filter_map(|name| Deed::named(name)).collect()
    }

    fn menu(&self, chosen: &str) -> Markup {
        let deeds = self.deeds();
        html! {
            @if !deeds.is_empty() {
                details.menu name="menu" {
                    summary.btn.bare.icon.low aria-label="More actions" { (icon("dots")) }
                    div.pop {
                        @for deed in deeds {
                            button class=[deed.is_final.then_some("bad")] type="submit" name="one" value={ (deed.name) ":" (chosen) } {
                                (icon(deed.icon)) (deed.label)
                            }
                        }
                    }
                }
            }
        }
    }

    pub(super) fn bulk(&self) -> Markup {
        html! {
            div.bulk role="region" aria-label="Selection" {
                b data-chosen="" { "Chosen jobs" }
                span.push {}
                span.row {
                    @for deed in self.deeds().into_iter().filter(|deed| deed.name != "edit" && deed.name != "reset") {
                        button.btn.low type="submit" name="action" value=(deed.name) { (icon(deed.icon)) (deed.label) }
                    }
                }
                button.btn.icon.low type="reset" aria-label="Clear the selection" { (icon("close")) }
            }
        }
    }

    pub(super) fn pages(&self, page: &Page<JobInfo>) -> Markup {
        let first = self.link(self.state, &self.filter, &self.order, "");
        html! {
            div.pages {
                span {
                    (count(page.items.len() as u64, "job", "jobs")) " on this page " span.faint {
                        "of " (number(page.total)) " " (self.state.name())
                    }
                }
                span.push.group {
                    @if !self.is_first { a.btn.low href=(first) { "First page" } }
                    @if let Some(next) = &page.next {
                        a.btn.low href=(self.link(self.state, &self.filter, &self.order, next)) { "Next page" }
                    }
                }
            }
        }
    }
}
