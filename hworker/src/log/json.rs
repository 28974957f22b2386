//! Lines as JSON objects, one each: the fields of an event and of the spans around it, side by side. What collects lines can then look for a
//! job by one field, whether the job or hworker wrote the line.

use std::error::Error;
use std::fmt::{self, Write as _};

use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::escaped::controls;

/// Writes events, each as a line, by this function.
pub(super) struct Json(pub(super) fn(&[u8]));

/// A line. Its own fields come first, in this order; a field of a program that has one of these names is left out.
#[derive(Serialize)]
struct Line<'a> {
    timestamp: &'a str,
    level: &'a str,
    target: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Value>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Json {
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        span.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        if let Some(scope) = context.event_scope(event) {
            // What is further inside wins.
            for span in scope.from_root() {
                if let Some(Fields(outer)) = span.extensions().get::<Fields>() {
                    fields.0.extend(outer.clone());
                }
            }
        }
        event.record(&mut fields);
        let (mut time, about) = (String::new(), event.metadata());
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        self.0(line(&time, about.level().as_str(), about.target(), fields).as_bytes());
    }
}

/// A line with its end.
fn line(timestamp: &str, level: &str, target: &str, Fields(mut fields): Fields) -> String {
    let message = fields.remove("message");
    for own in ["timestamp", "level", "target"] {
        fields.remove(own);
    }
    let json = serde_json::to_string(&Line { timestamp, level, target, message, fields });
    let mut line = String::new();
    // Characters that control a terminal stand in strings alone, and so may be written as JSON writes others.
    for c in json.unwrap_or_default().chars() {
        if controls(c) {
            let _ = write!(line, "\\u{:04x}", u32::from(c));
        } else {
            line.push(c);
        }
    }
    line + "\n"
}

/// The fields of a span or an event.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.add(field, value.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_object_whatever_stands_in_it() {
        let text = "a\nb\r\u{1b}[31m\u{7f}\u{9b}\u{2028}\u{202e} \"größer\"";
        let fields = [("message", text), ("level", "mine"), ("job.id", "1")];
        let fields = fields.map(|(name, value)| (name.to_owned(), Value::from(value)));
        let line = line("now", "INFO", "app", Fields(fields.into_iter().collect()));
        let (inside, end) = line.split_at(line.len() - 1);
        assert!(end == "\n" && !inside.contains(controls), "{line:?}");
        let read: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&read["message"], &read["level"]), (&text.into(), &"INFO".into()));
        assert!(line.starts_with(r#"{"timestamp":"now","level":"INFO","target":"app","message""#));
    }
}
