//! What users may do, against what `SECURITY.md` says that they need.

use super::finding::{Findings, Severity};
use crate::store::{Connection, Fault, own_user, refused, users};

/// The users of `SECURITY.md`, each with its letter below. The last is who runs the doctor.
const ROLES: [(&str, char); 4] = [
    ("hworker-producer", 'p'),
    ("hworker-worker", 'w'),
    ("hworker-observer", 'r'),
    ("hworker-operator", 'o'),
];

/// Calls that they make, each with the letters of those who need it. `<kind>` stands for a key.
const CALLS: &[(&str, &str)] = &[
    ("pwro", "evalsha 0 0"),
    ("pwro", "eval 0 0"),
    ("pwro", "time"),
    ("pwo", "lpush <jobs> 1"),
    ("pwo", "rpush <jobs> 1"),
    ("w", "rpop <jobs>"),
    ("w", "lpop <inbox>"),
    ("pwro", "lpos <jobs> 1"),
    ("w", "lmove <inbox> <jobs> left right"),
    ("w", "blmove <jobs> <inbox> right left 1"),
    ("w", "blpop <bell> 1"),
    ("o", "lset <jobs> 0 1"),
    ("o", "lindex <jobs> 0"),
    ("wro", "llen <jobs>"),
    ("p", "llen <bell>"),
    ("p", "zcard <jobs>"),
    ("p", "zlexcount <jobs> - +"),
    ("p", "zscore <jobs> 1"),
    ("p", "hmget <jobs> 1"),
    ("p", "exists <jobs>"),
    ("wro", "lrange <jobs> 0 0"),
    ("wo", "ltrim <jobs> 0 -1"),
    ("p", "zadd <scheduled> 1 1"),
    ("wo", "zadd <scheduled> 1 1"),
    ("wo", "zrem <scheduled> 1"),
    ("wo", "zpopmin <failed>"),
    ("wro", "zcard <failed>"),
    ("wro", "zcount <workers> 0 1"),
    ("wro", "zscore <workers> 1"),
    ("wro", "zlexcount <jobs> - +"),
    ("wo", "zremrangebyscore <jobs> 0 0"),
    ("w", "zrandmember <jobs>"),
    ("pwro", "zrange <scheduled> 0 0"),
    ("wo", "zrangebyscore <workers> 0 1"),
    ("wro", "hget <stat> 1"),
    ("wro", "hmget <stat> 1"),
    ("p", "hset <meta> 1 1"),
    ("wo", "hset <stat> 1 1"),
    ("wo", "hsetnx <stat> 1 1"),
    ("wo", "hincrby <stat> 1 1"),
    ("wo", "hrandfield <stat> 1"),
    ("wo", "hdel <stat> 1"),
    ("wo", "hexists <stat> 1"),
    ("wro", "hkeys <stat>"),
    ("wro", "hlen <stat>"),
    ("wro", "hstrlen <stat> 1"),
    ("wro", "hgetall <stat>"),
    ("wro", "hscan <stat> 0"),
    ("o", "xtrim <meta> maxlen 1"),
    ("o", "xadd <meta> * 1 1"),
    ("ro", "xrevrange <meta> + -"),
    ("ro", "xrange <meta> - +"),
    ("wo", "get <token>"),
    ("wo", "set <token> 1"),
    ("p", "get <token>"),
    ("r", "get <job>"),
    ("p", "set <token> 1"),
    ("wo", "setbit <batch> 0 1"),
    ("wo", "getbit <batch> 0"),
    ("o", "bitcount <batch>"),
    ("wo", "del <timer>"),
    ("wo", "exists <timer>"),
    ("wo", "expire <stat> 1"),
    ("wo", "pexpire <stat> 1"),
    ("w", "persist <stat>"),
    ("wo", "pttl <stat>"),
    ("w", "client id"),
    ("w", "client reply on"),
    ("w", "client unblock 1"),
    ("o", "scan 0"),
    ("o", "unlink <jobs>"),
    ("o", "type <jobs>"),
    ("o", "renamenx <jobs> <scheduled>"),
];

pub(super) async fn look(
    findings: &mut Findings,
    on: &Connection,
    prefix: &str,
) -> Result<(), Fault> {
    let Some(own) = findings.look("rights", own_user(on).await)? else { return Ok(()) };
    let all = users(on).await.unwrap_or_default();
    let known = ROLES.iter().filter(|(name, _)| all.iter().any(|user| user == name));
    let (mut asked, operator) = (known.copied().collect::<Vec<_>>(), 'o');
    if !asked.iter().any(|(name, _)| *name == own) {
        asked.push((&own, operator));
    }
    for (user, role) in asked {
        let needed = CALLS.iter().filter(|(roles, _)| roles.contains(role));
        let calls: Vec<_> = needed.map(|(_, call)| words(call, prefix)).collect();
        let about = format!("rights of {user}");
        let Some(refused) = findings.look(&about, refused(on, user, &calls).await)? else {
            continue;
        };
        let missing: Vec<_> = refused.iter().filter_map(|place| calls.get(*place)).collect();
        let missing: Vec<_> = missing.iter().map(|words| words[0].as_str()).collect();
        let Some((role, _)) = ROLES.iter().find(|(_, letter)| *letter == role) else { continue };
        if missing.is_empty() {
            findings.say(Severity::Ok, about, format!("all of {role} in SECURITY.md"));
        } else {
            let text = format!("it may not {}, as {role} in SECURITY.md may", missing.join(", "));
            findings.say(Severity::Warn, about, text);
        }
    }
    Ok(())
}

/// A call's words, with keys of this prefix.
fn words(call: &str, prefix: &str) -> Vec<String> {
    let word = |word: &str| match word.strip_prefix('<').and_then(|kind| kind.strip_suffix('>')) {
        Some("meta") => format!("{prefix}-meta:doctor"),
        Some(kind) => format!("{prefix}-{kind}-doctor"),
        None => word.to_owned(),
    };
    call.split(' ').map(word).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_roles_are_those_of_the_document() {
        let document = include_str!("../../../SECURITY.md");
        for (name, letter) in ROLES {
            let start = format!("ACL SETUSER {name} ");
            let line = document.lines().find(|line| line.starts_with(&start)).expect(name);
            let granted: BTreeSet<_> = line
                .split(' ')
                .filter_map(|word| word.strip_prefix('+'))
                .map(|command| command.replace('|', " "))
                // Without it all is done but for a warning.
                .filter(|command| command != "info")
                .collect();
            let checked: BTreeSet<_> = CALLS
                .iter()
                .filter(|(roles, _)| roles.contains(letter))
                .map(|(_, call)| {
                    let words: Vec<_> = call.split(' ').collect();
                    let count = if words[0] == "client" { 2 } else { 1 };
                    words[..count].join(" ")
                })
                .collect();
            assert_eq!(granted, checked, "{name}");
        }
    }
}
