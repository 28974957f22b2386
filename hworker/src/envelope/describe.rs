//! What may be said of a payload that was refused: nothing that stands in it.

/// The text of a decoding error without the values that serde quotes in it: arguments stay out of logs and records.
pub(crate) fn describe(error: &serde_json::Error) -> String {
    let position = format!("line {} column {}", error.line(), error.column());
    match error.classify() {
        serde_json::error::Category::Syntax | serde_json::error::Category::Eof => error.to_string(),
        _ => {
            let text = error.to_string();
            // serde says "invalid type: string \"secret\", expected u64": what comes before the value and after it.
            let value = [
                ": string ",
                ": integer ",
                ": floating point ",
                ": character ",
                ": boolean ",
                ": Option value ",
            ];
            let redacted = value.iter().find_map(|kind| {
                let (before, rest) = text.split_once(kind)?;
                let (_, expected) = rest.rsplit_once(", expected ")?;
                let expected = expected.split(" at line ").next().unwrap_or(expected);
                Some(format!("{before}{}, expected {expected} at {position}", kind.trim_end()))
            });
            // These quote nothing but names of fields and types. What a type says in words of its own may quote anything.
            let plain = [
                "invalid type: ",
                "invalid value: ",
                "invalid length ",
                "missing field ",
                "duplicate field ",
                "unknown field ",
            ];
            match redacted {
                Some(redacted) => redacted,
                None if text.starts_with("unknown variant") => {
                    format!("unknown variant at {position}")
                }
                None if plain.iter().any(|start| text.starts_with(start)) => {
                    text.escape_debug().to_string()
                }
                None => format!("its type refuses the value at {position}"),
            }
        }
    }
}

/// Cuts a text that goes into a record to at most `bytes`, at a character.
pub(crate) fn bounded(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.into();
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{} [cut]", &text[..end])
}
