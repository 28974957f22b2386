//! Above a list of jobs: the states, the filter, the order.

use maud::{Markup, html};

use super::figures::number;
use super::filter::{conditions, halves};
use super::frame::icon;
use super::jobs::List;
use super::row::in_state;
use super::text::{cut, plain};
use crate::job_state::JobState;

impl List<'_> {
    pub(super) fn tabs(&self) -> Markup {
        const TABS: [JobState; 9] = [
            JobState::Running,
            JobState::Waiting,
            JobState::Scheduled,
            JobState::Parked,
            JobState::Failed,
            JobState::Done,
            JobState::Cancelled,
            JobState::Expired,
            JobState::Broken,
        ];
        // A filter may name a state too.
        let rest: Vec<_> =
            conditions(&self.filter).into_iter().filter(|one| halves(one).0 != "state").collect();
        html! {
            nav.tabs aria-label="States" data-live="tabs" {
                @for state in TABS {
                    @let jobs = in_state(&self.queue, state);
                    @if jobs > 0 || state != JobState::Parked || self.state == state {
                        a href=(self.link(state, &rest.join(" "), "", "")) aria-current=[(self.state == state).then_some("page")] {
                            (capital(state.name())) span { (number(jobs)) }
                        }
                    }
                }
            }
        }
    }

    pub(super) fn filter_form(&self) -> Markup {
        let all = conditions(&self.filter);
        let limit = self.limit.map(|limit| limit.to_string()).unwrap_or_default();
        html! {
            form.filter role="search" method="get" action=(self.view.at(self.path)) {
                input type="hidden" name="queue" value=(self.queue.name);
                @if self.path == "/jobs" { input type="hidden" name="state" value=(self.state.name()); }
                @if !self.filter.is_empty() { input type="hidden" name="filter" value=(self.filter); }
                @if !self.order.is_empty() { input type="hidden" name="order" value=(self.order); }
                @if !limit.is_empty() { input type="hidden" name="limit" value=(limit); }
                div.query {
                    (icon("search"))
                    @for (at, one) in all.iter().enumerate() {
                        @let (of, value) = halves(one);
                        @let rest: Vec<_> = all.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, one)| one.as_str()).collect();
                        span.chip {
                            span { span { (cut(of, 40)) } " " (cut(value, 60)) }
                            a href=(self.link(self.state, &rest.join(" "), &self.order, "")) aria-label={ "Remove " (plain(of)) } {
                                (icon("close"))
                            }
                        }
                    }
                    input name="add" aria-label="Filter" placeholder="job: error: tag: args.user_id=… age>2h" autocomplete="off" spellcheck="false";
                }
                button.btn type="submit" { "Filter" }
                (self.orders())
                @let state = if self.path == "/jobs" { self.state.name() } else { "" };
                (self.view.picker(self.path, &self.queue.name, &[("state", state), ("filter", &self.filter)], false))
            }
        }
    }

    fn orders(&self) -> Markup {
        let orders = [("", "Usual order"), ("next", "Next first"), ("newest", "Newest first")];
        let now = orders
            .iter()
            .find(|(name, _)| *name == self.order)
            .map_or("Usual order", |(_, label)| label);
        html! {
            details.menu.hide-s name="menu" {
                summary.btn { (now) (icon("caret")) }
                div.pop { @for (order, label) in orders { a href=(self.link(self.state, &self.filter, order, "")) { (label) } } }
            }
        }
    }
}

fn capital(word: &str) -> String {
    let mut word = word.to_owned();
    if let Some(first) = word.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    word
}
