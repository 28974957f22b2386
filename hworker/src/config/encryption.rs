//! With which keys arguments are encrypted, and which ones are.

use std::fmt;
use std::path::PathBuf;

use super::Environment;
use crate::encryption::{Key, KeyRing, parse};
use crate::error::Problems;

/// Settings as given by the program.
#[derive(Default)]
pub(crate) struct EncryptionSettings {
    pub(crate) keys: Vec<Key>,
    pub(crate) file: Option<PathBuf>,
    pub(crate) all: Option<bool>,
}

impl fmt::Debug for EncryptionSettings {
    /// Without the path, for the reason below.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_ref().map(|_| "a file");
        let Self { keys, all, .. } = self;
        f.debug_struct("EncryptionSettings")
            .field("keys", keys)
            .field("file", &file)
            .field("all", all)
            .finish()
    }
}

/// What a client encrypts and decrypts with.
#[derive(Debug)]
pub(crate) struct EncryptionConfig {
    pub(crate) keys: Option<KeyRing>,
    /// Whether the arguments of all jobs are encrypted, and not only of those whose type says so.
    pub(crate) all: bool,
}

impl EncryptionSettings {
    /// Fills what is open from the environment.
    pub(crate) fn resolve(self, problems: &mut Problems) -> EncryptionConfig {
        let mut env = Environment { problems };
        let all = env.boolean(self.all, "HWORKER_ENCRYPT_ALL", false);
        let mut keys = self.keys;
        let before = problems.0.len();
        if let Some(file) = self.file {
            keys.extend(read(file, "the file of encryption keys", problems));
        } else if keys.is_empty() {
            let variable = "HWORKER_ENCRYPTION_KEYS";
            let file = std::env::var_os(variable).filter(|path| !path.is_empty());
            keys.extend(file.into_iter().flat_map(|file| {
                read(file.into(), &format!("the file that {variable} names"), problems)
            }));
        }
        let keys = KeyRing::new(keys, problems);
        if all && keys.is_none() && problems.0.len() == before {
            problems.0.push(format!("all arguments are to be encrypted, but {NO_KEYS}"));
        }
        EncryptionConfig { keys, all }
    }
}

/// What to do where a key is needed and none is there.
pub(crate) const NO_KEYS: &str = "there is no key: name a file of keys in `HWORKER_ENCRYPTION_KEYS`, or give one with \
     `Client::builder().encryption_key(..)`";

/// The keys in a file. Its path is not repeated: somebody may have written the key there.
fn read(file: PathBuf, what: &str, problems: &mut Problems) -> Vec<Key> {
    let keys = match std::fs::read_to_string(file) {
        Ok(text) => {
            #[cfg(feature = "encryption")]
            let text = zeroize::Zeroizing::new(text);
            parse(&text)
        }
        Err(error) => Err(format!("cannot be read: {error}")),
    };
    keys.unwrap_or_else(|why| {
        problems.0.push(format!("{what}: {why}"));
        Vec::new()
    })
}
