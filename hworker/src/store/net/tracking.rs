//! What the server tells of keys that were read on a connection: it remembers each key that was read, one that is not there too, and tells
//! once when that changes. `CLIENT TRACKING` of RESP3.

use std::sync::OnceLock;

use redis::Value;
use tokio::sync::OnceCell;

/// Is told of a key that has changed, or of all: the server has forgotten which keys were read.
pub(crate) type Tell = Box<dyn Fn(Option<&[u8]>) + Send + Sync>;

/// What a connection does with what the server tells.
#[derive(Default)]
pub(super) struct Tracking {
    pub(super) tell: OnceLock<Tell>,
    /// Whether the server tells.
    pub(super) is_on: OnceCell<bool>,
}

impl Tracking {
    /// The server tells of keys.
    pub(super) fn told(&self, keys: &[Value]) {
        let Some(tell) = self.tell.get() else { return };
        match keys.first() {
            Some(Value::Array(keys)) => {
                for key in keys {
                    if let Value::BulkString(key) = key {
                        tell(Some(key));
                    }
                }
            }
            _ => tell(None),
        }
    }
}
