//! What to do where a server cannot be used, in words that stand behind what the connection said.

use redis::{ErrorKind, RedisError};

/// What is to be said of an error.
pub(super) struct Advice {
    pub(super) text: String,
    /// Another try would meet the same.
    pub(super) for_good: bool,
}

/// What to do about an error, of making a connection or of a call on one. `None` where it says all that there is to say.
pub(super) fn of(error: &RedisError, connecting: bool) -> Option<Advice> {
    let said = without_arguments(error);
    let advice = |what: &str, for_good| Some(Advice { text: format!("{said}; {what}"), for_good });
    if connecting && let Some(text) = of_certificates(&said) {
        return Some(Advice { text, for_good: true });
    }
    if connecting && error.kind() == ErrorKind::Parse {
        let text = "what answers there is no Redis server: look at the host and the port".into();
        return Some(Advice { text, for_good: true });
    }
    if connecting && said.contains("received corrupt message") {
        return advice(NO_TLS, true);
    }
    if let Some(what) = of_answer(error, &said) {
        return advice(what, false);
    }
    if connecting && let Some(what) = of_absence(error, &said) {
        return advice(what, false);
    }
    None
}

/// What the server said, without the arguments that it repeats of a command that it does not know: those of a job may be among them.
fn without_arguments(error: &RedisError) -> String {
    let said = error.to_string();
    let arguments = said.find(", with args beginning with");
    let said = arguments.map_or(said.as_str(), |at| &said[..at]);
    said.trim_end_matches('.').to_owned()
}

/// What a server answers that lets nobody in, or not do this.
fn of_answer(error: &RedisError, said: &str) -> Option<&'static str> {
    let is = |code: &str| error.code() == Some(code);
    if is("NOAUTH") {
        Some(
            "it asks for a password: write it into the URL, `redis://:password@host`, `redis+unix:///path?pass=password`, for sentinels `?sentinel_pass=password`",
        )
    } else if is("WRONGPASS") || error.kind() == ErrorKind::AuthenticationFailed {
        Some(
            "the user or the password in the URL is not one of the server's; in a password write `%40` for `@`, `%2F` for `/`, `%23` for `#`",
        )
    } else if said.contains("unknown command") {
        Some(
            "hworker needs this command: take it out of `rename-command` in the server's configuration; Redis has it from 6.2.2, Valkey from 7.2",
        )
    } else if is("NOPERM") || (is("ERR") && said.contains("can't run this command")) {
        Some(
            "give its user the rights that SECURITY.md lists, for scripts `+eval +evalsha` and what they call",
        )
    } else if said.contains("WRONGTYPE") {
        Some(
            "another program uses a key of this queue for something else: give the jobs a prefix of their own in HWORKER_PREFIX",
        )
    } else if error.kind() == ErrorKind::RESP3NotSupported || is("NOPROTO") {
        Some("hworker needs Redis 6.2.2 or Valkey 7.2 or later")
    } else {
        None
    }
}

/// Errors that say that no server is there, or not yet.
fn of_absence(error: &RedisError, said: &str) -> Option<&'static str> {
    if error.is_connection_refusal() {
        Some("nothing listens there: start the server, or write another address")
    } else if said.contains("failed to lookup address") {
        Some("the host's name is not known here: look at its spelling, and at this machine's DNS")
    } else {
        None
    }
}

/// What to do where TLS is spoken and not expected, and the other way round.
pub(super) const NO_TLS: &str =
    "what listens there does not speak TLS: write `redis` instead of `rediss`, or its port for TLS";
pub(super) const IS_TLS: &str = "what listens there speaks TLS: write `rediss` instead of `redis` (feature `tls` of hworker), or its \
     port without TLS";

/// What to do where one side does not accept the other's certificate: the words of TLS say little.
fn of_certificates(said: &str) -> Option<String> {
    const OF_CLIENT: [&str; 9] = [
        "CertificateRequired",
        "UnknownCA",
        "BadCertificate",
        "CertificateExpired",
        "CertificateRevoked",
        "CertificateUnknown",
        "UnsupportedCertificate",
        "AccessDenied",
        "DecryptError",
    ];
    let alert = said.split_once("received fatal alert: ").map(|(_, alert)| alert);
    if alert.is_some_and(|alert| OF_CLIENT.iter().any(|one| alert.starts_with(one))) {
        return Some(format!(
            "the server does not accept the client's certificate: {said}; HWORKER_TLS_CERT and HWORKER_TLS_KEY name one that it trusts"
        ));
    }
    let (_, why) = said.split_once("invalid peer certificate")?;
    let what = if why.contains("CaUsedAsEndEntity") {
        "it is an authority's, as `openssl req -x509` makes it: give the server one that is not (`-addext \
         basicConstraints=critical,CA:FALSE`), and name its issuer in HWORKER_TLS_CA"
    } else if why.contains("not valid for name") {
        "write a host into the URL for which it was issued"
    } else if why.contains("expired") || why.contains("not valid yet") {
        "renew it, or set this machine's clock"
    } else {
        "HWORKER_TLS_CA names the authorities to trust"
    };
    Some(format!("the server's certificate is not accepted: {said}; {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> String {
        let reply = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("a reply");
        let error = reply.extract_error().expect_err("an error");
        of(&error, false).map_or_else(|| error.to_string(), |advice| advice.text)
    }

    #[test]
    fn what_a_server_answers_is_said_with_what_to_do_and_without_arguments() {
        for (line, what) in [
            ("NOAUTH Authentication required.", "asks for a password"),
            ("WRONGPASS invalid username-password pair or user is disabled.", "%40"),
            ("NOPERM User a has no permissions to run the 'eval' command", "+eval +evalsha"),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", "HWORKER_PREFIX"),
            ("NOPROTO unsupported protocol version", "6.2.2"),
            ("ERR unknown command 'EVAL', with args beginning with: 's3cret' ", "rename-command"),
            ("ERR unknown command `LPUSH`, with args beginning with: `k`, `s3cret`, ", "LPUSH"),
        ] {
            let said = said(line);
            assert!(said.contains(what) && !said.contains("s3cret"), "{said}");
            assert!(!said.ends_with('.'), "{said}");
        }
        assert!(!said("OOM command not allowed").contains(';'));
    }
}
