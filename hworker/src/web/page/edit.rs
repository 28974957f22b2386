//! Changes of a job's arguments and tags, as a form has them.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::Value;
use serde_json::value::RawValue;

use super::fields::Fields;
use super::view::View;
use crate::inspect::{Action, Edit};
use crate::web::act::{self, Which};
use crate::web::problem::Problem;
use crate::web::shown;

/// The fields for what can be changed.
pub(super) async fn inputs(view: &View, queue: &str, jobs: &[Which]) -> Result<Markup, Problem> {
    let [which] = jobs else {
        return Err(Problem::invalid("choose one job to be changed"));
    };
    let job = shown(view, queue, which).await?;
    let tags: Vec<&str> =
        job["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let args = job["args"]
        .is_object()
        .then(|| serde_json::to_string_pretty(&job["args"]).unwrap_or_default());
    Ok(html! {
        @if let Some(args) = &args {
            div.field {
                label for="args" { "Arguments " span { "JSON" } }
                textarea id="args" name="args" rows=(args.lines().count().clamp(3, 16)) spellcheck="false" { "\n" (args) }
            }
        } @else {
            p.sub { "Its arguments are not shown here, so they cannot be changed here." }
        }
        div.field {
            label for="tags" { "Tags " span { "one a line" } }
            textarea id="tags" name="tags" rows="2" spellcheck="false" { "\n" (tags.join("\n")) }
        }
    })
}

/// The job as it is shown to whoever changes it.
async fn shown(view: &View, queue: &str, which: &Which) -> Result<Value, Problem> {
    let found = view.site.find(queue, &which.id).await?;
    let missing = || Problem::not_found(format!("no job {} on the queue {queue}", which.id));
    Ok(shown::job(&found.ok_or_else(missing)?, &view.site.types().await?, &view.asked))
}

/// The change for which a form asks: of what is not as it was shown.
pub(super) async fn action(
    view: &View,
    queue: &str,
    jobs: &[Which],
    fields: &Fields,
) -> Result<Action, Problem> {
    let [which] = jobs else {
        return Err(Problem::invalid("choose one job to be changed"));
    };
    let job = shown(view, queue, which).await?;
    let mut changed = BTreeMap::new();
    if let Some(text) = fields.given("args") {
        changed = changes(&job["args"], text)?;
        act::check_edit(&view.site, queue, which, &changed).await?;
    }
    let tags = fields.one("tags").lines().map(str::trim).filter(|tag| !tag.is_empty());
    let tags: Vec<&str> = tags.collect();
    let is_tagged = job["tags"]
        .as_array()
        .is_some_and(|known| known.iter().map(Value::as_str).eq(tags.iter().copied().map(Some)));
    if changed.is_empty() && is_tagged {
        return Err(Problem::invalid("nothing is changed"));
    }
    let edit =
        changed.into_iter().fold(Edit::new(), |edit, (name, json)| edit.arg(name, json.get()));
    Ok(Action::Edit(if is_tagged { edit } else { edit.tags(tags) }))
}

/// The arguments that are not as they were shown.
fn changes(shown: &Value, text: &str) -> Result<BTreeMap<String, Box<RawValue>>, Problem> {
    let wrong = |error| Problem::invalid(format!("the arguments cannot be read as JSON: {error}"));
    let args: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).map_err(wrong)?;
    let known = shown
        .as_object()
        .ok_or_else(|| Problem::invalid("these arguments cannot be changed here"))?;
    if let Some(name) = known.keys().find(|name| !args.contains_key(*name)) {
        return Err(Problem::invalid(format!(
            "the argument `{name}` cannot be taken out; `null` may do"
        )));
    }
    let is_other = |(name, json): &(String, Box<RawValue>)| {
        serde_json::from_str::<Value>(json.get()).ok().as_ref() != known.get(name)
    };
    let changed: BTreeMap<_, _> = args.into_iter().filter(is_other).collect();
    match changed.keys().find(|name| name.contains('.')) {
        // A dot leads into an argument.
        Some(name) => Err(Problem::invalid(format!(
            "`{name}` has a dot in its name, and cannot be changed here"
        ))),
        None => Ok(changed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_changed_is_sent() {
        let shown =
            serde_json::json!({ "to": "ada", "card": "•••", "id": 12_345_678_901_234_567_890_u64 });
        let text = r#"{ "to": "bob", "card": "•••", "id": 12345678901234567890, "new": 1.50 }"#;
        let changed = changes(&shown, text).unwrap();
        let changed: Vec<_> =
            changed.iter().map(|(name, json)| (name.as_str(), json.get())).collect();
        assert_eq!(changed, [("new", "1.50"), ("to", "\"bob\"")]);
        for wrong in ["", "[]", "{\"to\":1}", "{\"to\":1,\"card\":1,\"id\":1,\"a.b\":2}"] {
            assert!(changes(&shown, wrong).is_err(), "{wrong}");
        }
        assert!(changes(&Value::from("•••"), "{}").is_err());
    }
}
