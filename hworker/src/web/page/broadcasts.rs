//! The jobs of a queue that each worker runs.

use maud::{Markup, html};

use super::columns::columns;
use super::figures::{from_now, number};
use super::text::{name, plain};
use super::view::{Button, View};
use crate::control::BroadcastInfo;

/// What there is of them; nothing where there is none.
pub(super) fn panel(view: &View, queue: &str, broadcasts: &[BroadcastInfo]) -> Markup {
    html! {
        @if !broadcasts.is_empty() {
            section.panel {
                header { h2 { "For each worker" } p { "once on each" } }
                table {
                    (columns(&[("", "Job"), ("n w2", "Ended"), ("n w2 ge-s", "Run"), ("n w3 ge-s", "Until"), ("act", "")]))
                    tbody data-live="broadcasts" { @for broadcast in broadcasts { (line(view, queue, broadcast)) } }
                }
            }
        }
    }
}

fn line(view: &View, queue: &str, broadcast: &BroadcastInfo) -> Markup {
    let id = broadcast.id.as_str();
    let fields = [("id", id)];
    let deed = "broadcast-cancel";
    let buttons = [Button { deed, queue, fields: &fields, ..Button::default() }];
    html! {
        tr {
            th scope="row" { span.cut title=(plain(id)) { a.name href=(view.type_link(&broadcast.job)) { (name(&broadcast.job)) } } }
            td.n {
                (number(broadcast.ended))
                @if let Some(workers) = broadcast.workers { small { " / " (number(workers)) } } @else { small { " / all" } }
            }
            td.n.ge-s {
                (number(broadcast.running))
                @if broadcast.retrying > 0 { small { " + " (number(broadcast.retrying)) " again" } }
            }
            td.n.ge-s { (from_now(broadcast.expires_at, view.now)) }
            td.act { (view.menu("bare low", &buttons)) }
        }
    }
}
