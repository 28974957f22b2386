//! JSON that says no where `serde_json` writes `null`: a float that is not a number or infinite would come back as
//! nothing, or not at all.

use std::cell::Cell;
use std::io::{self, Write};

use serde::ser::{self, Error as _, Serialize};
use serde_json::ser::Formatter;
use serde_json::{Error, Serializer};

/// A thread keeps a buffer of at most so many bytes from one value to the next.
const KEPT_BYTES: usize = 64 * 1024;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The value as JSON.
pub(crate) fn to_vec(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    // Written where there is room already, and copied once its length is known. While it is written, another value that
    // is written for its sake finds no buffer and makes one.
    let mut buffer = BUFFER.take();
    buffer.clear();
    let written = write(value, &mut buffer);
    if buffer.capacity() > KEPT_BYTES {
        return written.map(|()| buffer);
    }
    let json = written.map(|()| buffer.as_slice().to_vec());
    BUFFER.set(buffer);
    json
}

/// Writes the value behind what is there, as JSON.
pub(crate) fn write(value: &impl Serialize, buffer: &mut Vec<u8>) -> Result<(), Error> {
    let mut null = false;
    value.serialize(&mut Serializer::with_formatter(buffer, Nulls(&mut null)))?;
    // Only then can there have been a float that is not finite, and the second walk is worth its time.
    if null { value.serialize(Finite) } else { Ok(()) }
}

/// Compact JSON, and whether there is a `null` in it.
struct Nulls<'a>(&'a mut bool);

impl Formatter for Nulls<'_> {
    fn write_null<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        *self.0 = true;
        writer.write_all(b"null")
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
    use super::{KEPT_BYTES, to_vec};

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
        assert_eq!(to_vec(&value).expect("JSON"), serde_json::to_vec(&value).expect("JSON"));
        let long = "x".repeat(2 * KEPT_BYTES);
        for text in [long.as_str(), "short"] {
            assert_eq!(to_vec(&text).expect("JSON"), serde_json::to_vec(&text).expect("JSON"));
        }
    }

    #[test]
    fn a_value_may_write_another_while_it_is_written() {
        struct Nested;
        impl serde::Serialize for Nested {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let inner = to_vec(&"inner").map_err(serde::ser::Error::custom)?;
                to.collect_str(&String::from_utf8_lossy(&inner))
            }
        }
        assert_eq!(to_vec(&("outer", Nested)).expect("JSON"), br#"["outer","\"inner\""]"#);
    }
}
