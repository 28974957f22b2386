//! The arguments of a job as its key.

use serde::Serialize;
use serde_json::Value;

/// What arguments have in common that are equal, whatever the order in which their maps are written: 128 bits of a hash, as hex digits.
#[must_use]
pub fn of_arguments(arguments: &impl Serialize) -> Option<String> {
    // What cannot be written is refused where the job is enqueued.
    let value = serde_json::to_value(arguments).ok()?;
    let mut text = String::new();
    write(&value, &mut text);
    Some(uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, text.as_bytes()).simple().to_string())
}

/// As JSON, with the members of each object in the order of their names: another crate may have `serde_json` keep the order in which they
/// came.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in members {
                text.push_str(&Value::String(name.clone()).to_string());
                text.push(':');
                write(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for value in values {
                write(value, text);
                text.push(',');
            }
            text.push(']');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_arguments_have_one_key_whatever_their_order() {
        let one = of_arguments(&json!({"a": [1, {"x": 1, "y": "ü"}], "b": null}));
        assert_eq!(one, of_arguments(&json!({"b": null, "a": [1, {"y": "ü", "x": 1}]})));
        assert_eq!(one.as_ref().map(String::len), Some(32));
        let others = [json!({"a": [1, 2]}), json!({"a": [[1], 2]}), json!({"a": "[1,2]"})];
        for (i, other) in others.iter().enumerate() {
            for another in &others[i + 1..] {
                assert_ne!(of_arguments(other), of_arguments(another));
            }
        }
    }
}
