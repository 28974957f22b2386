//! What has changed of job types since they were printed into a file, and what of it would break jobs that wait.
//!
//! A schema is compared as far as it says what a worker can decode: types, widths of integers, values of enums, fields and which of them
//! must be there. What it says beyond that, such as the length of a text, and what one side leaves open, is no change.

use std::collections::BTreeSet;

use hworker::JobType;
use serde::Serialize;
use serde_json::Value;

use crate::Context;
use crate::enqueue::read;
use crate::rows::span;
use crate::stop::Stop;

/// Schemas are whatever somebody wrote into the server: nothing deeper is compared, and no more than this much of one.
const DEPTH: usize = 64;
const COMPARED: usize = 100_000;

/// One change of a job type.
#[derive(Debug, PartialEq, Serialize)]
struct Row {
    job: String,
    /// `new`, `gone` or `changed`.
    change: &'static str,
    /// Whether it breaks jobs that wait.
    breaks: bool,
    what: String,
}

pub(crate) fn run(context: &Context, file: &str, now: &[JobType]) -> Result<(), Stop> {
    let text = read(&if file == "-" { file.to_owned() } else { format!("@{file}") })?;
    let before = parse(&text).map_err(|why| Stop::usage(format!("{file}, {why}")))?;
    if before.is_empty() {
        return Err(Stop::usage(format!("{file} has no job types; was it written to its end?")));
    }
    let changes = compare(&before, now);
    context.output.rows(&["JOB", "CHANGE", "BREAKS", "WHAT"], &changes, |change| {
        let breaks = if change.breaks { "yes" } else { "-" };
        vec![change.job.clone(), change.change.into(), breaks.into(), change.what.clone()]
    })?;
    match changes.iter().filter(|change| change.breaks).count() {
        0 => Ok(()),
        breaking => Err(Stop::failed(format!(
            "{breaking} of {} changes would break jobs that wait",
            changes.len()
        ))),
    }
}

/// The job types in what `hworker --json schema ls` prints.
fn parse(text: &str) -> Result<Vec<JobType>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let job = |(at, line)| {
        let wrong = |error| {
            format!("line {}: no job type as `hworker --json schema ls` prints it: {error}", at + 1)
        };
        serde_json::from_str(line).map_err(wrong)
    };
    lines.map(job).collect()
}

fn compare(before: &[JobType], now: &[JobType]) -> Vec<Row> {
    let mut changes = Vec::new();
    for old in before {
        match now.iter().find(|job| job.is_called(&old.name)) {
            Some(new) => {
                let found = differences(old, new, now);
                changes.extend(found.into_iter().map(|(breaks, what)| Row {
                    job: old.name.clone(),
                    change: "changed",
                    breaks,
                    what,
                }));
            }
            None => changes.push(Row {
                job: old.name.clone(),
                change: "gone",
                breaks: true,
                what: "no job type has this name or alias".to_owned(),
            }),
        }
    }
    let is_new = |job: &&JobType| !before.iter().any(|old| job.is_called(&old.name));
    changes.extend(now.iter().filter(is_new).map(|job| Row {
        job: job.name.clone(),
        change: "new",
        breaks: false,
        what: format!("on the queue {}", job.queue),
    }));
    changes
}

/// What differs, and whether it breaks jobs that wait.
fn differences(old: &JobType, new: &JobType, now: &[JobType]) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    if old.name != new.name {
        found.push((false, format!("called {}", new.name)));
    }
    let gone = old.aliases.iter().filter(|alias| !now.iter().any(|job| job.is_called(alias)));
    found.extend(gone.map(|alias| (true, format!("alias {alias} is gone"))));
    if old.queue != new.queue {
        let mut what = format!("queue {}, was {}", new.queue, old.queue);
        let is_left = now.iter().all(|job| job.queue != old.queue);
        if is_left {
            what.push_str(", which no job type names any more");
        }
        found.push((is_left, what));
    }
    let hidden = |job: &JobType| match job.redact.join(", ") {
        none if none.is_empty() => "none".to_owned(),
        names => names,
    };
    for (name, old, new) in [
        ("timeout", span(old.timeout_ms), span(new.timeout_ms)),
        ("attempts", old.max_attempts.to_string(), new.max_attempts.to_string()),
        ("encrypted", old.encrypted.to_string(), new.encrypted.to_string()),
        ("blocking", old.blocking.to_string(), new.blocking.to_string()),
        ("hidden arguments", hidden(old), hidden(new)),
    ] {
        if old != new {
            found.push((false, format!("{name} {new}, was {old}")));
        }
    }
    let [old, new] = [old, new].map(|job| serde_json::from_str(&job.schema).unwrap_or_default());
    let mut schemas =
        Schemas { old: &old, new: &new, seen: BTreeSet::new(), left: COMPARED, found };
    schemas.value(&old, &new, "", 0);
    schemas.found
}

