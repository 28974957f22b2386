//! What has changed of job types between two builds, and what of it would break jobs that wait.
//!
//! Arguments are compared by their names, their Rust types as they are written, and their schemas as far as these say what a worker can
//! decode: types, widths of integers, values of enums, fields and which of them must be there. What a schema says beyond that, such as the
//! length of a text, and what one side leaves open, is no change.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::{JobType, Parameter, rust_types};

/// Schemas are whatever somebody wrote into the server: nothing deeper is compared, and no more than this much of one.
const DEPTH: usize = 64;
const COMPARED: usize = 100_000;

/// A change of a job type between two builds; [`JobType::changes`] finds them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TypeChange {
    /// The name of the job type before the change.
    pub job: String,
    /// `new`, `gone` or `changed`.
    pub change: &'static str,
    /// Whether it breaks jobs that wait.
    pub breaks: bool,
    /// What is different.
    pub what: String,
    /// What to write, so that it breaks none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

impl JobType {
    /// What has changed of job types, and what of it would break jobs that wait.
    #[must_use]
    pub fn changes(before: &[Self], now: &[Self]) -> Vec<TypeChange> {
        let mut changes = Vec::new();
        for old in before {
            let job = || old.name.clone();
            match now.iter().find(|job| job.is_called(&old.name)) {
                Some(new) => changes.extend(differences(old, new, now).into_iter().map(|found| {
                    let mend = found.mend.map(|mend| mend.text(old, new));
                    let (change, breaks) = ("changed", mend.is_some());
                    TypeChange { job: job(), change, breaks, what: found.what, mend }
                })),
                None => changes.push(TypeChange {
                    job: job(),
                    change: "gone",
                    breaks: true,
                    what: "no job type has this name or alias".to_owned(),
                    mend: Some(format!(
                        "`aliases = [\"{}\"]` on the job that is to run them",
                        old.name
                    )),
                }),
            }
        }
        let is_new = |job: &&Self| !before.iter().any(|old| job.is_called(&old.name));
        changes.extend(now.iter().filter(is_new).map(|job| TypeChange {
            job: job.name.clone(),
            change: "new",
            breaks: false,
            what: format!("on the queue {}", job.queue),
            mend: None,
        }));
        changes
    }
}

/// What differs.
#[derive(Debug, Clone)]
struct Found {
    what: String,
    /// Where it breaks jobs that wait.
    mend: Option<Mend>,
}

/// What to write, so that a change breaks no job that waits.
#[derive(Debug, Clone)]
enum Mend {
    /// An argument need not be there.
    Optional,
    /// Arguments of the old form become such of the new one.
    Upgrade,
    Text(String),
}

impl Mend {
    fn text(self, old: &JobType, new: &JobType) -> String {
        let upgrade = if new.version > old.version {
            format!(
                "`upgrade = ..`, without which arguments of version {} are read as they are",
                old.version
            )
        } else {
            format!("`version = {}, upgrade = ..`", old.version.saturating_add(1))
        };
        match self {
            Self::Optional => format!("`Option<..>` or `#[serde(default)]`; or {upgrade}"),
            Self::Upgrade => format!("a type that reads what the old one wrote; or {upgrade}"),
            Self::Text(text) => text,
        }
    }
}

