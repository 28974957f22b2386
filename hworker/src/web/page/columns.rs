//! The heads of tables.

use maud::{Markup, html};

/// The head of a table: of each column its classes and its name. One without a name has what can be done.
pub(super) fn columns(all: &[(&str, &str)]) -> Markup {
    html! {
        thead {
            tr {
                @for (class, name) in all {
                    @if name.is_empty() { th class=(class) { span.sr { "Actions" } } }
                    @else { th class=(class) scope="col" { (name) } }
                }
            }
        }
    }
}
