//! Replies, taken apart with an error that names the operation.

use redis::Value;

use super::net::Fault;

/// A reply being read.
pub(crate) struct Reply {
    operation: &'static str,
    values: std::vec::IntoIter<Value>,
}

impl Reply {
    /// A list, read from its front.
    pub(crate) fn list(operation: &'static str, value: Value) -> Result<Self, Fault> {
        match value {
            Value::Array(values) | Value::Set(values) => {
                Ok(Self { operation, values: values.into_iter() })
            }
            Value::Map(pairs) => {
                let values: Vec<_> =
                    pairs.into_iter().flat_map(|(key, value)| [key, value]).collect();
                Ok(Self { operation, values: values.into_iter() })
            }
            Value::Nil => Ok(Self { operation, values: Vec::new().into_iter() }),
            _ => Err(Fault::reply(operation, "not a list")),
        }
    }

    /// How many values are left.
    pub(crate) fn left(&self) -> usize {
        self.values.len()
    }

    /// Takes the last so many off, as the reply of another operation.
    pub(crate) fn split_last(
        &mut self,
        operation: &'static str,
        count: usize,
    ) -> Result<Self, Fault> {
        let short = || Fault::reply(operation, "too short");
        let at = self.left().checked_sub(count).ok_or_else(short)?;
        let mut values = std::mem::take(&mut self.values).collect::<Vec<_>>();
        let last = values.split_off(at);
        self.values = values.into_iter();
        Ok(Self { operation, values: last.into_iter() })
    }

    /// Takes the last value off, if it is a text that begins so; gives what follows.
    pub(crate) fn take_last_word(&mut self, start: &str) -> Option<String> {
        let Value::BulkString(last) = self.values.as_slice().last()? else { return None };
        let rest = last.strip_prefix(start.as_bytes())?;
        let rest = String::from_utf8_lossy(rest).into_owned();
        self.values.next_back();
        Some(rest)
    }

    pub(crate) fn value(&mut self) -> Result<Value, Fault> {
        self.values.next().ok_or_else(|| Fault::reply(self.operation, "too short"))
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Fault> {
        let value = self.value()?;
        bytes(self.operation, value)
    }

    /// Bytes as they are, and nothing that would have to be spelled first.
    pub(crate) fn payload(&mut self) -> Result<Vec<u8>, Fault> {
        match self.value()? {
            Value::BulkString(bytes) => Ok(bytes),
            _ => Err(Fault::reply(self.operation, "not a payload")),
        }
    }

    /// `None` for nil.
    pub(crate) fn maybe_bytes(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        match self.value()? {
            Value::Nil => Ok(None),
            value => bytes(self.operation, value).map(Some),
        }
    }

    /// Text; what is not UTF-8 is replaced, since it can only be garbage that somebody else wrote.
    pub(crate) fn text(&mut self) -> Result<String, Fault> {
        let bytes = self.bytes()?;
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into()))
    }

    pub(crate) fn number(&mut self) -> Result<i64, Fault> {
        let value = self.value()?;
        number(self.operation, &value)
    }

    pub(crate) fn count(&mut self) -> Result<u64, Fault> {
        self.number().map(|number| u64::try_from(number).unwrap_or(0))
    }
}

pub(crate) fn bytes(operation: &'static str, value: Value) -> Result<Vec<u8>, Fault> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        Value::Okay => Ok(b"OK".to_vec()),
        Value::Int(number) => Ok(number.to_string().into_bytes()),
        Value::Double(number) => Ok(number.to_string().into_bytes()),
        _ => Err(Fault::reply(operation, "not a string")),
    }
}

pub(crate) fn number(operation: &'static str, value: &Value) -> Result<i64, Fault> {
    match value {
        Value::Int(number) => Ok(*number),
        Value::Double(number) => Ok(*number as i64),
        Value::BulkString(bytes) => std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Fault::reply(operation, "not a number")),
        _ => Err(Fault::reply(operation, "not a number")),
    }
}

/// A reply that is one word.
pub(crate) fn word(operation: &'static str, value: Value) -> Result<String, Fault> {
    let bytes = bytes(operation, value)?;
    String::from_utf8(bytes).map_err(|_| Fault::reply(operation, "not a word"))
}