fn differences(old: &JobType, new: &JobType, now: &[JobType]) -> Vec<Found> {
    let mut found = Vec::new();
    let mut tell = |what: String| found.push(Found { what, mend: None });
    if old.name != new.name {
        tell(format!("called {}", new.name));
    }
    if old.version < new.version {
        tell(format!("version {}, was {}", new.version, old.version));
    }
    let hidden = |job: &JobType| match job.redact.join(", ") {
        none if none.is_empty() => "none".to_owned(),
        names => names,
    };
    let time = |job: &JobType| format!("{:?}", Duration::from_millis(job.timeout_ms));
    for (name, old, new) in [
        ("timeout", time(old), time(new)),
        ("attempts", old.max_attempts.to_string(), new.max_attempts.to_string()),
        ("encrypted", old.encrypted.to_string(), new.encrypted.to_string()),
        ("blocking", old.blocking.to_string(), new.blocking.to_string()),
        ("isolated", old.isolated.to_string(), new.isolated.to_string()),
        ("hidden arguments", hidden(old), hidden(new)),
    ] {
        if old != new {
            tell(format!("{name} {new}, was {old}"));
        }
    }
    let mut breaks =
        |what: String, mend: String| found.push(Found { what, mend: Some(Mend::Text(mend)) });
    if old.version > new.version {
        let what = format!("version {}, was {}", new.version, old.version);
        breaks(what, format!("`version = {}`, as jobs of that version may wait", old.version));
    }
    for alias in old.aliases.iter().filter(|alias| !now.iter().any(|job| job.is_called(alias))) {
        breaks(format!("alias {alias} is gone"), format!("`aliases = [\"{alias}\"]`"));
    }
    if old.queue != new.queue {
        let what = format!("queue {}, was {}", new.queue, old.queue);
        if now.iter().all(|job| job.queue != old.queue) {
            let what = format!("{what}, which no job type names any more");
            breaks(
                what,
                format!("`+{}` in `HWORKER_QUEUES` of workers, until it is empty", old.queue),
            );
        } else {
            found.push(Found { what, mend: None });
        }
    }
    let mut arguments = arguments(old, new);
    if new.version > old.version && new.upgrades {
        for found in &mut arguments {
            found.mend = None;
        }
    }
    found.extend(arguments);
    found
}

/// What differs of the arguments.
fn arguments(old: &JobType, new: &JobType) -> Vec<Found> {
    let [old_schema, new_schema] =
        [old, new].map(|job| serde_json::from_str(&job.schema).unwrap_or_default());
    let mut schemas = Schemas::of(&old_schema, &new_schema);
    if !(names_all(old, &old_schema) && names_all(new, &new_schema)) {
        schemas.value(&old_schema, &new_schema, "", 0);
        return schemas.found;
    }
    for was in &old.parameters {
        match new.parameters.iter().find(|is| is.is_called(&was.name)) {
            Some(is) => schemas.parameter(was, is),
            None if was.optional => schemas.tell(&was.name, "is gone"),
            None => schemas.tell(&was.name, "is gone, and workers of the release before need it"),
        }
    }
    for is in &new.parameters {
        if !old.parameters.iter().any(|was| is.is_called(&was.name)) {
            schemas.new_field(&is.name, !is.optional);
        }
    }
    // Those of arguments that are flattened.
    let rests = [unnamed(&old_schema, old), unnamed(&new_schema, new)];
    let mut others = Schemas {
        found: Vec::new(),
        old: &old_schema,
        new: &new_schema,
        ..Schemas::of(&rests[0], &rests[1])
    };
    others.fields(&rests[0], &rests[1], "", 0);
    schemas.found.extend(others.found);
    schemas.found
}

/// Whether all arguments are among its parameters, but for those that are flattened: else an older build wrote it, or who made it up.
fn names_all(job: &JobType, schema: &Value) -> bool {
    !job.parameters.is_empty()
        || schema["properties"].as_object().is_none_or(serde_json::Map::is_empty)
}

/// The schema without the arguments that are parameters.
fn unnamed(schema: &Value, job: &JobType) -> Value {
    let mut rest = schema.clone();
    let is_named = |name: &str| job.parameters.iter().any(|parameter| parameter.name == name);
    if let Some(properties) = rest.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|name, _| !is_named(name));
    }
    if let Some(required) = rest.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !name.as_str().is_some_and(is_named));
    }
    rest
}

/// The schemas of the arguments of one job type.
#[derive(Clone)]
struct Schemas<'a> {
    old: &'a Value,
    new: &'a Value,
    /// Definitions that are compared already: types may name themselves.
    seen: BTreeSet<(&'a str, &'a str)>,
    left: usize,
    found: Vec<Found>,
}

impl<'a> Schemas<'a> {
    fn of(old: &'a Value, new: &'a Value) -> Self {
        Self { old, new, seen: BTreeSet::new(), left: COMPARED, found: Vec::new() }
    }

