//! The keys, and what is done with one.

use std::fmt;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use chacha20poly1305::aead::{AeadInOut, Generate, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use super::unopened::{Unopened, shown};
use crate::error::BoxError;

/// Producers in other languages may leave out the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What was opened; wiped when it is dropped.
pub(super) type Text = Zeroizing<String>;

/// A key and its name; wiped when it is dropped.
pub(crate) struct Key {
    id: String,
    cipher: XChaCha20Poly1305,
}

impl Key {
    pub(crate) fn new(id: String, key: &[u8; 32]) -> Self {
        Self { id, cipher: XChaCha20Poly1305::new(key.into()) }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The nonce and what was encrypted, as texts. The text of its owner is authenticated besides.
    pub(super) fn seal(&self, text: Vec<u8>, owner: &str) -> Result<(String, String), BoxError> {
        // 192 random bits: with all that a fleet can enqueue no nonce comes twice.
        let nonce = XNonce::try_generate()
            .map_err(|error| format!("the system gives no random bytes: {error}"))?;
        self.seal_with(nonce, text, owner)
    }

    pub(super) fn seal_with(
        &self,
        nonce: XNonce,
        mut text: Vec<u8>,
        owner: &str,
    ) -> Result<(String, String), BoxError> {
        self.cipher
            .encrypt_in_place(&nonce, owner.as_bytes(), &mut text)
            .map_err(|_| "the arguments are too large to be encrypted")?;
        Ok((BASE64.encode(nonce), BASE64.encode(text)))
    }

    /// 128 bits, as hex digits, that tell nothing of the text to who has not the key: what the cipher makes of zeros under a nonce that
    /// is a hash of the text.
    pub(super) fn digest(&self, text: &str) -> Option<String> {
        let hash = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, text.as_bytes());
        let nonce: [u8; 24] = std::array::from_fn(|i| hash.as_bytes()[i % 16]);
        let mut zeros = vec![0; 16];
        self.cipher.encrypt_in_place(&nonce.into(), b"hworker-key-1", &mut zeros).ok()?;
        let zeros = zeros.first_chunk().copied()?;
        Some(uuid::Uuid::from_bytes(zeros).simple().to_string())
    }

    pub(super) fn open(&self, nonce: &str, data: &str, owner: &str) -> Result<Text, Unopened> {
        let refused = |why: &str| {
            let key = shown(&self.id);
            Unopened::Refused(format!("the arguments, encrypted with the key `{key}`, {why}"))
        };
        let (nonce, data) = BASE64
            .decode(nonce)
            .ok()
            .and_then(|nonce| XNonce::try_from(nonce.as_slice()).ok())
            .zip(BASE64.decode(data).ok())
            .ok_or_else(|| refused("have no nonce of 24 bytes, or are not base64"))?;
        let mut text = Zeroizing::new(data);
        // Not refused: it may be the key that is wrong, here and not elsewhere.
        self.cipher.decrypt_in_place(&nonce, owner.as_bytes(), &mut *text).map_err(|_| {
            Unopened::Lacking(format!("encrypted with the key `{}`, do not open: they were changed, belong to another job, or that key has another value here", shown(&self.id)))
        })?;
        // Looked at in place, so that nothing of it is left behind.
        str::from_utf8(&text).map_err(|_| refused("are not UTF-8"))?;
        let text = String::from_utf8(std::mem::take(&mut *text));
        text.map(Zeroizing::new).map_err(|_| refused("are not UTF-8"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.id).finish()
    }
}

/// Reads `<name> <32 bytes in base64>`, one key on each line; says the number of a line that is wrong, and nothing of what
/// is in it.
pub(crate) fn parse(text: &str) -> Result<Vec<Key>, String> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let keys = keys.map(|(number, line)| {
        let key = line.split_once(char::is_whitespace).and_then(|(id, key)| {
            let bytes = Zeroizing::new(BASE64.decode(key.trim()).ok()?);
            Some(Key::new(id.to_owned(), bytes.as_slice().try_into().ok()?))
        });
        key.ok_or_else(|| format!("line {number} is not of the form `<name> <32 bytes in base64>`"))
    });
    let keys: Vec<Key> = keys.collect::<Result<_, _>>()?;
    if keys.is_empty() { Err("there is no key in it".into()) } else { Ok(keys) }
}
