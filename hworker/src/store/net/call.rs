//! A script with its keys and arguments.

use redis::{Cmd, Value};

use crate::store::Script;
use crate::store::reply::Reply;

/// A script with its keys and arguments.
#[derive(Debug)]
pub(crate) struct Call {
    pub(super) script: Script,
    pub(super) by_hash: Cmd,
}

impl Call {
    pub(crate) fn new(script: Script, keys: &[&str]) -> Self {
        let mut by_hash = redis::cmd("EVALSHA");
        by_hash.arg(script.hash()).arg(keys.len()).arg(keys);
        Self { script, by_hash }
    }

    pub(crate) fn arg(&mut self, argument: impl AsRef<[u8]>) -> &mut Self {
        self.by_hash.arg(argument.as_ref());
        self
    }

    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.by_hash.arg(number);
        self
    }

    pub(super) fn reply(&self, value: Value) -> Reply {
        Reply::new(self.script.name(), value)
    }

    pub(super) fn by_text(&self) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(self.script.text());
        // After the name of the command and the hash.
        for argument in self.by_hash.args_iter().skip(2) {
            if let redis::Arg::Simple(argument) = argument {
                command.arg(argument);
            }
        }
        command
    }
}
