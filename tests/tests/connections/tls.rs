//! Encrypted connections: who the server is, and who the client.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use hworker::{Client, Error};
use hworker_tests::{Act, InProcess, TestServer, TestServerBuilder, act, produce};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use tempfile::TempDir;

use super::{SOON, free_port};

/// An authority, and the certificates that it issued, as files.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("ca.pem"), issuer.pem()).expect("written");
        Self { issuer, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// A certificate for this name, and its key.
    fn issue(&self, name: &str) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new([name.to_owned()]).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        let files = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        std::fs::write(&files.0, cert.pem()).expect("written");
        std::fs::write(&files.1, key.serialize_pem()).expect("written");
        files
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A server of an authority of this name, its encrypted port, and the file of the authority.
pub(super) fn server_named(name: &str) -> (TestServer, u16, PathBuf) {
    let authority = Authority::new(name);
    let (server, url) = server(&authority, "no");
    let port = url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let ca = server.dir().join("ca.pem");
    std::fs::copy(authority.ca(), &ca).expect("copied");
    (server, port, ca)
}

/// A server whose certificate is for `localhost`, and the URL of its encrypted port.
fn server(authority: &Authority, clients: &str) -> (TestServer, String) {
    server_of(TestServer::builder(), authority, clients)
}

/// The same with other settings.
pub(crate) fn server_of(
    builder: TestServerBuilder,
    authority: &Authority,
    clients: &str,
) -> (TestServer, String) {
    let (cert, key) = authority.issue("localhost");
    let port = free_port();
    let server = builder
        .arg("--tls-port", &port.to_string())
        .arg("--tls-cert-file", text(&cert))
        .arg("--tls-key-file", text(&key))
        .arg("--tls-ca-cert-file", text(&authority.ca()))
        .arg("--tls-auth-clients", clients)
        .start();
    (server, format!("rediss://localhost:{port}"))
}

#[test]
fn with_a_certificate_that_the_system_trusts() {
    let authority = Authority::new("ours");
    let (server, url) = server(&authority, "no");
    let trusted = authority.ca();
    let settings = [("HWORKER_REDIS_URL", url.as_str()), ("SSL_CERT_FILE", text(&trusted))];
    let mut worker = server.worker_process(&settings);
    let ids = produce(&server, &settings, &["over-tls"]);
    assert!(ids.len() == 1 && !ids[0].starts_with("error"), "{ids:?}");
    server.eventually("the job runs", SOON, || server.ended("over-tls") == 1);
    worker.terminate();
    assert!(worker.wait(SOON).is_some_and(|status| status.success()));

    // Without the trust nothing is enqueued, and the error says why.
    let ids = produce(&server, &[("HWORKER_REDIS_URL", &url)], &["untrusted"]);
    assert!(ids[0].starts_with("error") && ids[0].contains("certificate"), "{ids:?}");
}

#[test]
fn with_an_authority_and_a_client_certificate_from_the_environment() {
    let authority = Authority::new("ours");
    let (server, url) = server(&authority, "yes");
    let (ca, (cert, key)) = (authority.ca(), authority.issue("client"));
    let settings = [
        ("HWORKER_REDIS_URL", url.as_str()),
        ("HWORKER_TLS_CA", text(&ca)),
        ("HWORKER_TLS_CERT", text(&cert)),
        ("HWORKER_TLS_KEY", text(&key)),
    ];
    let mut worker = server.worker_process(&settings);
    let ids = produce(&server, &settings, &["mutual"]);
    assert!(ids.len() == 1 && !ids[0].starts_with("error"), "{ids:?}");
    server.eventually("the job runs", SOON, || server.ended("mutual") == 1);
    worker.terminate();
    assert!(worker.wait(SOON).is_some_and(|status| status.success()));
}

/// What an enqueue with these files says.
async fn refused(url: &str, ca: &Path, identity: Option<&(PathBuf, PathBuf)>) -> Error {
    let mut client = Client::builder().redis_url(url).tls_ca(ca);
    if let Some((cert, key)) = identity {
        client = client.tls_cert(cert).tls_key(key);
    }
    let client = client.build().expect("a client");
    let enqueued = act::with("never".into(), Vec::new()).on(&client).enqueue().await;
    enqueued.expect_err("not enqueued")
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_trusted_is_told_so() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let (server, url) = server(&ours, "yes");
    let client = |identity: (PathBuf, PathBuf)| {
        let (cert, key) = identity;
        Client::builder().redis_url(&url).tls_ca(ours.ca()).tls_cert(cert).tls_key(key).build()
    };
    let trusted = client(ours.issue("client")).expect("a client");
    act::with("trusted".into(), Vec::new()).on(&trusted).enqueue().await.expect("enqueued");

    let by_another = theirs.issue("client");
    let known = ours.issue("other");
    for (what, ca, identity, says) in [
        ("no certificate", &ours, None, "client's certificate: received fatal alert: Certifi"),
        ("another's", &ours, Some(&by_another), "client's certificate: received fatal alert: Unk"),
        ("another's server", &theirs, Some(&known), "server's certificate is not accepted"),
    ] {
        let error = refused(&url, &ca.ca(), identity).await;
        assert!(matches!(error, Error::Refused { .. }), "{what}: {error}");
        assert!(error.to_string().contains(says), "{what}: {error}");
    }
    let error = refused(&url.replace("localhost", "127.0.0.1"), &ours.ca(), Some(&known)).await;
    assert!(error.to_string().contains("not valid for name \"127.0.0.1\""), "{error}");
    assert_eq!(server.inspect().counts().await.expect("counted").waiting, 1);
}

#[test]
fn files_that_cannot_be_used_are_errors_at_once() {
    let authority = Authority::new("ours");
    let ((cert, key), (_, other_key)) = (authority.issue("client"), authority.issue("other"));
    let missing = authority.path("missing.pem");
    let builder = || Client::builder().redis_url("rediss://localhost");
    for (builder, says) in [
        (builder().tls_ca(&missing), "missing.pem cannot be read"),
        (builder().tls_ca(&key), "client.key holds no certificate"),
        (builder().tls_cert(&key).tls_key(&key), "client.key holds no certificate"),
        (builder().tls_cert(&cert).tls_key(&cert), "private key"),
        (builder().tls_cert(&cert).tls_key(&other_key), "KeyMismatch"),
        (builder().tls_cert(&cert), "HWORKER_TLS_KEY is not"),
        (builder().redis_url("redis://localhost").tls_ca(authority.ca()), "not encrypted"),
    ] {
        let error = builder.build().expect_err(says);
        assert!(matches!(error, Error::Config(_)) && error.to_string().contains(says), "{error}");
    }
}

/// A certificate for `localhost` that signed itself, as that of an authority or not, and its key.
fn self_signed(dir: &Path, is_ca: IsCa) -> (PathBuf, PathBuf) {
    let mut params = CertificateParams::new(["localhost".to_owned()]).expect("parameters");
    params.is_ca = is_ca;
    let key = KeyPair::generate().expect("a key");
    let cert = params.self_signed(&key).expect("a certificate");
    let files = (dir.join("self.pem"), dir.join("self.key"));
    std::fs::write(&files.0, cert.pem()).expect("written");
    std::fs::write(&files.1, key.serialize_pem()).expect("written");
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_signed_itself_serves_unless_it_is_an_authoritys() {
    // What `openssl req -x509` makes is an authority's: as the server's own it is not accepted, and the error says which would be.
    // Guard: `of_certificates` in `net/advice.rs`.
    for (is_ca, accepted) in
        [(IsCa::Ca(BasicConstraints::Unconstrained), false), (IsCa::ExplicitNoCa, true)]
    {
        let dir = tempfile::tempdir().expect("a directory");
        let (cert, key) = self_signed(dir.path(), is_ca);
        let port = free_port();
        let server = TestServer::builder()
            .alone()
            .arg("--tls-port", &port.to_string())
            .arg("--tls-cert-file", text(&cert))
            .arg("--tls-key-file", text(&key))
            .arg("--tls-ca-cert-file", text(&cert))
            .arg("--tls-auth-clients", "no")
            .start();
        let url = format!("rediss://localhost:{port}");
        if accepted {
            let client = Client::builder().redis_url(&url).tls_ca(&cert).build();
            let client = client.expect("a client");
            act::with("own".into(), Vec::new()).on(&client).enqueue().await.expect("enqueued");
        } else {
            let error = refused(&url, &cert, None).await;
            assert!(matches!(error, Error::Refused { .. }), "{error}");
            assert!(error.to_string().contains("CA:FALSE"), "{error}");
            let settings = [("HWORKER_REDIS_URL", url.as_str()), ("HWORKER_TLS_CA", text(&cert))];
            let mut worker = server.worker_process(&settings);
            assert!(worker.wait(SOON).is_some_and(|status| !status.success()), "it ends");
        }
    }
}

#[tokio::test]
async fn the_program_chooses_its_own_cryptography() {
    // Clients with `redis://` and `rediss://` are made and used -> the program's own `install_default` succeeds afterwards.
    // Guard: a provider is named for each connection, in `net/tls.rs`.
    let ours = Authority::new("ours");
    let (server, url) = server(&ours, "no");
    let encrypted = Client::builder().redis_url(&url).tls_ca(ours.ca()).build().expect("a client");
    for client in [server.client(), &encrypted] {
        act::with("any".into(), Vec::new()).on(client).enqueue().await.expect("enqueued");
    }
    let installed = rustls::crypto::ring::default_provider().install_default();
    assert!(installed.is_ok(), "somebody else has chosen");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_comes_to_an_idle_worker_over_tls_starts_as_over_any_other_line() {
    // Jobs of nearly the largest size come to a worker that waits, which goes on over the same connection.
    // Guard: `Queue::reserve_when_handed`.
    let ours = Authority::new("ours");
    let (server, url) = server(&ours, "no");
    let client = Client::builder().redis_url(&url).tls_ca(ours.ca()).build().expect("a client");
    let builder = server.worker().client(&client).register::<act>();
    let worker = InProcess::run(builder.concurrency(1).max_payload(100_000));
    let waiting = || {
        let clients: String = server.redis().ask(&["CLIENT", "LIST"]);
        let waiting = clients.lines().find(|client| client.contains(" cmd=blmove "));
        waiting.and_then(|client| Some(client.split_once(" addr=")?.0.to_owned()))
    };
    let mut connections = HashSet::new();
    for number in 0..3 {
        server.eventually_async("it waits", SOON, async || waiting().is_some()).await;
        connections.extend(waiting());
        let plan = vec![Vec::new(), vec![Act::Note("x".repeat(95_000))]];
        let job = act::with(format!("job-{number}"), plan).on(server.client());
        job.enqueue().await.expect("enqueued");
        let ended = async || server.ended(&format!("job-{number}")) == 1;
        server.eventually_async("it runs", SOON, ended).await;
    }
    assert_eq!(connections.len(), 1, "{connections:?}");
    worker.stop().await;
}
