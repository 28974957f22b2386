//! What came of something that was done, in an address: a word and numbers. The texts stand here, none comes from an address.

use maud::{Markup, html};

use super::deeds::Deed;
use super::figures::{count, number};
use super::frame::icon;
use crate::web::act::Report;

/// What came of something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Note {
    deed: String,
    numbers: Vec<u64>,
}

/// So many numbers are read.
const NUMBERS: usize = 4;

impl Note {
    pub(super) fn new(deed: &Deed, numbers: &[u64]) -> Self {
        Self { deed: deed.name.to_owned(), numbers: numbers.to_vec() }
    }

    pub(super) fn of_report(deed: &Deed, report: Report) -> Self {
        let Report { done, missing, changed, conflicts } = report;
        Self::new(deed, &[done, missing, changed, conflicts].map(|jobs| jobs as u64))
    }

    /// As it stands in an address.
    pub(super) fn text(&self) -> String {
        let numbers = self.numbers.iter().map(u64::to_string);
        std::iter::once(self.deed.clone()).chain(numbers).collect::<Vec<_>>().join(".")
    }

    /// Reads it; `None` for anything else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let deed = parts.next().and_then(Deed::named)?;
        let numbers: Option<Vec<u64>> = parts.map(|part| part.parse().ok()).collect();
        let numbers = numbers.filter(|numbers| numbers.len() <= NUMBERS)?;
        Some(Self { deed: deed.name.to_owned(), numbers })
    }

    fn at(&self, place: usize) -> u64 {
        self.numbers.get(place).copied().unwrap_or(0)
    }

    /// What is said, and whether it is what was wanted.
    fn says(&self) -> (String, Vec<String>) {
        let Some(deed) = Deed::named(&self.deed) else { return (String::new(), Vec::new()) };
        let first = self.at(0);
        let mut rest = Vec::new();
        let head = match deed.name {
            "clear" => {
                if self.at(1) > 0 {
                    rest.push("There are more: clear again.".into());
                }
                format!("{} deleted", count(first, "job", "jobs"))
            }
            "destroy" => format!("Destroyed: {} are gone", count(first, "key", "keys")),
            "quiet" | "wake" | "stop" if first == 0 => "No such worker lives".to_owned(),
            "quiet" | "wake" | "stop" => {
                rest.push("It learns of it with its next heartbeat, within 2 s.".into());
                format!("{} {}", count(first, "worker", "workers"), deed.done)
            }
            "cron-run" if first == 0 => "Left out, as the run before goes on".to_owned(),
            "enqueue" if first == 0 => "Nothing enqueued: a job with this id is there".to_owned(),
            _ if self.numbers.len() < NUMBERS => {
                let mut words = deed.done.to_owned();
                if let Some(first) = words.get_mut(..1) {
                    first.make_ascii_uppercase();
                }
                words
            }
            _ => return self.report(deed),
        };
        (head, rest)
    }

    fn report(&self, deed: &Deed) -> (String, Vec<String>) {
        let head = match self.at(0) {
            0 => format!("Nothing {}", deed.done),
            done => format!("{} {}", count(done, "job", "jobs"), deed.done),
        };
        let told = [
            (self.at(1), "had started already, or had gone"),
            (self.at(2), "changed since you looked"),
            (self.at(3), "wait for a key that another job holds"),
        ];
        let rest = told.iter().filter(|(jobs, _)| *jobs > 0);
        (head, rest.map(|(jobs, why)| format!("{} {why}.", number(*jobs))).collect())
    }

    /// A note over the page, which goes with the next one.
    pub(super) fn shown(&self, here: &str) -> Markup {
        let (head, rest) = self.says();
        let is_part = self.numbers.len() == NUMBERS && !rest.is_empty();
        html! {
            div.toasts {
                div.toast role="status" {
                    (icon(if is_part { "broken paused" } else { "done" }))
                    div { b { (head) } @if !rest.is_empty() { p.dim { (rest.join(" ")) } } }
                    a.btn.bare.icon.low href=(here) aria-label="Close" { (icon("close")) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_nothing_else_is() {
        let deed = Deed::named("retry").unwrap();
        let note = Note::of_report(deed, Report { done: 3, missing: 1, changed: 2, conflicts: 0 });
        assert_eq!(note.text(), "retry.3.1.2.0");
        assert_eq!(Note::parse(&note.text()), Some(note.clone()));
        let (head, rest) = note.says();
        assert_eq!((head.as_str(), rest.len()), ("3 jobs retried", 2));
        for wrong in
            ["", "x", "retry.x", "<script>", "retry.1.2.3.4.5", "retry.-1", "Your session ended"]
        {
            assert_eq!(Note::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_deed_has_words() {
        for deed in super::super::deeds::DEEDS {
            for numbers in [&[][..], &[0], &[1], &[5, 1], &[0, 1, 0, 0]] {
                let (head, _) = Note::new(deed, numbers).says();
                assert!(
                    head.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit()),
                    "{head}"
                );
            }
        }
    }
}
