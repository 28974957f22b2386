//! The arguments of a job type as a form has them: what its schema says is simple has a field of its own kind, all else is written as JSON.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::Value;
use serde_json::value::RawValue;

use super::fields::Fields;
use super::text::{cut, foreign, plain};
use crate::web::problem::{Problem, Wrong};

/// How the value of a field is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Integer,
    Number,
    Boolean,
    /// One of these values.
    Choice(Vec<Value>),
    Json,
}

/// An argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// What belongs there, in words.
    pub(super) hint: String,
    pub(super) is_required: bool,
}

/// More arguments than this are written as JSON.
const MOST: usize = 60;

/// The arguments that a schema names; `None` where they are better written as JSON.
pub(super) fn arguments(schema: &str) -> Option<Vec<Argument>> {
    let schema: Value = serde_json::from_str(schema).ok()?;
    let properties = schema.get("properties")?.as_object()?;
    let required = schema["required"].as_array();
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    let argument = |(name, of): (&String, &Value)| {
        let (of, is_nullable) = meant(&schema, of);
        let kind = kind(of);
        let is_required = is_required(name) && !is_nullable;
        Argument { name: name.clone(), hint: hint(of, &kind, is_required), kind, is_required }
    };
    Some(properties.iter().map(argument).collect()).filter(|all: &Vec<_>| all.len() <= MOST)
}

/// What a schema stands for behind its name, and whether it may be null.
fn meant<'a>(root: &'a Value, of: &'a Value) -> (&'a Value, bool) {
    let named = |of: &'a Value| {
        let path = of.get("$ref").and_then(|name| name.as_str()?.strip_prefix('#'));
        path.and_then(|path| root.pointer(path)).unwrap_or(of)
    };
    let of = named(of);
    let is_null = |one: &&Value| one["type"] == "null";
    if let Some(either) = of.get("anyOf").or_else(|| of.get("oneOf")).and_then(Value::as_array)
        && let (2, Some(other)) = (either.len(), either.iter().find(|one| !is_null(one)))
        && either.iter().any(|one| is_null(&one))
    {
        return (named(other), true);
    }
    let is_nullable =
        of["type"].as_array().is_some_and(|types| types.iter().any(|one| one == "null"));
    (of, is_nullable)
}

/// The one type that is not null.
fn type_of(of: &Value) -> Option<&str> {
    match &of["type"] {
        Value::String(one) => Some(one),
        Value::Array(types) => {
            let mut others = types.iter().filter_map(Value::as_str).filter(|one| *one != "null");
            others.next().filter(|_| others.next().is_none())
        }
        _ => None,
    }
}

fn kind(of: &Value) -> Kind {
    if let Some(values) = of["enum"].as_array().filter(|values| values.len() <= 100) {
        return Kind::Choice(values.clone());
    }
    match type_of(of) {
        Some("string") => Kind::Text,
        Some("integer") => Kind::Integer,
        Some("number") => Kind::Number,
        Some("boolean") => Kind::Boolean,
        _ => Kind::Json,
    }
}

fn hint(of: &Value, kind: &Kind, is_required: bool) -> String {
    let mut hint = match kind {
        Kind::Text => "text".to_owned(),
        Kind::Integer => "whole number".to_owned(),
        Kind::Number => "number".to_owned(),
        Kind::Boolean => "yes or no".to_owned(),
        Kind::Choice(values) => format!("one of {}", values.len()),
        Kind::Json => type_of(of).map_or_else(|| "JSON".to_owned(), |of| format!("{of}, as JSON")),
    };
    if let Some(format) = of["format"].as_str() {
        hint = format!("{hint}, {format}");
    }
    if let Some(least) = of["minimum"].as_f64() {
        hint = format!("{hint}, from {least}");
    }
    if !is_required {
        hint.push_str(", optional");
    }
    hint
}

/// The name of an argument's field in the form.
fn field(name: &str) -> String {
    format!("arg.{name}")
}

/// The fields of a form, with what was given before and what is wrong with it.
pub(super) fn inputs(arguments: &[Argument], given: &Fields, wrong: &[Wrong]) -> Markup {
    html! {
        div.fields {
            @for (at, argument) in arguments.iter().enumerate() {
                @let (id, name) = (format!("arg-{at}"), field(&argument.name));
                @let told = wrong.iter().find(|wrong| is_of(wrong, &argument.name));
                @let (value, invalid) = (given.one(&name), told.map(|_| "true"));
                div class={ "field" @if argument.kind == Kind::Json { " wide" } } {
                    label for=(id) { (cut(&argument.name, 60)) " " span { (plain(&argument.hint)) } }
                    @match &argument.kind {
                        Kind::Json => textarea id=(id) name=(name) rows="3" spellcheck="false" aria-invalid=[invalid] { "\n" (value) },
                        Kind::Boolean => (choice(&id, &name, argument, &[Value::Bool(true), Value::Bool(false)], value)),
                        Kind::Choice(values) => (choice(&id, &name, argument, values, value)),
                        Kind::Text => input id=(id) name=(name) value=(value) autocomplete="off" aria-invalid=[invalid];,
                        Kind::Integer | Kind::Number => {
                            input id=(id) name=(name) value=(value) inputmode="decimal" autocomplete="off"
                                required[argument.is_required] aria-invalid=[invalid];
                        }
                    }
                    @if let Some(told) = told { small.bad { (foreign(&told.detail)) } }
                }
            }
        }
    }
}

