//! Whether arguments fit a job type, and which of them are shown: for tools, which have its schema alone.

use serde_json::Value;

use super::JobType;

/// What stands in place of what is not shown.
pub(crate) const HIDDEN: &str = "•••";

impl JobType {
    /// Puts `•••` in the place of the arguments that no tool shows.
    pub fn hide(&self, args: &mut Value) {
        for name in &self.redact {
            if let Some(value) = args.get_mut(name) {
                *value = Value::String(HIDDEN.to_owned());
            }
        }
    }

    /// What is wrong with arguments, each with a JSON pointer to it; nothing where they fit. The texts do not have values in them.
    ///
    /// A schema that cannot be used is no reason to refuse: any program may have written it. Nothing is fetched for it.
    #[must_use]
    pub fn misfits(&self, args: &Value) -> Vec<(String, String)> {
        let Ok(schema) = serde_json::from_str::<Value>(&self.schema) else { return Vec::new() };
        let Ok(validator) = jsonschema::options().offline().build(&schema) else {
            return Vec::new();
        };
        let wrong = validator.iter_errors(args);
        wrong.map(|error| (error.instance_path().to_string(), error.masked().to_string())).collect()
    }
}
