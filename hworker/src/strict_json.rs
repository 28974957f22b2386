//! JSON that says no where `serde_json` writes `null`: a float that is not a number or infinite would come back as
//! nothing, or not at all. And that tells where it may not be possible to read it again.

use std::cell::Cell;
use std::io::{self, Write};

use serde::ser::{self, Error as _, Serialize};
use serde_json::ser::{CompactFormatter, Formatter};
use serde_json::{Error, Serializer};

/// `serde_json` reads so many values one inside the other.
const READABLE_LEVELS: usize = 127;

/// A thread keeps a buffer of at most so many bytes from one value to the next.
const KEPT_BYTES: usize = 64 * 1024;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The value as JSON, and what [`write`] says of it.
pub(crate) fn to_vec(value: &impl Serialize) -> Result<(Vec<u8>, bool), Error> {
    // Written where there is room already, and copied once its length is known. While it is written, another value that
    // is written for its sake finds no buffer and makes one.
    let mut buffer = BUFFER.take();
    buffer.clear();
    let written = write(value, &mut buffer);
    if buffer.capacity() > KEPT_BYTES {
        return written.map(|doubtful| (buffer, doubtful));
    }
    let json = written.map(|doubtful| (buffer.as_slice().to_vec(), doubtful));
    BUFFER.set(buffer);
    json
}

/// Appends the value as JSON. Returns whether it has something in it that its type may not be able to read again, which is rare: the caller
/// then checks it.
pub(crate) fn write(value: &impl Serialize, buffer: &mut Vec<u8>) -> Result<bool, Error> {
    let mut signs = Signs::default();
    value.serialize(&mut Serializer::with_formatter(buffer, Watched(&mut signs)))?;
    // Only then can there have been a float that is not finite, and the second walk is worth its time.
    if signs.null {
        value.serialize(Finite)?;
    }
    Ok(signs.doubtful)
}

/// What was met in a value.
#[derive(Default)]
struct Signs {
    null: bool,
    doubtful: bool,
    levels: usize,
    /// The name of a member was a text so far.
    is_text: bool,
}

/// Compact JSON, with a note of what there is in it.
struct Watched<'a>(&'a mut Signs);

impl Watched<'_> {
    fn enter(&mut self) {
        self.0.levels += 1;
        self.0.doubtful |= self.0.levels > READABLE_LEVELS;
    }

    fn leave(&mut self) {
        self.0.levels -= 1;
    }
}

/// A tagged enum, an untagged one and `flatten` read from a copy of the JSON, which has no numbers of 128 bits, no names that are
/// numbers or truth values, and no raw JSON.
impl Formatter for Watched<'_> {
    fn write_null<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.null = true;
        CompactFormatter.write_null(writer)
    }

    fn write_i128<W: ?Sized + Write>(&mut self, writer: &mut W, value: i128) -> io::Result<()> {
        self.0.doubtful = true;
        CompactFormatter.write_i128(writer, value)
    }

    fn write_u128<W: ?Sized + Write>(&mut self, writer: &mut W, value: u128) -> io::Result<()> {
        self.0.doubtful = true;
        CompactFormatter.write_u128(writer, value)
    }

    fn write_raw_fragment<W: ?Sized + Write>(&mut self, to: &mut W, json: &str) -> io::Result<()> {
        self.0.doubtful = true;
        CompactFormatter.write_raw_fragment(to, json)
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        self.0.is_text = true;
        CompactFormatter.write_string_fragment(writer, fragment)
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter();
        CompactFormatter.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.leave();
        CompactFormatter.end_array(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter();
        CompactFormatter.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.leave();
        CompactFormatter.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.is_text = false;
        CompactFormatter.begin_object_key(writer, first)
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        // One without a single letter looks like a number, and is looked at again.
        self.0.doubtful |= !self.0.is_text;
        CompactFormatter.end_object_key(writer)
    }
}

/// Walks a value, writes nothing, and refuses floats that JSON cannot hold.
#[derive(Clone, Copy)]
struct Finite;

fn check(float: f64) -> Result<(), Error> {
    if float.is_finite() {
        Ok(())
    } else {
        Err(Error::custom(format!("{float} cannot be written as JSON")))
    }
}

