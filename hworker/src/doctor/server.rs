//! One server: what it is, and whether it is set up to keep jobs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use super::finding::{Findings, Severity};
use crate::store::{Connection, Fault, info, server_info, server_time, slow_calls};
use crate::time::{local_unix_ms, millis};

/// A call that takes longer keeps workers waiting.
const SLOW_CALL: Duration = Duration::from_millis(10);

/// So long slow calls are of interest, in seconds.
const HOUR: u64 = 3600;

/// Clocks that differ by more lead to wrong times, in ms.
pub(super) const CLOCKS_DIFFER: u64 = 1_000;

/// What `INFO` says.
struct Info(BTreeMap<String, String>);

impl Info {
    fn text(&self, field: &str) -> &str {
        self.0.get(field).map_or("", String::as_str)
    }

    fn number(&self, field: &str) -> u64 {
        self.text(field).parse().unwrap_or(0)
    }
}

/// Looks at a server. Gives how far its clock is ahead of this machine's, in ms.
pub(super) async fn look(findings: &mut Findings, on: &Connection) -> Result<i64, Fault> {
    let mut times = Vec::new();
    let mut ahead = 0;
    for _ in 0..5 {
        let (sent, began) = (local_unix_ms(SystemTime::now()), Instant::now());
        let time = server_time(on).await?;
        times.push(began.elapsed());
        // In the middle of the call.
        let here = sent + millis(began.elapsed() / 2);
        ahead = i64::try_from(time).unwrap_or(0) - i64::try_from(here).unwrap_or(0);
    }
    times.sort_unstable();
    let took = times[times.len() / 2];
    let Some(info) = findings.look("server", info(on).await)?.map(Info) else {
        return Ok(ahead);
    };
    let version = match info.text("valkey_version") {
        "" => format!("Redis {}", info.text("redis_version")),
        version => format!("Valkey {version}"),
    };
    let took = format!("{:.1} ms", took.as_secs_f64() * 1000.0);
    let is = format!("{version}, {}, {took}", info.text("redis_mode"));
    let look = server_info(on).await?;
    match look.too_old() {
        Some(why) => findings.say(Severity::Fail, "server", why),
        None if info.text("role") == "slave" => findings.say(
            Severity::Fail,
            "server",
            format!("{is}; it is a replica and takes no jobs: name the master, or the Sentinels"),
        ),
        None if times[2] > SLOW_CALL => findings.say(
            Severity::Warn,
            "server",
            format!("{is} a call: workers and the server belong in one data centre"),
        ),
        None => findings.say(Severity::Ok, "server", is),
    }
    match look.evicts() {
        Some(why) => findings.say(
            Severity::Fail,
            "eviction",
            format!("{why}: CONFIG SET maxmemory-policy noeviction"),
        ),
        None => findings.say(Severity::Ok, "eviction", "noeviction"),
    }
    persistence(findings, &info);
    memory(findings, &info);
    clients(findings, &info);
    replicas(findings, &info);
    let now = local_unix_ms(SystemTime::now());
    if let Some(slow) = findings.look("slow calls", slow_calls(on).await)? {
        let now = now.saturating_add_signed(ahead) / 1000;
        let mut lately: Vec<_> =
            slow.iter().filter(|call| call.at.saturating_add(HOUR) > now).collect();
        lately.sort_by_key(|call| std::cmp::Reverse(call.micros));
        match lately.first() {
            None => findings.say(Severity::Ok, "slow calls", "none within the hour"),
            Some(slowest) => findings.say(
                Severity::Warn,
                "slow calls",
                format!(
                    "{} within the hour; the slowest is {} with {} ms, and nobody is served meanwhile: SLOWLOG GET",
                    lately.len(),
                    slowest.command,
                    slowest.micros / 1000
                ),
            ),
        }
    }
    Ok(ahead)
}

fn persistence(findings: &mut Findings, info: &Info) {
    let failed = |field: &str| info.text(field) == "err";
    let (level, text) = if failed("aof_last_write_status") {
        (
            Severity::Fail,
            "the last write to the append only file failed: is the disk full?".to_owned(),
        )
    } else if failed("rdb_last_bgsave_status") {
        (Severity::Fail, "the last snapshot failed: is the disk full, or the memory?".to_owned())
    } else if info.text("aof_enabled") == "1" {
        (Severity::Ok, "append only file".to_owned())
    } else {
        let changes = info.number("rdb_changes_since_last_save");
        let text = format!(
            "no append only file: if the server dies, what came since its last snapshot is lost, now {changes} changes. \
             CONFIG SET appendonly yes"
        );
        (Severity::Warn, text)
    };
    findings.say(level, "persistence", text);
}

fn memory(findings: &mut Findings, info: &Info) {
    let (used, most) = (info.number("used_memory"), info.number("maxmemory"));
    let gb = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    let of = format!("{} of {}", gb(used), gb(most));
    if most == 0 {
        let machine = info.number("total_system_memory");
        let advice = match machine * 3 / 4 / (1 << 20) {
            0 => String::new(),
            mb => format!(": CONFIG SET maxmemory {mb}mb"),
        };
        let text = format!(
            "{} and no limit: when the machine is full, the kernel ends the server{advice}",
            gb(used)
        );
        findings.say(Severity::Warn, "memory", text);
    } else if used > most / 10 * 9 {
        let text = format!("{of}: soon nothing can be enqueued. Drop records, or give it more");
        findings.say(Severity::Fail, "memory", text);
    } else if used > most / 4 * 3 {
        findings.say(Severity::Warn, "memory", of);
    } else {
        findings.say(Severity::Ok, "memory", of);
    }
}