fn choice(id: &str, name: &str, argument: &Argument, values: &[Value], given: &str) -> Markup {
    let label = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let given: Option<Value> = serde_json::from_str(given).ok();
    html! {
        select id=(id) name=(name) {
            @if !argument.is_required { option value="" { "left out" } }
            @for value in values { option value=(value) selected[given.as_ref() == Some(value)] { (plain(&label(value))) } }
        }
    }
}

/// Whether something is wrong with this argument, by its JSON pointer.
fn is_of(wrong: &Wrong, name: &str) -> bool {
    let first = wrong.pointer.strip_prefix('/').and_then(|rest| rest.split('/').next());
    first.is_some_and(|first| first.replace("~1", "/").replace("~0", "~") == name)
}

/// The arguments that a form gave, as JSON.
pub(super) fn given(arguments: &[Argument], fields: &Fields) -> Result<Box<RawValue>, Problem> {
    let (mut args, mut wrong) = (BTreeMap::new(), Vec::new());
    for argument in arguments {
        let text = fields.one(&field(&argument.name));
        let is_left_out =
            text.trim().is_empty() && !(argument.is_required && argument.kind == Kind::Text);
        if is_left_out {
            continue;
        }
        match value(argument, text) {
            Ok(json) => _ = args.insert(&argument.name, json),
            Err(detail) => {
                let pointer = format!("/{}", argument.name.replace('~', "~0").replace('/', "~1"));
                wrong.push(Wrong { pointer, detail });
            }
        }
    }
    if !wrong.is_empty() {
        return Err(Problem::invalid("the arguments cannot be read").wrong(wrong));
    }
    serde_json::value::to_raw_value(&args).map_err(|error| Problem::invalid(error.to_string()))
}

fn value(argument: &Argument, text: &str) -> Result<Box<RawValue>, String> {
    let json = match argument.kind {
        Kind::Text => Value::from(text).to_string(),
        _ => text.trim().to_owned(),
    };
    let is_number = json.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    match argument.kind {
        Kind::Integer | Kind::Number if !is_number => Err("this is no number".to_owned()),
        _ => RawValue::from_string(json).map_err(|error| error.to_string()),
    }
}

/// What belongs into the arguments, as a first text to be changed.
pub(super) fn example(arguments: &[Argument]) -> String {
    let example = |argument: &Argument| match &argument.kind {
        Kind::Text => Value::from(""),
        Kind::Integer | Kind::Number => Value::from(0),
        Kind::Boolean => Value::from(false),
        Kind::Choice(values) => values.first().cloned().unwrap_or_default(),
        Kind::Json => Value::Null,
    };
    let required = arguments.iter().filter(|argument| argument.is_required);
    let args: serde_json::Map<_, _> =
        required.map(|argument| (argument.name.clone(), example(argument))).collect();
    serde_json::to_string_pretty(&args).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r##"{
        "properties": {
            "to": { "type": "string", "format": "email" },
            "user_id": { "type": "integer", "minimum": 0 },
            "lang": { "$ref": "#/$defs/Lang" },
            "note": { "type": ["string", "null"] },
            "from": { "anyOf": [{ "$ref": "#/$defs/Sender" }, { "type": "null" }] },
            "track": { "type": "boolean" }
        },
        "required": ["to", "user_id", "note"],
        "$defs": { "Lang": { "enum": ["en", "de"] }, "Sender": { "type": "object" } }
    }"##;

    fn fields(all: &[(&str, &str)]) -> Fields {
        Fields(all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn simple_arguments_have_fields() {
        let all = arguments(SCHEMA).unwrap();
        let of = |name: &str| all.iter().find(|one| one.name == name).unwrap();
        assert_eq!((&of("to").kind, of("to").is_required), (&Kind::Text, true));
        assert_eq!(of("user_id").hint, "whole number, from 0");
        assert_eq!(of("lang").kind, Kind::Choice(vec!["en".into(), "de".into()]));
        assert_eq!((&of("note").kind, of("note").is_required), (&Kind::Text, false));
        assert_eq!(
            (&of("from").kind, &*of("from").hint),
            (&Kind::Json, "object, as JSON, optional")
        );
        assert!(arguments("{}").is_none() && arguments("no").is_none());
        let shown = inputs(&all, &fields(&[("arg.to", "\"><script>")]), &[]).into_string();
        assert!(!shown.contains("<script") && shown.contains("arg.lang"), "{shown}");
    }

    #[test]
    fn what_was_given_is_json() {
        let all = arguments(SCHEMA).unwrap();
        let form = fields(&[
            ("arg.to", "a\"b"),
            ("arg.user_id", "18446744073709551616"),
            ("arg.lang", "\"de\""),
            ("arg.track", "true"),
            ("arg.note", ""),
        ]);
        assert_eq!(
            given(&all, &form).unwrap().get(),
            r#"{"lang":"de","to":"a\"b","track":true,"user_id":18446744073709551616}"#
        );
        let problem = given(&all, &fields(&[("arg.user_id", "x"), ("arg.from", "{")])).unwrap_err();
        let mut places: Vec<_> =
            problem.errors.iter().map(|wrong| wrong.pointer.as_str()).collect();
        places.sort_unstable();
        assert_eq!(places, ["/from", "/user_id"]);
        assert!(problem.errors.iter().any(|wrong| is_of(wrong, "user_id")));
    }
}