macro_rules! accept {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method(self, _: $type) -> Result<(), Error> { Ok(()) })*
    };
}

impl ser::Serializer for Finite {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    accept! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_unit_struct: &'static str,
    }

    fn serialize_f32(self, float: f32) -> Result<(), Error> {
        check(float.into())
    }

    fn serialize_f64(self, float: f64) -> Result<(), Error> {
        check(float)
    }

    fn serialize_none(self) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Error> {
        Ok(self)
    }
}

/// The parts of a compound value are walked alike; only the names of the methods differ.
macro_rules! compound {
    ($($trait:ident: $method:ident($($key:ty)?)),* $(,)?) => {
        $(impl ser::$trait for Finite {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, $(_: $key,)? value: &T) -> Result<(), Error> {
                value.serialize(*self)
            }

            fn end(self) -> Result<(), Error> {
                Ok(())
            }
        })*
    };
}

compound! {
    SerializeSeq: serialize_element(),
    SerializeTuple: serialize_element(),
    SerializeTupleStruct: serialize_field(),
    SerializeTupleVariant: serialize_field(),
    SerializeStruct: serialize_field(&'static str),
    SerializeStructVariant: serialize_field(&'static str),
}

impl ser::SerializeMap for Finite {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Error> {
        // serde_json itself says which keys it cannot write.
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(*self)
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;
    use serde_json::value::RawValue;

    use super::{Error, KEPT_BYTES, to_vec};

    #[test]
    fn floats_that_json_cannot_hold_are_refused_wherever_they_are() {
        assert!(to_vec(&(1.5_f64, Some(f32::MAX), "NaN", [0.0])).is_ok());
        assert!(to_vec(&f64::NAN).is_err());
        assert!(to_vec(&vec![Some((1, f32::INFINITY))]).is_err());
        assert!(to_vec(&std::collections::BTreeMap::from([("x", f64::NEG_INFINITY)])).is_err());
    }

    #[test]
    fn what_is_written_is_what_serde_json_writes() {
        let value =
            (None::<u8>, (), "\"\u{1}\u{e9}", [1.0e300, -0.0], u128::MAX, 'x', Some([true]));
        assert_eq!(to_vec(&value).expect("JSON").0, serde_json::to_vec(&value).expect("JSON"));
        let long = "x".repeat(2 * KEPT_BYTES);
        for text in [long.as_str(), "short"] {
            assert_eq!(to_vec(&text).expect("JSON").0, serde_json::to_vec(&text).expect("JSON"));
        }
    }

    #[test]
    fn what_not_every_type_reads_again_is_told_of() {
        let nested = |levels| (1..levels).fold(json!([]), |inner, _| json!([inner]));
        let doubtful =
            |value: &dyn Fn() -> Result<(Vec<u8>, bool), Error>| value().expect("JSON").1;
        assert!(!doubtful(&|| to_vec(&(u64::MAX, i64::MIN, -0.0, "1", [None::<u8>]))));
        assert!(!doubtful(&|| to_vec(&BTreeMap::from([("1", json!({ "\n2": true }))]))));
        assert!(!doubtful(&|| to_vec(&[nested(126), nested(126)])));
        assert!(doubtful(&|| to_vec(&[nested(127)])));
        assert!(doubtful(&|| to_vec(&Some(1_i128))) && doubtful(&|| to_vec(&[1_u128])));
        assert!(doubtful(&|| to_vec(&BTreeMap::from([(1, "x")]))));
        assert!(doubtful(&|| to_vec(&BTreeMap::from([(true, "x")]))));
        assert!(doubtful(&|| to_vec(&RawValue::from_string("1".into()).expect("JSON"))));
    }

    #[test]
    fn a_value_may_write_another_while_it_is_written() {
        struct Nested;
        impl serde::Serialize for Nested {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let (inner, _) = to_vec(&"inner").map_err(serde::ser::Error::custom)?;
                to.collect_str(&String::from_utf8_lossy(&inner))
            }
        }
        assert_eq!(to_vec(&("outer", Nested)).expect("JSON").0, br#"["outer","\"inner\""]"#);
    }
}