    /// Compares an argument that is there before and now.
    fn parameter(&mut self, was: &'a Parameter, is: &'a Parameter) {
        let name = &was.name;
        if *name != is.name {
            self.tell(name, &format!("is called {}", is.name));
        }
        for alias in was.aliases.iter().filter(|alias| !is.is_called(alias)) {
            let what = format!("is not read as {alias} any more");
            self.found(Some(Mend::Text(format!("`#[serde(alias = \"{alias}\")]`"))), name, &what);
        }
        match (was.optional, is.optional) {
            (true, false) => self.needs(name, "must be there now"),
            (false, true) => self.tell(name, "may be left out now"),
            _ => {}
        }
        let what = format!("is {}, was {}", is.ty, was.ty);
        if !rust_types::fits(&was.ty, &is.ty) {
            return self.breaks(name, &what);
        }
        if was.ty != is.ty && was.optional == is.optional && !was.ty.is_empty() && !is.ty.is_empty()
        {
            self.tell(name, &what);
        }
        let (old, new) = (&self.old["properties"][name], &self.new["properties"][&is.name]);
        let before = self.found.len();
        self.value(old, new, name, 1);
        if was.ty != is.ty {
            // That it takes more is said by its types.
            let breaking =
                self.found.split_off(before).into_iter().filter(|found| found.mend.is_some());
            self.found.extend(breaking);
        }
    }

