//! Encrypted lines: with which certificates, and by which cryptography. That is named here in each case, and never made the program's
//! default, which is the program's own to choose.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::meter::Stream;
use crate::config::TlsFiles;

/// The authorities to trust, and the client's own certificate.
pub(super) type Certificates = Arc<ClientConfig>;

/// Those of these files, or the system's where none is named.
pub(super) fn certificates(files: &TlsFiles) -> Result<Certificates, String> {
    let roots = match &files.ca {
        Some(path) => roots_in(path)?,
        None => system_roots()?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_root_certificates(roots);
    let config = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => identified(builder, cert, key)?,
        _ => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn identified(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    cert: &Path,
    key: &Path,
) -> Result<ClientConfig, String> {
    let chain = certificates_in(cert)?;
    // Its path is not repeated: somebody may have written the key there.
    let key = std::fs::read(key)
        .map_err(|error| format!("the file of the client's key cannot be read: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|error| format!("the file of the client's key holds no private key: {error}"))?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| format!("the client's certificate and key cannot be used: {error}"))
}

fn certificates_in(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let shown = path.display();
    let pem = std::fs::read(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| format!("the certificates in {shown}: {error}"))?;
    if found.is_empty() {
        return Err(format!("{shown} holds no certificate in PEM form"));
    }
    Ok(found)
}

fn roots_in(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates_in(path)? {
        let wrong = |error| format!("a certificate in {}: {error}", path.display());
        roots.add(certificate).map_err(wrong)?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, String> {
    let mut loaded = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(loaded.certs);
    if roots.is_empty() {
        let why = loaded.errors.pop().map_or_else(String::new, |error| format!(" ({error})"));
        return Err(format!(
            "the system names no authority to trust{why}; name one in HWORKER_TLS_CA"
        ));
    }
    Ok(roots)
}

/// Encrypts a line to this host.
pub(super) async fn connect<S: Stream>(
    certificates: &Certificates,
    host: &str,
    socket: S,
) -> io::Result<TlsStream<S>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::clone(certificates)).connect(name, socket).await
}

#[cfg(test)]
mod tests {
    use super::super::Address;
    use super::TlsFiles;
    use crate::config::UrlSource;

    #[test]
    fn no_provider_becomes_that_of_the_program() {
        // Clients, of plain URLs too, leave the program's choice of a provider open.
        // Guard: `builder_with_provider`.
        for url in ["redis://localhost", "rediss://localhost", "rediss-cluster://a,b"] {
            Address::parse(url, UrlSource::Program, &TlsFiles::default()).expect("an address");
        }
        assert!(rustls::crypto::CryptoProvider::get_default().is_none());
    }
}
