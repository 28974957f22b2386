//! A script with its keys and arguments.

use redis::Cmd;

use crate::store::Script;

/// Room for the name of the command, the hash and the arguments of a call for a job or a few; more is made when needed.
const FEW_ARGUMENTS: usize = 24;
const FEW_BYTES: usize = 256;

/// A script with its keys and arguments.
#[derive(Debug)]
pub(crate) struct Call {
    script: Script,
    by_hash: Cmd,
}

impl Call {
    pub(crate) fn new(script: Script, keys: &[&str]) -> Self {
        let bytes: usize = keys.iter().map(|key| key.len()).sum();
        let mut by_hash = Cmd::with_capacity(keys.len() + FEW_ARGUMENTS, bytes + FEW_BYTES);
        by_hash.arg("EVALSHA").arg(script.hash()).arg(keys.len());
        for key in keys {
            by_hash.arg(*key);
        }
        Self { script, by_hash }
    }

    pub(super) fn script(&self) -> Script {
        self.script
    }

    pub(super) fn by_hash(&self) -> &Cmd {
        &self.by_hash
    }

    pub(crate) fn arg(&mut self, argument: impl AsRef<[u8]>) -> &mut Self {
        self.by_hash.arg(argument.as_ref());
        self
    }

    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.by_hash.arg(number);
        self
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
