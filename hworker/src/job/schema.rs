//! The JSON Schema of the arguments of a job type: what the names of their types say, and with the feature `schema` what the types say of
//! themselves.

#[cfg(feature = "schema")]
use deep::Deep;
#[cfg(feature = "schema")]
pub use deep::{IsDeep, IsShallow, Tag};

/// The schema of the arguments of a job type.
#[derive(Debug)]
pub struct Schema {
    shallow: &'static str,
    #[cfg(feature = "schema")]
    deepen: fn(&mut Deep),
}

impl Schema {
    /// Without what the types say of themselves.
    #[cfg(not(feature = "schema"))]
    #[must_use]
    pub const fn new(shallow: &'static str) -> Self {
        Self { shallow }
    }

    /// With a function that adds what the types say of themselves.
    #[cfg(feature = "schema")]
    #[must_use]
    pub const fn new(shallow: &'static str, deepen: fn(&mut Deep)) -> Self {
        Self { shallow, deepen }
    }

    /// As far as the names of the types say it.
    pub(crate) fn shallow(&self) -> &'static str {
        self.shallow
    }

    /// With what the types say of themselves; `None` where none of them says anything.
    #[cfg(not(feature = "schema"))]
    #[allow(clippy::unused_self)] // as with the feature
    pub(crate) fn deep(&self) -> Option<String> {
        None
    }

    /// With what the types say of themselves; `None` where none of them says anything.
    #[cfg(feature = "schema")]
    pub(crate) fn deep(&self) -> Option<String> {
        let mut deep = Deep::new(self.shallow)?;
        let mut whole = None;
        // An implementation of the user's may panic.
        crate::guarded::guarded(|| {
            (self.deepen)(&mut deep);
            whole = deep.finish();
        });
        whole
    }
}

#[cfg(feature = "schema")]
mod deep {
    use std::marker::PhantomData;

    use schemars::generate::{SchemaGenerator, SchemaSettings};
    use schemars::{JsonSchema, Schema};
    use serde_json::{Map, Value};

    /// A schema to which types add what they say of themselves. One generator serves all arguments, so two types of one name get two names
    /// among the definitions.
    #[derive(Debug)]
    pub struct Deep {
        whole: Map<String, Value>,
        generator: SchemaGenerator,
        is_deeper: bool,
    }

    impl Deep {
        pub(super) fn new(shallow: &str) -> Option<Self> {
            let whole = serde_json::from_str(shallow).ok()?;
            let generator = SchemaSettings::draft2020_12().into_generator();
            Some(Self { whole, generator, is_deeper: false })
        }

        pub(super) fn finish(&mut self) -> Option<String> {
            let definitions = self.generator.take_definitions(true);
            if !definitions.is_empty() {
                self.whole.insert("$defs".into(), definitions.into());
            }
            serde_json::to_string(&self.whole).ok().filter(|_| self.is_deeper)
        }

        fn properties(&mut self) -> Option<&mut Map<String, Value>> {
            self.is_deeper = true;
            self.whole.entry("properties").or_insert_with(|| Map::new().into()).as_object_mut()
        }

        fn argument<T: JsonSchema>(&mut self, name: &str) {
            let schema = self.generator.subschema_for::<T>();
            if let Some(properties) = self.properties() {
                properties.insert(name.to_owned(), schema.to_value());
            }
        }

        /// The fields of a struct become arguments. What else serde can flatten is left open: a map takes every name that no argument has,
        /// and of an enum serde writes something else there than anywhere else.
        fn flattened<T: JsonSchema>(&mut self) {
            let before = self.generator.definitions().clone();
            let schema = T::json_schema(&mut self.generator);
            let Some((fields, needed)) = fields(schema) else {
                // What it names is of no use.
                *self.generator.definitions_mut() = before;
                return;
            };
            let (mut own, required) = (Map::new(), self.whole.get_mut("required"));
            if let Some(Value::Array(required)) = required {
                required.extend(needed);
            }
            if let Some(properties) = self.properties() {
                // serde gives a name to the argument that has it.
                own.append(properties);
                properties.extend(fields);
                properties.append(&mut own);
            }
        }
    }

    /// The fields of a struct, and which of them must be there.
    fn fields(schema: Schema) -> Option<(Map<String, Value>, Vec<Value>)> {
        const ALTERNATIVES: [&str; 5] = ["$ref", "allOf", "anyOf", "oneOf", "enum"];
        let Value::Object(mut schema) = schema.to_value() else { return None };
        let is_struct = schema.get("type").and_then(Value::as_str) == Some("object")
            && !ALTERNATIVES.iter().any(|keyword| schema.contains_key(*keyword));
        let Some(Value::Object(fields)) = schema.remove("properties") else { return None };
        let needed = match schema.remove("required") {
            Some(Value::Array(needed)) => needed,
            _ => Vec::new(),
        };
        is_struct.then_some((fields, needed))
    }

    /// Carries the type of an argument into method lookup, which tries [`IsDeep`] before [`IsShallow`]: a type without a schema of its own
    /// is no error ("autoref specialisation", as in `outcome.rs`).
    #[derive(Debug)]
    pub struct Tag<T>(PhantomData<fn() -> T>);

    impl<T> Tag<T> {
        /// The tag of the type.
        pub const NEW: Self = Self(PhantomData);
    }

    /// Types that have a schema of their own.
    pub trait IsDeep {
        /// Adds the schema of an argument that is stored under this name.
        fn argument(&self, deep: &mut Deep, name: &str);
        /// Adds the fields of an argument that is flattened.
        fn flattened(&self, deep: &mut Deep);
    }

    impl<T: JsonSchema> IsDeep for Tag<T> {
        fn argument(&self, deep: &mut Deep, name: &str) {
            deep.argument::<T>(name);
        }

        fn flattened(&self, deep: &mut Deep) {
            deep.flattened::<T>();
        }
    }

    /// Types of which no more is known than their name says.
    pub trait IsShallow {
        /// Leaves the argument as it is.
        fn argument(&self, _: &mut Deep, _: &str) {}
        /// Leaves the arguments as they are.
        fn flattened(&self, _: &mut Deep) {}
    }

    impl<T> IsShallow for &Tag<T> {}
}