/// The schemas of the arguments of one job type.
#[derive(Clone)]
struct Schemas<'a> {
    old: &'a Value,
    new: &'a Value,
    /// Definitions that are compared already: types may name themselves.
    seen: BTreeSet<(&'a str, &'a str)>,
    left: usize,
    found: Vec<(bool, String)>,
}

impl<'a> Schemas<'a> {
    /// Compares what may stand at a path of the arguments.
    fn value(&mut self, old: &'a Value, new: &'a Value, path: &str, depth: usize) {
        let ((old, old_name), (new, new_name)) = (resolve(self.old, old), resolve(self.new, new));
        if let (Some(old_name), Some(new_name)) = (old_name, new_name)
            && !self.seen.insert((old_name, new_name))
        {
            return;
        }
        if depth > DEPTH || self.left == 0 {
            self.breaks(path, "is too deep or too large to be compared");
            return;
        }
        self.left -= 1;
        if alternatives(old).is_some() || alternatives(new).is_some() {
            return self.forms(old, new, path, depth);
        }
        if let (Some(was), Some(is)) = (types(old), types(new)) {
            let takes =
                |one: &&str| is.contains(one) || (*one == "integer" && is.contains(&"number"));
            let what = format!("is {}, was {}", is.join(" or "), was.join(" or "));
            if !was.iter().all(takes) {
                return self.breaks(path, &what);
            }
            if was != is {
                self.tell(path, &what);
            }
        }
        if let (Some(was), Some(is)) = (old["format"].as_str(), new["format"].as_str())
            && was != is
        {
            self.differs(!widens(was, is), path, &format!("is {is}, was {was}"));
        }
        self.constants(old, new, path);
        self.fields(old, new, path, depth);
        for part in ["items", "additionalProperties"] {
            if old[part].is_object() && new[part].is_object() {
                self.value(&old[part], &new[part], &joined(path, "*"), depth + 1);
            }
        }
        if let (Some(was), Some(is)) =
            (old["prefixItems"].as_array(), new["prefixItems"].as_array())
        {
            if was.len() != is.len() {
                self.breaks(path, &format!("has {} elements, had {}", is.len(), was.len()));
            }
            for (at, (was, is)) in was.iter().zip(is).enumerate() {
                self.value(was, is, &joined(path, &at.to_string()), depth + 1);
            }
        }
    }

    /// Compares forms of which a value has one: each that it had must fit one that it may have.
    fn forms(&mut self, old: &'a Value, new: &'a Value, path: &str, depth: usize) {
        let (was, is) = (forms(old), forms(new));
        for form in was {
            let fits = is.iter().any(|other| {
                let mut trial = Self { found: Vec::new(), ..self.clone() };
                trial.value(form, other, path, depth + 1);
                self.left = trial.left;
                trial.found.iter().all(|(breaks, _)| !breaks)
            });
            if !fits {
                return self.breaks(path, "no longer takes every form that it took");
            }
        }
        if is.len() > was.len() {
            self.tell(path, "takes more forms than it took");
        }
    }

    /// Compares the values of enums.
    fn constants(&mut self, old: &'a Value, new: &'a Value, path: &str) {
        let (Some(was), Some(is)) = (constants(old), constants(new)) else { return };
        for gone in was.iter().filter(|value| !is.contains(value)) {
            self.breaks(path, &format!("no longer takes {gone}"));
        }
        for more in is.iter().filter(|value| !was.contains(value)) {
            self.tell(path, &format!("also takes {more}"));
        }
    }

