//! What a URL says about sentinels and their master.

/// Where sentinels listen if nobody says otherwise.
const PORT: u16 = 26_379;

/// The URL's parts for the sentinels themselves, as they are written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    pub(super) name: &'a str,
    /// What follows the host in the URL of a server.
    pub(super) after: String,
    pub(super) user: &'a str,
    pub(super) password: &'a str,
    pub(super) fragment: &'a str,
}

impl<'a> Parts<'a> {
    /// Of what follows the hosts: `/<master>/<db>?<query>#<fragment>`.
    pub(super) fn of(after: &'a str) -> Result<Self, String> {
        let (rest, fragment) = after.find('#').map_or((after, ""), |at| after.split_at(at));
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut parts, mut others) = (Self { fragment, ..Self::default() }, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("master" | "sentinelMasterId", name)) => parts.name = name,
                Some(("sentinel_user", user)) => parts.user = user,
                Some(("sentinel_pass", password)) => parts.password = password,
                _ => others.push(pair),
            }
        }
        let mut path = path.trim_start_matches('/');
        if parts.name.is_empty() {
            (parts.name, path) = path.split_once('/').unwrap_or((path, ""));
        }
        if parts.name.is_empty() {
            return Err("it names no master; write it after the hosts".into());
        }
        parts.after = format!("/{path}");
        if !others.is_empty() {
            parts.after = format!("{}?{}", parts.after, others.join("&"));
        }
        parts.after.push_str(fragment);
        Ok(parts)
    }
}

/// A host with a port.
pub(super) fn with_port(host: &str) -> String {
    // The colons of an IPv6 address stand in brackets.
    let has_port = host.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
    if has_port { host.to_owned() } else { format!("{host}:{PORT}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_write_is_understood() {
        let parts = |after| Parts::of(after).expect(after);
        let plain = parts("/jobs");
        assert_eq!((plain.name, plain.after.as_str(), plain.password), ("jobs", "/", ""));
        let all = parts("/jobs/2?sentinel_user=u&a=b&sentinel_pass=p%23#insecure");
        assert_eq!((all.name, all.after.as_str()), ("jobs", "/2?a=b#insecure"));
        assert_eq!((all.user, all.password, all.fragment), ("u", "p%23", "#insecure"));
        for query in ["/2?sentinelMasterId=jobs", "/2?master=jobs"] {
            let other = parts(query);
            assert_eq!((other.name, other.after.as_str()), ("jobs", "/2"));
        }
        assert_eq!(parts("?master=jobs").after, "/");
        assert!(Parts::of("").is_err() && Parts::of("/?x=y").is_err());
    }

    #[test]
    fn a_sentinel_has_a_port_of_its_own() {
        for (host, with) in [
            ("a", "a:26379"),
            ("a:1", "a:1"),
            ("[::1]", "[::1]:26379"),
            ("[::1]:1", "[::1]:1"),
            ("10.0.0.1", "10.0.0.1:26379"),
        ] {
            assert_eq!(with_port(host), with);
        }
    }
}
