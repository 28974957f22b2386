//! Arguments that the server cannot read: the form in which they are stored, and who writes and reads it.
//!
//! The form itself is known to every build, so that a worker without keys never takes it for plain arguments; what
//! encrypts is there with the feature `encryption` alone.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use self::unopened::shown;
use crate::error::Problems;
use crate::keys::is_name;

// Without the feature there is no key, and so no value of these types: all that would use one is left out by the compiler.
#[cfg_attr(not(feature = "encryption"), path = "encryption/without.rs")]
mod cipher;
mod unopened;

pub(crate) use cipher::{Key, parse};
pub(crate) use unopened::Unopened;

/// Whether the arguments of a job type are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encrypted {
    /// As the client says.
    No,
    /// They are written encrypted; plain ones, from before, still run.
    Yes,
    /// They are written encrypted, and plain ones are refused.
    Only,
}

/// XChaCha20-Poly1305 with a nonce of 24 bytes, as in libsodium's `crypto_aead_xchacha20poly1305_ietf`.
const ALGORITHM: &str = "XC20P";

/// Arguments as they are stored when they are encrypted; `docs/wire-format.md` describes it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Sealed<'a> {
    #[serde(rename = "$sealed", borrow)]
    parts: Parts<'a>,
}

/// The texts are base64.
#[derive(Serialize, Deserialize)]
#[serde(expecting = "an object with the fields `alg`, `key`, `nonce` and `data`")]
struct Parts<'a> {
    #[serde(borrow)]
    alg: Cow<'a, str>,
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    nonce: Cow<'a, str>,
    #[serde(borrow)]
    data: Cow<'a, str>,
}

/// What every way to encrypt has in common; the rest is for those who know it.
#[derive(Deserialize)]
struct SealedSomehow<'a> {
    #[serde(rename = "$sealed", borrow)]
    way: Way<'a>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with the field `alg`")]
struct Way<'a> {
    #[serde(borrow)]
    alg: Cow<'a, str>,
}

impl<'a> Sealed<'a> {
    /// Reads arguments that [`is_sealed`] says are encrypted, in the way that is known here.
    pub(crate) fn read(args: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(args)
    }
}

/// Whether these arguments, a JSON object, are encrypted ones.
pub(crate) fn is_sealed(args: &str) -> bool {
    let inside = args.as_bytes().get(1..).unwrap_or_default();
    inside.trim_ascii_start().starts_with(br#""$sealed""#)
}

/// Whose arguments they are, or whose result: they can be read nowhere else.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) what: What,
    /// The name of the job type as the envelope has it.
    pub(crate) job: &'a str,
    pub(crate) id: &'a str,
}

/// What of a job is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Args,
    Result,
    /// The rest is what a body reports. Whoever looks may know the id of the job alone.
    Progress,
    Log,
    Checkpoint,
}

/// What is authenticated besides the arguments. No name of a job type has a line break, so this is the text of one owner
/// alone.
impl Owner<'_> {
    fn text(&self) -> String {
        let what = match self.what {
            What::Args => None,
            What::Result => Some("result"),
            What::Progress => Some("progress"),
            What::Log => Some("log"),
            What::Checkpoint => Some("checkpoint"),
        };
        if let Some(what) = what {
            return format!("hworker-{what}-1\n{}\n{}", self.job, self.id);
        }
        // All runs of a cron entry have the arguments that were encrypted for the entry.
        let id = match self.id.rsplit_once(':') {
            Some((entry, _)) if entry.starts_with("cron:") => entry,
            _ => self.id,
        };
        format!("hworker-args-1\n{}\n{id}", self.job)
    }
}

/// Keys by name: the first one seals, all of them open.
pub(crate) struct KeyRing {
    first: Key,
    others: Vec<Key>,
}

impl KeyRing {
    /// `None` where there are no keys.
    pub(crate) fn new(keys: Vec<Key>, problems: &mut Problems) -> Option<Self> {
        for (index, key) in keys.iter().enumerate() {
            let id = key.id();
            if !is_name(id) {
                // It may be the key itself, in the wrong place.
                let why = "the name of an encryption key is not of the form [A-Za-z0-9._-]{1,100}";
                problems.0.push(why.into());
            } else if keys[..index].iter().any(|other| other.id() == id) {
                problems.0.push(format!(
                    "there are two encryption keys of the name `{id}`; a new key has a new name"
                ));
            }
        }
        let mut keys = keys.into_iter();
        Some(Self { first: keys.next()?, others: keys.collect() })
    }

    /// The value as JSON, encrypted, and whether it is doubtful that it can be read.
    pub(crate) fn seal(
        &self,
        args: &impl Serialize,
        owner: Owner<'_>,
    ) -> Result<(Sealed<'_>, bool), crate::error::BoxError> {
        let mut json = Vec::new();
        let doubtful = crate::strict_json::write(args, &mut json)?;
        let (nonce, data) = self.first.seal(json, &owner.text())?;
        let [nonce, data] = [nonce, data].map(Cow::Owned);
        let key = Cow::Borrowed(self.first.id());
        Ok((Sealed { parts: Parts { alg: ALGORITHM.into(), key, nonce, data } }, doubtful))
    }

    /// What stands for a text that the server must not know: the same while keys are rotated, in whatever order they stand, until the key is
    /// removed whose name comes first.
    pub(crate) fn digest(&self, text: &str) -> Option<String> {
        let keys = self.others.iter().chain([&self.first]);
        keys.min_by(|one, other| one.id().cmp(other.id()))?.digest(text)
    }

    /// The JSON of arguments that belong to this job.
    pub(crate) fn open(&self, sealed: &Sealed<'_>, owner: Owner<'_>) -> Result<Opened, Unopened> {
        let Parts { alg: _, key, nonce, data } = &sealed.parts;
        let mut keys = std::iter::once(&self.first).chain(&self.others);
        let found = keys.find(|known| known.id() == key).ok_or_else(|| without_key(key))?;
        let opened = found.open(nonce, data, &owner.text()).map(Opened)?;
        // As where they are plain. A result may be anything.
        if owner.what == What::Args && !opened.as_str().trim_start().starts_with('{') {
            let key = shown(key);
            return Err(Unopened::Refused(format!(
                "the arguments, encrypted with the key `{key}`, are not an object by parameter name"
            )));
        }
        Ok(opened)
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entry(&self.first).entries(&self.others).finish()
    }
}

/// Opens arguments with the keys that there are.
pub(crate) fn open(
    keys: Option<&KeyRing>,
    args: &str,
    owner: Owner<'_>,
) -> Result<Opened, Unopened> {
    let refused = |error: serde_json::Error| {
        let why = crate::envelope::describe(&error);
        Unopened::Refused(format!("the encrypted arguments cannot be read: {why}"))
    };
    let SealedSomehow { way } = serde_json::from_str(args).map_err(refused)?;
    if way.alg != ALGORITHM {
        // Not said which: it may be an argument of a job that only looks encrypted.
        return Err(Unopened::Lacking("encrypted in a way (`alg`) unknown here".into()));
    }
    let sealed = Sealed::read(args).map_err(refused)?;
    match keys {
        Some(keys) => keys.open(&sealed, owner),
        None => Err(without_key(&sealed.parts.key)),
    }
}

fn without_key(key: &str) -> Unopened {
    Unopened::Lacking(format!("encrypted with the key `{}`, unknown here", shown(key)))
}

/// Arguments that were encrypted, as JSON.
pub(crate) struct Opened(cipher::Text);

impl Opened {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opened")
    }
}

#[cfg(all(test, feature = "encryption"))]
mod tests;
