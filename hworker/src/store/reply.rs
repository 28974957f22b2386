//! Replies, taken apart with an error that names the operation.

use redis::Value;

use super::net::Fault;

/// A reply being read, from its front.
pub(crate) struct Reply {
    operation: &'static str,
    values: std::vec::IntoIter<Value>,
}

impl Reply {
    /// The values of a list, the keys and values of a map, a single value, or none where the reply is nil.
    pub(crate) fn new(operation: &'static str, value: Value) -> Self {
        let values = match value {
            Value::Array(values) => values,
            Value::Map(pairs) => pairs.into_iter().flat_map(<[Value; 2]>::from).collect(),
            Value::Nil => Vec::new(),
            value => vec![value],
        };
        Self { operation, values: values.into_iter() }
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
        let at = self.left().checked_sub(count).ok_or_else(|| self.fault("too short"))?;
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

    /// Reads all that is left, piece by piece.
    pub(crate) fn rest<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let mut rest = Vec::with_capacity(self.left());
        while self.left() > 0 {
            rest.push(read(self)?);
        }
        Ok(rest)
    }

    pub(crate) fn value(&mut self) -> Result<Value, Fault> {
        self.values.next().ok_or_else(|| self.fault("too short"))
    }

    /// A list within the list.
    pub(crate) fn list(&mut self) -> Result<Self, Fault> {
        Ok(Self::new(self.operation, self.value()?))
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Fault> {
        match self.value()? {
            Value::BulkString(bytes) => Ok(bytes),
            Value::SimpleString(text) | Value::VerbatimString { text, .. } => Ok(text.into_bytes()),
            Value::Int(number) => Ok(number.to_string().into_bytes()),
            Value::Double(number) => Ok(number.to_string().into_bytes()),
            _ => Err(self.fault("not a string")),
        }
    }

    /// Bytes as they are, and nothing that would have to be spelled first.
    pub(crate) fn payload(&mut self) -> Result<Vec<u8>, Fault> {
        match self.value()? {
            Value::BulkString(bytes) => Ok(bytes),
            _ => Err(self.fault("not a payload")),
        }
    }

    /// `None` for nil.
    pub(crate) fn maybe_payload(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        if self.values.as_slice().first() == Some(&Value::Nil) {
            return self.value().map(|_| None);
        }
        self.payload().map(Some)
    }

    /// Text, or `None` for nil.
    pub(crate) fn maybe_text(&mut self) -> Result<Option<String>, Fault> {
        let bytes = self.maybe_payload()?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Text; what is not UTF-8 is replaced, since it can only be garbage that somebody else wrote.
    pub(crate) fn text(&mut self) -> Result<String, Fault> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }

    /// Two texts, such as a field and its value.
    pub(crate) fn pair(&mut self) -> Result<(String, String), Fault> {
        Ok((self.text()?, self.text()?))
    }

    pub(crate) fn number(&mut self) -> Result<i64, Fault> {
        let number = match self.value()? {
            Value::Int(number) => Some(number),
            Value::Double(number) => Some(number as i64),
            Value::BulkString(bytes) => {
                std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok())
            }
            _ => None,
        };
        number.ok_or_else(|| self.fault("not a number"))
    }

    pub(crate) fn count(&mut self) -> Result<u64, Fault> {
        self.number().map(|number| u64::try_from(number).unwrap_or(0))
    }

    /// For a word that the operation does not say.
    pub(crate) fn unknown(&self, word: &str) -> Fault {
        self.fault(format!("unknown word `{word}`"))
    }

    pub(crate) fn fault(&self, detail: impl std::fmt::Display) -> Fault {
        Fault::reply(self.operation, detail)
    }
}