    /// Compares the fields of an object; at the top they are the arguments.
    fn fields(&mut self, old: &'a Value, new: &'a Value, path: &str, depth: usize) {
        let (Some(was), Some(is)) = (old["properties"].as_object(), new["properties"].as_object())
        else {
            return;
        };
        let needs = |schema: &Value, name: &str| {
            schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name))
        };
        for (name, field) in was {
            let path = &joined(path, name);
            match is.get(name) {
                Some(other) => {
                    match (needs(old, name), needs(new, name)) {
                        (false, true) => self.breaks(path, "must be there now"),
                        (true, false) => self.tell(path, "may be left out now"),
                        _ => {}
                    }
                    self.value(field, other, path, depth + 1);
                }
                None if new["additionalProperties"] == false => {
                    self.breaks(path, "is not allowed any more");
                }
                None => self.tell(path, "is gone"),
            }
        }
        for name in is.keys().filter(|name| !was.contains_key(*name)) {
            let must = needs(new, name);
            let what = if must { "is new and must be there" } else { "is new" };
            self.differs(must, &joined(path, name), what);
        }
    }

    fn breaks(&mut self, path: &str, what: &str) {
        self.differs(true, path, what);
    }

    fn tell(&mut self, path: &str, what: &str) {
        self.differs(false, path, what);
    }

    fn differs(&mut self, breaks: bool, path: &str, what: &str) {
        let whose =
            if path.is_empty() { "the arguments".to_owned() } else { format!("argument {path}") };
        self.found.push((breaks, format!("{whose} {what}")));
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// What a reference names, and its name.
fn resolve<'a>(whole: &'a Value, schema: &'a Value) -> (&'a Value, Option<&'a str>) {
    let Some(name) = schema["$ref"].as_str() else { return (schema, None) };
    let named = name.strip_prefix('#').and_then(|pointer| whole.pointer(pointer));
    (named.unwrap_or(&Value::Null), Some(name))
}

fn alternatives(schema: &Value) -> Option<&[Value]> {
    schema["oneOf"].as_array().or(schema["anyOf"].as_array()).map(Vec::as_slice)
}

/// The forms of which a value has one; most have none but their own.
fn forms(schema: &Value) -> &[Value] {
    alternatives(schema).unwrap_or(std::slice::from_ref(schema))
}