fn clients(findings: &mut Findings, info: &Info) {
    let (connected, most) = (info.number("connected_clients"), info.number("maxclients"));
    let refused = info.number("rejected_connections");
    let of = format!("{connected} of {most} connections");
    if most > 0 && connected > most / 5 * 4 {
        findings.say(Severity::Warn, "connections", format!("{of}: raise maxclients"));
    } else if refused > 0 {
        let text = format!("{of}; {refused} were refused since it started: raise maxclients");
        findings.say(Severity::Warn, "connections", text);
    } else {
        findings.say(Severity::Ok, "connections", of);
    }
}

/// Those of which it knows; one without replicas may be meant so.
fn replicas(findings: &mut Findings, info: &Info) {
    let count = info.number("connected_slaves");
    for number in 0..count {
        let replica = info.text(&format!("slave{number}"));
        let field = |name: &str| {
            replica.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        let (state, lag) = (field("state").unwrap_or(""), field("lag").unwrap_or("0"));
        let whole = state == "online" && lag.parse::<u64>().is_ok_and(|lag| lag <= 10);
        let text = format!(
            "{}:{} {state}, {lag} s behind",
            field("ip").unwrap_or(""),
            field("port").unwrap_or("")
        );
        findings.say(if whole { Severity::Ok } else { Severity::Warn }, "replica", text);
    }
}

/// Clocks of servers against this machine's and each other's.
pub(super) fn compare_clocks(findings: &mut Findings, clocks: &[i64]) {
    let ahead = clocks.iter().copied();
    let (Some(first), Some(last)) = (ahead.clone().min(), ahead.max()) else { return };
    let limit = i64::try_from(CLOCKS_DIFFER).unwrap_or(0);
    let (level, text) = if last - first > limit {
        (
            Severity::Fail,
            format!(
                "the masters' clocks differ by {} ms: delays differ from shard to shard",
                last - first
            ),
        )
    } else if first.abs().max(last.abs()) > limit {
        let text = format!("the server's clock is {last} ms ahead of this machine's");
        (Severity::Warn, text)
    } else {
        (Severity::Ok, "as this machine's".to_owned())
    };
    findings.say(level, "clock", text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(look: impl Fn(&mut Findings, &Info), fields: &[(&str, &str)]) -> (Severity, String) {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut findings = Findings::default();
        look(&mut findings, &Info(fields.collect()));
        let last = findings.0.pop().expect("a finding");
        (last.severity, last.text)
    }

    #[test]
    fn what_info_says_is_judged() {
        let level = |look: fn(&mut Findings, &Info), fields: &[(&str, &str)]| said(look, fields).0;
        assert_eq!(level(persistence, &[("aof_enabled", "1")]), Severity::Ok);
        assert_eq!(level(persistence, &[("aof_enabled", "0")]), Severity::Warn);
        assert_eq!(level(persistence, &[("rdb_last_bgsave_status", "err")]), Severity::Fail);
        let full = [("aof_enabled", "1"), ("aof_last_write_status", "err")];
        assert_eq!(level(persistence, &full), Severity::Fail);
        for (used, expected) in
            [("50", Severity::Ok), ("80", Severity::Warn), ("95", Severity::Fail)]
        {
            assert_eq!(level(memory, &[("used_memory", used), ("maxmemory", "100")]), expected);
        }
        let (unlimited, text) = said(memory, &[("total_system_memory", "4294967296")]);
        assert!(unlimited == Severity::Warn && text.contains("maxmemory 3072mb"), "{text}");
        let crowded = [("connected_clients", "90"), ("maxclients", "100")];
        assert_eq!(level(clients, &crowded), Severity::Warn);
        assert_eq!(level(clients, &[("rejected_connections", "1")]), Severity::Warn);
        assert_eq!(
            level(clients, &[("connected_clients", "9"), ("maxclients", "100")]),
            Severity::Ok
        );
        for (replica, expected) in [
            ("ip=10.0.0.7,port=6379,state=online,offset=1,lag=1", Severity::Ok),
            ("ip=10.0.0.7,port=6379,state=wait_bgsave,offset=1,lag=0", Severity::Warn),
            ("ip=10.0.0.7,port=6379,state=online,offset=1,lag=60", Severity::Warn),
        ] {
            let fields = [("connected_slaves", "1"), ("slave0", replica)];
            assert_eq!(level(replicas, &fields), expected, "{replica}");
        }
    }

    #[test]
    fn clocks_are_compared() {
        let level = |ahead: &[i64]| {
            let mut findings = Findings::default();
            compare_clocks(&mut findings, ahead);
            findings.0.pop().map(|finding| finding.severity)
        };
        assert_eq!(level(&[]), None);
        assert_eq!(level(&[3, -900]), Some(Severity::Ok));
        assert_eq!(level(&[-5000]), Some(Severity::Warn));
        assert_eq!(level(&[0, 1500]), Some(Severity::Fail));
    }
}
