//! What the server tells of keys that were read on a connection: it remembers each key that was read, one that is not there too, and tells
//! once when that changes. `CLIENT TRACKING` of RESP3.

use std::sync::OnceLock;

use redis::Value;
use tokio::sync::OnceCell;

use super::connection::Connection;
use super::fault::{Fault, FaultKind};
use crate::store::bounds::CALL_WITHIN;

/// Is told of a key that has changed, or of all: the server has forgotten which keys were read.
pub(crate) type Tell = Box<dyn Fn(Option<&[u8]>) + Send + Sync>;

/// What a connection does with what the server tells.
#[derive(Default)]
pub(super) struct Tracking {
    tell: OnceLock<Tell>,
    /// Whether the server tells.
    is_on: OnceCell<bool>,
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

impl Connection {
    /// Has the server tell when a key changes that was read on this connection, from the first call on. False where the server does not
    /// do so for us.
    pub(crate) async fn track(&self, tell: impl FnOnce() -> Tell) -> Result<bool, Fault> {
        let Tracking { tell: told, is_on } = self.tracking();
        let begin = || async {
            told.get_or_init(tell);
            let on = redis::cmd("CLIENT").arg("TRACKING").arg("ON").to_owned();
            match self.call(&on, CALL_WITHIN).await {
                Ok(_) => Ok(true),
                Err(fault) if fault.kind == FaultKind::Connection => Err(fault),
                Err(_) => Ok(false),
            }
        };
        is_on.get_or_try_init(begin).await.copied()
    }
}