fn types(schema: &Value) -> Option<Vec<&str>> {
    match &schema["type"] {
        Value::String(one) => Some(vec![one]),
        Value::Array(several) => Some(several.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

fn constants(schema: &Value) -> Option<Vec<&Value>> {
    match (&schema["const"], &schema["enum"]) {
        (Value::Null, Value::Array(several)) => Some(several.iter().collect()),
        (Value::Null, _) => None,
        (one, _) => Some(vec![one]),
    }
}

/// Whether an integer of the first format fits the second: `uint8` fits `int16`.
fn widens(was: &str, is: &str) -> bool {
    let width = |format: &str| {
        let signed = !format.starts_with('u');
        let bits = format.trim_start_matches('u').strip_prefix("int")?;
        // Without a number it has the width of the machine.
        let bits: u32 = if bits.is_empty() { 64 } else { bits.parse().ok()? };
        Some((signed, bits))
    };
    match (width(was), width(is)) {
        (Some((true, _)), Some((false, _))) => false,
        (Some((false, was)), Some((true, is))) => was < is,
        (Some((_, was)), Some((_, is))) => was <= is,
        // Floats are written alike.
        _ => [was, is].iter().all(|format| ["float", "double"].contains(format)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(schema: &Value) -> JobType {
        let job = json!({
            "name": "send", "queue": "mail", "timeout_ms": 1000, "max_attempts": 3, "schema": schema.to_string(),
            "fingerprint": "", "seen": 1,
        });
        serde_json::from_value(job).expect("a job type")
    }

    /// What has changed of a schema, those changes that break jobs with a mark in front.
    fn changes(before: &Value, now: &Value) -> Vec<String> {
        let changes = compare(&[job(before)], &[job(now)]);
        let told = |row: &Row| format!("{}{}", if row.breaks { "! " } else { "" }, row.what);
        changes.iter().map(told).collect()
    }

    fn arguments(properties: &Value, required: &Value) -> Value {
        json!({ "type": "object", "properties": properties, "required": required })
    }

    #[test]
    fn arguments_come_go_and_are_needed() {
        let types = json!({ "a": { "type": "string" }, "b": {}, "c": {} });
        let before = arguments(&types, &json!(["a", "b"]));
        let now = arguments(&json!({ "b": {}, "c": {}, "d": {}, "e": {} }), &json!(["c", "e"]));
        let expected = [
            "argument a is gone",
            "argument b may be left out now",
            "! argument c must be there now",
            "argument d is new",
            "! argument e is new and must be there",
        ];
        assert_eq!(changes(&before, &now), expected);
        assert!(changes(&before, &before).is_empty());
        let mut strict = now.clone();
        strict["additionalProperties"] = json!(false);
        assert_eq!(changes(&before, &strict)[0], "! argument a is not allowed any more");
    }

    #[test]
    fn a_type_that_takes_what_it_took_breaks_nothing() {
        let format = |format: &str| json!({ "type": "integer", "format": format });
        let text = json!({ "type": "string" });
        let text_or_null = json!({ "type": ["string", "null"] });
        let values = |values: Value| json!({ "type": "string", "enum": values });
        let tuple = |elements: Value| json!({ "type": "array", "prefixItems": elements });
        let list = |of: &Value| json!({ "type": "array", "items": of });
        let one = |name: &str, ty: &str| json!({ "type": "object", "properties": { name: { "type": ty } }, "required": [name] });
        let number = json!({ "type": "number" });
        for (before, now, expected) in [
            (&text, &text_or_null, "argument x is string or null, was string"),
            (&text_or_null, &text, "! argument x is string, was string or null"),
            (&format("uint8"), &format("int16"), "argument x is int16, was uint8"),
            (&format("uint64"), &format("uint32"), "! argument x is uint32, was uint64"),
            (&format("uint"), &format("int64"), "! argument x is int64, was uint"),
            (&json!({ "type": "integer" }), &number, "argument x is number, was integer"),
            (&number, &format("int8"), "! argument x is integer, was number"),
            (&json!({}), &text, ""),
            (&text, &json!({}), ""),
            (&json!({ "type": "integer" }), &format("uint8"), ""),
            (&values(json!(["a"])), &values(json!(["a", "b"])), "argument x also takes \"b\""),
            (
                &values(json!(["a", "b"])),
                &values(json!(["a"])),
                "! argument x no longer takes \"b\"",
            ),
            (
                &tuple(json!([text])),
                &tuple(json!([text, text])),
                "! argument x has 2 elements, had 1",
            ),
            (&list(&text), &list(&number), "! argument x.* is number, was string"),
            (&one("a", "string"), &one("a", "boolean"), "! argument x.a is boolean, was string"),
            (
                &text,
                &json!({ "anyOf": [text, { "type": "null" }] }),
                "argument x takes more forms than it took",
            ),
            (
                &json!({ "oneOf": [one("a", "string"), one("b", "string")] }),
                &json!({ "oneOf": [one("c", "null"), one("b", "string")] }),
                "! argument x no longer takes every form that it took",
            ),
        ] {
            let whole = |schema: &Value| arguments(&json!({ "x": schema }), &json!([]));
            let found = changes(&whole(before), &whole(now)).join("; ");
            assert_eq!(found, expected, "{before} {now}");
        }
    }

    #[test]
    fn definitions_are_followed_wherever_they_lead() {
        let whole = |name: &str, kind: &str| {
            let reference = json!({ "$ref": format!("#/$defs/{name}") });
            let mut whole = arguments(&json!({ "tree": reference }), &json!([]));
            whole["$defs"][name] = json!({
                "type": "object",
                "properties": { "left": reference, "right": { "anyOf": [reference, { "type": "null" }] }, "x": { "type": kind } },
            });
            whole
        };
        assert!(changes(&whole("Tree", "string"), &whole("Node", "string")).is_empty());
        let expected = ["! argument tree.x is boolean, was string"];
        assert_eq!(changes(&whole("Tree", "string"), &whole("Tree", "boolean")), expected);
        // What somebody wrote to keep a tool busy: each form leads to all of the next definition, in circles of different lengths.
        let hostile = |length: usize| {
            let mut whole = arguments(&json!({ "x": { "$ref": "#/$defs/0" } }), &json!([]));
            for at in 0..length {
                let next = json!({ "$ref": format!("#/$defs/{}", (at + 1) % length) });
                let form = json!({ "type": "array", "items": next });
                whole["$defs"][at.to_string()] = json!({ "anyOf": [form, form, form] });
            }
            whole
        };
        let found = changes(&hostile(101), &hostile(103));
        assert_eq!(found, ["! argument x no longer takes every form that it took"]);
    }
}