    /// An argument or field that was not there.
    fn new_field(&mut self, path: &str, is_required: bool) {
        if is_required {
            self.needs(path, "is new and must be there");
        } else {
            self.tell(path, "is new");
        }
    }

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
            let mend = (!widens(was, is)).then_some(Mend::Upgrade);
            self.found(mend, path, &format!("is {is}, was {was}"));
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
                trial.found.iter().all(|found| found.mend.is_none())
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
                        (false, true) => self.needs(path, "must be there now"),
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
            self.new_field(&joined(path, name), needs(new, name));
        }
    }

    fn breaks(&mut self, path: &str, what: &str) {
        self.found(Some(Mend::Upgrade), path, what);
    }

    fn needs(&mut self, path: &str, what: &str) {
        self.found(Some(Mend::Optional), path, what);
    }

    fn tell(&mut self, path: &str, what: &str) {
        self.found(None, path, what);
    }

    fn found(&mut self, mend: Option<Mend>, path: &str, what: &str) {
        let whose =
            if path.is_empty() { "the arguments".to_owned() } else { format!("argument {path}") };
        self.found.push(Found { what: format!("{whose} {what}"), mend });
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
        let bits = format.trim_start_matches('u').strip_prefix("int")?;
        // Without a number it has the width of the machine.
        let bits: u32 = if bits.is_empty() { 64 } else { bits.parse().ok()? };
        Some((!format.starts_with('u'), bits))
    };
    match (width(was), width(is)) {
        (Some(was), Some(is)) => rust_types::holds(was, is),
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
            "seen": 1,
        });
        serde_json::from_value(job).expect("a job type")
    }

    /// What has changed of a schema, those changes that break jobs with a mark in front.
    fn changes(before: &Value, now: &Value) -> Vec<String> {
        let changes = JobType::changes(&[job(before)], &[job(now)]);
        let told = |row: &TypeChange| format!("{}{}", if row.breaks { "! " } else { "" }, row.what);
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

    /// A job type with these parameters, each `name: type`, `name?: type` or `name|alias: type`.
    fn of(version: u32, upgrades: bool, parameters: &str) -> JobType {
        let parameter = |text: &str| {
            let (name, ty) = text.split_once(": ").expect("a type");
            let mut names = name.trim_end_matches('?').split('|');
            let (optional, name) = (name.ends_with('?'), names.next());
            json!({ "name": name, "type": ty, "optional": optional, "aliases": names.collect::<Vec<_>>() })
        };
        let parameters: Vec<_> =
            parameters.split("; ").filter(|text| !text.is_empty()).map(parameter).collect();
        let job = json!({ "name": "send", "version": version, "upgrades": upgrades, "parameters": parameters });
        serde_json::from_value(job).expect("a job type")
    }

    /// What has changed, and behind an arrow what to write.
    fn found(before: JobType, now: JobType) -> Vec<String> {
        let told = |TypeChange { what, mend, .. }| match mend {
            Some(mend) => format!("{what} -> {mend}"),
            None => what,
        };
        JobType::changes(&[before], &[now]).into_iter().map(told).collect()
    }

    #[test]
    fn what_parameters_say_is_compared_where_no_schema_says_it() {
        const UPGRADE: &str = "`version = 2, upgrade = ..`";
        let optional = format!("`Option<..>` or `#[serde(default)]`; or {UPGRADE}");
        let other = format!("a type that reads what the old one wrote; or {UPGRADE}");
        for (before, now, expected) in [
            ("", "", vec![]),
            ("a: u8", "a: u8", vec![]),
            ("", "a: u8", vec![format!("argument a is new and must be there -> {optional}")]),
            ("", "a?: Option<u8>", vec!["argument a is new".into()]),
            ("a?: u8", "", vec!["argument a is gone".into()]),
            (
                "a: u8",
                "",
                vec!["argument a is gone, and workers of the release before need it".into()],
            ),
            ("a: u8", "a: String", vec![format!("argument a is String, was u8 -> {other}")]),
            ("a: u16", "a: u8", vec![format!("argument a is u8, was u16 -> {other}")]),
            ("a: u8", "a: u16", vec!["argument a is u16, was u8".into()]),
            ("a: u8", "a?: Option<u8>", vec!["argument a may be left out now".into()]),
            (
                "a?: Option<u8>",
                "a: u8",
                vec![
                    format!("argument a must be there now -> {optional}"),
                    format!("argument a is u8, was Option<u8> -> {other}"),
                ],
            ),
            ("user: u8", "user_id|user: u8", vec!["argument user is called user_id".into()]),
            (
                "user_id|user: u8",
                "user_id: u8",
                vec![
                    "argument user_id is not read as user any more -> `#[serde(alias = \"user\")]`"
                        .into(),
                ],
            ),
        ] {
            assert_eq!(found(of(1, false, before), of(1, false, now)), expected, "{before} {now}");
        }
    }

    #[test]
    fn a_higher_version_with_an_upgrade_may_change_all_of_them() {
        let of = |version, upgrades, parameter| of(version, upgrades, parameter);
        let upgraded = found(of(1, false, "a: u8"), of(2, true, "b: String"));
        let expected = [
            "version 2, was 1",
            "argument a is gone, and workers of the release before need it",
            "argument b is new and must be there",
        ];
        assert_eq!(upgraded, expected);
        // What was of the version before is not of this one.
        let without = found(of(2, true, "a: u8"), of(3, false, "a: String"));
        let mend = "a type that reads what the old one wrote; or `upgrade = ..`, without which arguments of version 2 are read as they are";
        assert_eq!(
            without,
            ["version 3, was 2".to_owned(), format!("argument a is String, was u8 -> {mend}")]
        );
        let same = found(of(2, true, "a: u8"), of(2, true, "a: String"));
        assert!(same[0].ends_with("`version = 3, upgrade = ..`"), "{same:?}");
        let lower = found(of(2, true, "a: u8"), of(1, false, "a: u8"));
        assert_eq!(lower, ["version 1, was 2 -> `version = 2`, as jobs of that version may wait"]);
    }

    #[test]
    fn what_is_inside_of_an_argument_is_compared_by_its_schema() {
        let with = |kind: &str, ty: &str, more: &Value| {
            let mut properties =
                json!({ "order": { "type": "object", "properties": { "id": { "type": kind } } } });
            properties["flat"] = more.clone();
            JobType {
                schema: arguments(&properties, &json!(["order"])).to_string(),
                ..of(1, false, &format!("order: {ty}"))
            }
        };
        let (text, number) = (json!({ "type": "string" }), json!({ "type": "number" }));
        let what = |before, now| {
            let changes = JobType::changes(&[before], &[now]);
            changes.into_iter().map(|change| change.what).collect::<Vec<_>>()
        };
        let before = || with("string", "Order", &text);
        assert_eq!(
            what(before(), with("integer", "Order", &text)),
            ["argument order.id is integer, was string"]
        );
        assert_eq!(
            what(before(), with("string", "Order", &number)),
            ["argument flat is number, was string"]
        );
        assert_eq!(
            what(before(), with("string", "Other", &text)),
            ["argument order is Other, was Order"]
        );
        // What one side leaves open is no change.
        assert_eq!(what(before(), of(1, false, "order: Order")), Vec::<String>::new());
        let hostile = JobType { schema: "[{}]".into(), ..of(1, false, "order: Order") };
        assert_eq!(what(before(), hostile), Vec::<String>::new());
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
