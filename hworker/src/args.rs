//! Arguments of an older version of a job type, for the function that upgrades them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::envelope::describe;
use crate::error::BoxError;
use crate::strict_json;

/// The arguments of a job as they are stored, an object in JSON: what the function takes and returns that `upgrade` of the attribute names.
/// That function is called for a job whose arguments are of an older version, each time it is to run; the stored ones stay as they are.
///
/// ```
/// use hworker::{Args, BoxError};
///
/// /// Version 2 calls `user` what it is, version 3 counts in cents.
/// fn upgrade(from: u32, mut args: Args) -> Result<Args, BoxError> {
///     if from < 2 {
///         args.rename("user", "user_id");
///     }
///     if from < 3 {
///         let euros: u64 = args.get("euros")?;
///         args.set("cents", euros * 100)?;
///         args.remove("euros");
///     }
///     Ok(args)
/// }
///
/// #[hworker::job(version = 3, upgrade = upgrade)]
/// async fn charge(user_id: u64, cents: u64) {
///     println!("{cents} cents from {user_id}");
/// }
///
/// // A test needs no queue.
/// let old: Args = r#"{"user":7,"euros":3}"#.parse()?;
/// let new = upgrade(1, old)?;
/// assert_eq!((new.get::<u64>("user_id")?, new.get::<u64>("cents")?), (7, 300));
/// # Ok::<(), BoxError>(())
/// ```
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Args(BTreeMap<String, Box<RawValue>>);

impl Args {
    /// The value of an argument. One that is not there is an error, unless the type is an `Option`.
    ///
    /// # Errors
    /// Where there is no such argument, or it is of another type. The text does not have its value in it.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Result<T, BoxError> {
        let json = self.0.get(name).map(|json| json.get());
        let read = serde_json::from_str(json.unwrap_or("null"));
        read.map_err(|error| match json {
            Some(_) => format!("the argument `{name}`: {}", describe(&error)).into(),
            None => format!("there is no argument `{name}`").into(),
        })
    }

    /// Sets an argument, whether it is there or not.
    ///
    /// # Errors
    /// Where the value cannot be written as JSON.
    pub fn set(&mut self, name: impl Into<String>, value: impl Serialize) -> Result<(), BoxError> {
        let (json, _) = strict_json::to_vec(&value)?;
        self.0.insert(name.into(), RawValue::from_string(String::from_utf8(json)?)?);
        Ok(())
    }

    /// Gives an argument another name, if it is there.
    pub fn rename(&mut self, old: &str, new: impl Into<String>) {
        if let Some(value) = self.0.remove(old) {
            self.0.insert(new.into(), value);
        }
    }

    /// Removes an argument, if it is there.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }
}

/// From an object in JSON, for tests.
impl FromStr for Args {
    type Err = BoxError;

    fn from_str(json: &str) -> Result<Self, BoxError> {
        serde_json::from_str(json).map_err(|error| describe(&error).into())
    }
}

impl fmt::Debug for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The arguments stay out of logs.
        f.debug_struct("Args").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_touched_keeps_its_bytes() {
        let mut args: Args = r#"{"big":123456789012345678901234567890,"x":1.0e2,"old":[1, 2]}"#
            .parse()
            .expect("an object");
        args.rename("old", "new");
        args.rename("nothing", "new");
        args.remove("nothing");
        args.set("y", "é").expect("set");
        let written = serde_json::to_string(&args).expect("written");
        let expected = r#"{"big":123456789012345678901234567890,"new":[1, 2],"x":1.0e2,"y":"é"}"#;
        assert_eq!(written, expected);
        assert_eq!(args.get::<i128>("big").ok(), Some(123_456_789_012_345_678_901_234_567_890));
    }

    #[test]
    fn errors_name_the_argument_and_not_its_value() {
        let args: Args = r#"{"to":"s3cret"}"#.parse().expect("an object");
        let said = |error: BoxError| error.to_string();
        let wrong = args.get::<u64>("to").map_err(said).expect_err("a text");
        assert!(wrong.starts_with("the argument `to`: ") && !wrong.contains("s3cret"), "{wrong}");
        let missing = args.get::<u64>("from").map_err(said).expect_err("it is not there");
        assert_eq!(missing, "there is no argument `from`");
        assert_eq!(args.get::<Option<u64>>("from").ok(), Some(None));
        assert!(Args::default().set("ratio", f64::NAN).is_err());
        assert!("[1]".parse::<Args>().is_err() && !format!("{args:?}").contains("to"));
    }
}
