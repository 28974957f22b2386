//! Which certificates a connection uses where the system's are not the right ones, or not all.

use std::fmt;
use std::path::PathBuf;

use crate::error::Problems;

/// Files in PEM form.
#[derive(Default, Clone)]
pub(crate) struct TlsFiles {
    /// The authorities to trust instead of the system's.
    pub(crate) ca: Option<PathBuf>,
    /// The client's certificate, and its key.
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl fmt::Debug for TlsFiles {
    /// Without the path of the key: somebody may have written the key there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_ref().map(|_| "a file");
        let Self { ca, cert, .. } = self;
        f.debug_struct("TlsFiles").field("ca", ca).field("cert", cert).field("key", &key).finish()
    }
}

impl TlsFiles {
    /// Fills what is open from the environment. `url` is where the server is, `chosen` whether the program itself said so:
    /// then what the environment says of another server need not fit.
    pub(crate) fn resolve(self, url: &str, chosen: bool, problems: &mut Problems) -> Self {
        let variable = |name| std::env::var_os(name).filter(|path| !path.is_empty());
        let file = |given: Option<PathBuf>, name| given.or_else(|| variable(name).map(Into::into));
        let by_program = self.any();
        let files = Self {
            ca: file(self.ca, "HWORKER_TLS_CA"),
            cert: file(self.cert, "HWORKER_TLS_CERT"),
            key: file(self.key, "HWORKER_TLS_KEY"),
        };
        files.fit(url, by_program || !chosen, problems)
    }

    fn fit(self, url: &str, must: bool, problems: &mut Problems) -> Self {
        if !url.starts_with("rediss") {
            // Whoever set them believes that the connection is encrypted.
            if self.any() && must {
                problems.0.push(
                    "certificates are set (`HWORKER_TLS_CA`, `HWORKER_TLS_CERT`, `HWORKER_TLS_KEY`, or the methods of those names), but \
                     the Redis URL is not encrypted; write `rediss` instead of `redis` in it, or unset them"
                        .into(),
                );
            }
            return Self::default();
        }
        let half = match (&self.cert, &self.key) {
            (Some(_), None) => Some(("HWORKER_TLS_CERT", "HWORKER_TLS_KEY")),
            (None, Some(_)) => Some(("HWORKER_TLS_KEY", "HWORKER_TLS_CERT")),
            _ => None,
        };
        if let Some((set, missing)) = half {
            problems.0.push(format!(
                "{set} is set and {missing} is not; a client certificate needs both"
            ));
        }
        self
    }

    pub(crate) fn any(&self) -> bool {
        self.ca.is_some() || self.cert.is_some() || self.key.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(files: TlsFiles, url: &str, must: bool) -> (TlsFiles, Vec<String>) {
        let mut problems = Problems(Vec::new());
        let files = files.fit(url, must, &mut problems);
        (files, problems.0)
    }

    #[test]
    fn certificates_are_for_encrypted_connections() {
        let ca = || TlsFiles { ca: Some("ca.pem".into()), ..TlsFiles::default() };
        for url in ["rediss://host", "rediss-cluster://host"] {
            let (files, wrong) = problems(ca(), url, true);
            assert!(files.any() && wrong.is_empty(), "{url}: {wrong:?}");
        }
        for url in ["redis://host", "redis+unix:///a.sock", "redis-cluster://host"] {
            let (_, wrong) = problems(ca(), url, true);
            assert!(wrong.len() == 1 && wrong[0].contains("`rediss`"), "{url}: {wrong:?}");
            let (files, wrong) = problems(ca(), url, false);
            assert!(!files.any() && wrong.is_empty(), "{url}: {wrong:?}");
        }
    }

    #[test]
    fn a_client_certificate_needs_its_key() {
        let cert = TlsFiles { cert: Some("cert.pem".into()), ..TlsFiles::default() };
        let (_, wrong) = problems(cert.clone(), "rediss://host", true);
        assert!(wrong.len() == 1 && wrong[0].contains("HWORKER_TLS_KEY is not"), "{wrong:?}");
        let both = TlsFiles { key: Some("key.pem".into()), ..cert };
        assert_eq!(problems(both, "rediss://host", true).1, [""; 0]);
    }
}
