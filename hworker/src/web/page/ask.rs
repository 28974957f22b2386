//! What is asked before something is done: on a page of its own, which the script shows as a dialog.

use axum::response::Html;
use maud::{Markup, html};

use super::deeds::Deed;
use super::fields::Fields;
use super::frame::icon;
use super::link::back;
use super::text::{foreign, plain};
use super::view::View;

/// What is asked.
#[derive(Default)]
pub(super) struct Question {
    pub(super) title: String,
    pub(super) text: String,
    pub(super) facts: Vec<(&'static str, Markup)>,
    pub(super) inputs: Markup,
    pub(super) button: String,
    /// The name to be written, so that nobody does it by the way.
    pub(super) name: Option<String>,
    pub(super) is_final: bool,
}

/// What the question's own fields are called; all others are carried on.
const INPUTS: &[&str] = &[
    "sure",
    "confirm",
    "to",
    "when",
    "priority",
    "grace",
    "duration",
    "args",
    "tags",
    "at_once",
    "rate",
    "max_waiting",
    "force",
    "one",
    "action",
    "back",
];

impl Question {
    /// Whether it is answered: by the button, and with the name where that is asked for.
    pub(super) fn is_answered(&self, fields: &Fields) -> bool {
        let named = self.name.as_ref().is_none_or(|name| fields.one("confirm").trim() == name);
        fields.one("sure") == "1" && named
    }

    /// The question as a page.
    pub(super) fn page(&self, view: &View, deed: &Deed, fields: &Fields) -> Html<String> {
        let back = back(&view.base, fields.one("back"));
        let is_wrong = fields.one("sure") == "1";
        // A button of one row means that job alone, whatever else is chosen.
        let is_one = !fields.one("one").is_empty();
        let is_carried = |name: &str| !(INPUTS.contains(&name) || is_one && name == "job");
        let carried = fields.0.iter().filter(|(name, _)| is_carried(name));
        let carried: Vec<_> = carried.map(|(name, value)| (&**name, &**value)).collect();
        let jobs: Vec<String> =
            fields.one("one").splitn(2, ':').skip(1).map(str::to_owned).collect();
        let content = html! {
            section.panel.question aria-labelledby="question" {
                form method="post" action=(view.at("/act")) {
                    (view.hidden(deed.name, "", &carried, Some(back)))
                    @for job in &jobs { input type="hidden" name="job" value=(job); }
                    input type="hidden" name="sure" value="1";
                    div.stack { h1 id="question" { (plain(&self.title)) } p.dim { (self.text) } }
                    dl.facts { @for (label, fact) in &self.facts { dt { (label) } dd { (fact) } } }
                    (self.inputs)
                    @if let Some(name) = &self.name {
                        div.field {
                            label for="confirm" { "Write " code { (foreign(name)) } " to confirm" }
                            input.mono id="confirm" name="confirm" autocomplete="off" required aria-invalid=[is_wrong.then_some("true")];
                            @if is_wrong { small.bad { "This is not its name: nothing was done." } }
                        }
                    }
                    footer.row {
                        a.btn.push href=(back) data-close="" autofocus[self.is_final] { "Cancel" }
                        button class={ "btn " (if self.is_final { "stop" } else { "main" }) } type="submit" autofocus[!self.is_final] {
                            (icon(deed.icon)) (self.button)
                        }
                    }
                }
            }
        };
        view.page("", &self.title, &content)
    }
}

/// A field with its label, what belongs there, and an example.
pub(super) fn input(name: &str, label: &str, hint: &str, example: &str, value: &str) -> Markup {
    html! {
        div.field {
            label for=(name) { (label) @if !hint.is_empty() { " " span { (hint) } } }
            input id=(name) name=(name) placeholder=(example) value=(value) autocomplete="off";
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::Button;
    use super::*;
    use crate::web::access::Role;

    fn fields(all: &[(&str, &str)]) -> Fields {
        Fields(all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn the_page_of_a_question_carries_on_what_was_chosen_and_nothing_else() {
        let view = View::of_test(Role::Admin);
        let deed = Deed::named("delete").unwrap();
        let asked = fields(&[
            ("queue", "mail"),
            ("job", "1:other"),
            ("one", "delete:7:\"><script>"),
            ("back", "https://evil.example/"),
        ]);
        let question = Question {
            title: "Delete 1 job of mail?".into(),
            button: "Delete 1 job".into(),
            is_final: true,
            ..Question::default()
        };
        let page = question.page(&view, deed, &asked).0;
        assert!(
            page.contains(r#"<input type="hidden" name="job" value="7:&quot;&gt;&lt;script&gt;">"#),
            "{page}"
        );
        assert!(!page.contains("1:other") && !page.contains("evil.example"), "{page}");
        assert!(page.contains(r#"<input type="hidden" name="sure" value="1">"#), "{page}");
        let cancel = page.split("data-close").nth(1).unwrap_or_default();
        assert!(cancel.starts_with("=\"\" autofocus"), "{page}");
        assert!(page.contains("btn stop"), "{page}");
    }

    #[test]
    fn who_may_not_has_no_button() {
        let (viewer, operator) = (View::of_test(Role::Viewer), View::of_test(Role::Operator));
        let shown = |view: &View, deed| {
            let button = Button { deed, queue: "mail", class: "btn", ..Button::default() };
            view.button(&button).into_string()
        };
        assert_eq!(
            (shown(&viewer, "resume"), shown(&operator, "destroy")),
            (String::new(), String::new())
        );
        let resume = shown(&operator, "resume");
        assert!(
            resume.contains("action=\"/jobs/act\"") && !resume.contains("data-ask"),
            "{resume}"
        );
        assert!(shown(&operator, "pause").contains("data-ask"));
    }
}
