//! What stands in the place of TLS where the feature `tls` is off: there are no certificates.

use std::io;

use super::meter::Stream;
use crate::config::TlsFiles;

#[derive(Clone)]
pub(super) enum Certificates {}

pub(super) fn certificates(_: &TlsFiles) -> Result<Certificates, String> {
    Err("rediss:// needs the feature `tls` of hworker".into())
}

#[expect(clippy::unused_async, reason = "as the one with the feature")]
pub(super) async fn connect<S: Stream>(
    certificates: &Certificates,
    _: &str,
    _: S,
) -> io::Result<S> {
    match *certificates {}
}
