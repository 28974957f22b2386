//! The certificates of encrypted connections.

use std::path::Path;

use redis::{ClientTlsConfig, ConnectionInfo, TlsCertificates};

use crate::config::TlsFiles;

const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// The same server, spoken to with these certificates instead of the system's.
pub(super) fn with_files(
    server: ConnectionInfo,
    files: &TlsFiles,
) -> Result<ConnectionInfo, String> {
    if !files.any() {
        return Ok(server);
    }
    let certificate = |path: &Path| {
        let pem = read(path)?;
        let found = memchr::memmem::find(&pem, CERTIFICATE).is_some();
        let none = || format!("{} holds no certificate in PEM form", path.display());
        found.then_some(pem).ok_or_else(none)
    };
    let root_cert = files.ca.as_deref().map(certificate).transpose()?;
    let client_tls = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => {
            let client_cert = certificate(cert)?;
            // Its path is not repeated: somebody may have written the key there.
            let client_key = std::fs::read(key)
                .map_err(|error| format!("the file of the client's key cannot be read: {error}"))?;
            Some(ClientTlsConfig { client_cert, client_key })
        }
        _ => None,
    };
    let client = redis::Client::build_with_tls(server, TlsCertificates { client_tls, root_cert });
    let client = client.map_err(|error| format!("its certificates cannot be used: {error}"))?;
    Ok(client.get_connection_info().clone())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}
