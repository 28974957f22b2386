//! What must hold for whatever comes from outside. The tests below try it with random values, `script/fuzz` with bytes that
//! a fuzzer finds its way with.

use std::time::Duration;

use crate::backoff::{Backoff, CallBackoff, delay};
use crate::config::{TlsFiles, UrlSource};
use crate::envelope::{AttemptError, Envelope, Header, Rewrite};
use crate::keys::{KeySpace, Keys, is_name, is_prefix};
use crate::store::{Address, Lease};
use crate::strict_json;
use crate::time::{day, millis, parse_duration};

/// What workers write; all else is kept as it came.
const WRITTEN: [&str; 4] = ["id", "attempt", "errors", "snoozes"];

/// Nothing that is pushed into a queue makes its reader panic; and what can be read can be written back, with nothing
/// changed but what was to be.
///
/// # Panics
/// Where that does not hold.
pub fn envelope(payload: &[u8]) {
    if let Ok(text) = std::str::from_utf8(payload)
        && let Some((short, long)) = Envelope::both_ways(text)
    {
        assert_eq!(format!("{short:?}"), format!("{:?}", long.expect("the long way reads it")));
    }
    let envelope = match Envelope::decode(payload) {
        Ok(envelope) => envelope,
        Err(reason) => {
            assert!(!reason.is_empty());
            let _ = Header::of_newer(payload);
            return;
        }
    };
    let mut rewrite = Rewrite::of(payload).expect("what was read can be rewritten");
    let before = others(&rewrite);
    let id = rewrite.id();
    rewrite.set("attempt", &envelope.attempt.saturating_add(1));
    rewrite.count("snoozes");
    rewrite.add_error(&error());
    let bytes = rewrite.to_bytes();
    let again = Envelope::decode(&bytes).expect("what was written can be read");
    if let Some(given) = envelope.id.as_deref() {
        assert_eq!(given, id.as_str());
    }
    assert_eq!(again.id.as_deref(), Some(id.as_str()));
    assert_eq!(again.given_args(), envelope.given_args());
    assert_eq!(again.attempt, envelope.attempt.saturating_add(1));
    let same = |one: &Envelope<'_>, other: &Envelope<'_>| {
        one.job == other.job
            && one.v == other.v
            && one.crashes == other.crashes
            && one.max_attempts == other.max_attempts
            && one.timeout == other.timeout
            && one.backoff == other.backoff
            && one.retry_until == other.retry_until
            && one.expires_at == other.expires_at
    };
    assert!(same(&again, &envelope));
    let mut rewrite = Rewrite::of(&bytes).expect("and rewritten again");
    assert_eq!(others(&rewrite), before);
    let fewer = rewrite.bytes_within(payload.len());
    Envelope::decode(&fewer).expect("without its errors it can be read too");
}

/// The fields that no worker writes, in their order, byte for byte.
fn others(rewrite: &Rewrite<'_>) -> Vec<(String, String)> {
    let fields = rewrite.fields().filter(|(name, _)| !WRITTEN.contains(name));
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn error() -> AttemptError {
    AttemptError {
        attempt: 1,
        started_at: None,
        at: 0,
        kind: "error".into(),
        message: "\"\u{0}".into(),
        place: None,
        backtrace: None,
        worker: "w".into(),
    }
}

/// Texts that stand for times, delays and leases are read without a panic, and come to what they say.
///
/// # Panics
/// Where that does not hold.
pub fn texts(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    if let Ok(duration) = parse_duration(text) {
        let spelled = spelled(duration);
        assert_eq!(parse_duration(&spelled), Ok(duration), "{spelled}");
    }
    if let Ok(own) = CallBackoff::parse(text) {
        let error = "error".into();
        for ended in [0, 1, 2, 41, u32::MAX] {
            let waits = delay(&Backoff::DEFAULT, Some(&own), ended, &error);
            let longest = match &own {
                CallBackoff::List(delays) => delays.iter().copied().max().unwrap_or(0),
                CallBackoff::Exponential { cap_ms, .. } => *cap_ms,
            };
            assert!(millis(waits) <= longest);
        }
    }
    let lease = Lease::parse(text);
    assert_eq!(lease.to_string(), text);
    let _ = lease.token();
    if is_prefix(text) {
        assert!(is_name(text));
        let keys = Keys::new(&KeySpace { prefix: text.into(), cluster: false }, "mail");
        assert!(keys.owns(&keys.jobs) && keys.owns(&keys.worker("w.1").inbox));
    }
    let mut number = [0; 8];
    number.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
    assert!(day(u64::from_le_bytes(number)).len() >= 8);
}

/// A duration as [`parse_duration`] reads it.
fn spelled(duration: Duration) -> String {
    let ms = duration.as_millis();
    let (s, m, h) = (ms / 1_000, ms / 60_000, ms / 3_600_000);
    format!("{h}h{}m{}s{}ms", m % 60, s % 60, ms % 1_000)
}

/// No URL makes its reader panic, and none of what is said of it has its password.
///
/// # Panics
/// Where that does not hold.
pub fn address(data: &[u8]) {
    const SECRET: &str = "s3cret";
    let text = &*String::from_utf8_lossy(data);
    let _ = Address::parse(text, UrlSource::Program, &TlsFiles::default());
    let (scheme, rest) = text.split_once(' ').unwrap_or(("redis", text));
    let (password, host) = rest.split_once(' ').unwrap_or(("", rest));
    if [scheme, password, host].iter().any(|part| part.contains(SECRET)) {
        return;
    }
    let shown = match Address::parse(
        &format!("{scheme}://user:{SECRET}{password}@{host}"),
        UrlSource::Program,
        &TlsFiles::default(),
    ) {
        Ok(address) => format!("{address} {address:?}"),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!shown.contains(SECRET), "{shown}");
}

/// JSON is written as `serde_json` writes it.
///
/// # Panics
/// Where that does not hold.
pub fn json(data: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) {
        let (written, _) = strict_json::to_vec(&value).expect("what was read can be written");
        assert_eq!(written, serde_json::to_vec(&value).expect("JSON"));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::context::Context;
    use crate::envelope::{JobId, NewEnvelope, VERSION};
    use crate::job::Invocation;
    use crate::priority::Priority;

    /// Any JSON, some of it large or deep.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..8)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// A field of an envelope that may well fit, or not.
    fn field() -> impl Strategy<Value = (String, String)> {
        const NAMES: &[&str] = &[
            "v",
            "id",
            "job",
            "args",
            "args_v",
            "attempt",
            "crashes",
            "max_attempts",
            "timeout",
            "backoff",
            "retry_until",
            "expires_at",
            "errors",
            "snoozes",
            "enqueued_at",
            "ready_at",
            "new",
            "\\u0069d",
        ];
        let name = prop_oneof![
            12 => prop::sample::select(NAMES).prop_map(str::to_owned),
            1 => "[a-z_\\\\\"u0-9]{0,8}",
        ];
        let number =
            prop_oneof!["[0-9]{1,22}", "-?[0-9]{1,3}(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,4})?"];
        let value = prop_oneof![
            4 => number,
            2 => Just(r#""a""#.to_owned()),
            2 => value().prop_map(|value| value.to_string()),
            1 => Just(r#"[{"at":1,"worker":"w"}]"#.to_owned()),
            1 => Just(r#""\ud800""#.to_owned()),
            1 => (1..5_000usize).prop_map(|deep| "[".repeat(deep) + &"]".repeat(deep)),
            1 => "[ \\[\\]{}\",:0-9a-z\\\\]{0,20}",
        ];
        (name, value)
    }

    #[derive(Clone, serde::Serialize, serde::Deserialize)]
    #[serde(tag = "kind", content = "value")]
    enum Tagged {
        Float(f64),
    }

    #[hworker::job]
    fn floats(doubles: Vec<f64>, singles: Vec<f32>, tagged: Vec<Tagged>) {
        let _ = (doubles, singles, tagged);
    }

    fn bits(floats: &floats) -> Vec<u64> {
        let doubles = floats.doubles.iter().map(|float| float.to_bits());
        let singles = floats.singles.iter().map(|float| float.to_bits().into());
        let tagged = floats.tagged.iter().map(|Tagged::Float(float)| float.to_bits());
        doubles.chain(singles).chain(tagged).collect()
    }

    proptest! {
        #[test]
        fn any_bytes(payload in prop::collection::vec(any::<u8>(), 0..200)) {
            envelope(&payload);
            texts(&payload);
            address(&payload);
            json(&payload);
        }

        #[test]
        fn envelopes_with_any_fields(
            fields in prop::collection::vec(field(), 0..8),
            job in prop::bool::weighted(0.9),
            args in value(),
        ) {
            let mut written: Vec<_> =
                fields.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
            if job {
                let args = if args.is_object() { args } else { json!({ "x": args }) };
                written.push(format!("\"args\":{args}"));
                written.push("\"job\":\"a\"".to_owned());
            }
            envelope(format!("{{{}}}", written.join(",")).as_bytes());
        }

        #[test]
        fn what_is_enqueued_is_read(
            job in any::<String>(),
            args in value(),
            numbers in any::<(u64, Option<u32>, Option<u64>, Option<u64>)>(),
            backoff in prop::option::of(any::<String>()),
            priority in prop::option::of(prop::sample::select(Priority::ALL.to_vec())),
            args_v in prop::option::of(1..=u32::MAX),
        ) {
            let (enqueued_at, max_attempts, timeout, retry_until) = numbers;
            let (id, args) = (JobId::fresh(), json!({ "x": args }));
            let new = NewEnvelope {
                v: VERSION,
                id: &id,
                job: &job,
                args_v,
                args: &args,
                enqueued_at,
                ready_at: None,
                tags: &[],
                meta: None,
                parent: None,
                max_attempts,
                timeout,
                backoff: backoff.as_deref(),
                retry_until,
                expires_at: retry_until,
                priority,
                keep: timeout,
            };
            let (payload, _) = strict_json::to_vec(&new).expect("written");
            envelope(&payload);
            let read = Envelope::decode(&payload).expect("read");
            prop_assert_eq!(read.id.as_deref(), Some(id.as_str()));
            prop_assert_eq!(&*read.job, job.as_str());
            prop_assert_eq!(read.args(), args.to_string());
            prop_assert_eq!(read.args_version(), args_v.unwrap_or(1));
            prop_assert_eq!((read.attempt, read.max_attempts), (1, max_attempts));
            prop_assert_eq!((read.timeout, read.retry_until), (timeout, retry_until));
            prop_assert_eq!((read.expires_at, read.keep), (retry_until, timeout));
            prop_assert_eq!(read.priority(), priority);
            prop_assert_eq!(read.backoff, backoff);
        }

        // Guard: the feature `float_roundtrip` of serde_json. `cargo test -p hworker` misses it; where `tests` is built along, a
        // dependency of those has it too.
        #[test]
        fn floats_arrive_bit_for_bit(
            doubles in prop::collection::vec(any::<u64>(), 100),
            singles in prop::collection::vec(any::<u32>(), 100),
            fractions in prop::collection::vec(0.0..1.0, 100),
        ) {
            let mut doubles: Vec<_> = doubles.into_iter().map(f64::from_bits).collect();
            doubles.retain(|float| float.is_finite());
            let mut singles: Vec<_> = singles.into_iter().map(f32::from_bits).collect();
            singles.retain(|float| float.is_finite());
            let tagged = fractions.iter().copied().map(Tagged::Float).collect();
            let sent = floats { doubles, singles, tagged };
            let id = JobId::fresh();
            let new = NewEnvelope {
                v: VERSION,
                id: &id,
                job: floats::NAME,
                args_v: None,
                args: &sent,
                enqueued_at: 1,
                ready_at: None,
                tags: &[],
                meta: None,
                parent: None,
                max_attempts: None,
                timeout: None,
                backoff: None,
                retry_until: None,
                expires_at: None,
                priority: None,
                keep: None,
            };
            let (payload, _) = strict_json::to_vec(&new).expect("written");
            let read = Envelope::decode(&payload).expect("read");
            let invocation = Invocation { args: read.args(), context: &Context::for_test(1) };
            let arrived: floats = invocation.args().expect("arguments");
            prop_assert_eq!(bits(&arrived), bits(&sent));
        }

        #[test]
        fn durations_and_backoffs(
            text in "(exp\\()?[0-9]{0,20}(ms|s|m|h|d|x)?[0-9]{0,4}(ms|s|m)?(, ?[0-9]{1,5}(s|m|h))?\\)?",
            ms in any::<u64>(),
        ) {
            texts(text.as_bytes());
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&spelled(duration)), Ok(duration));
        }

        #[test]
        fn urls(
            scheme in "rediss?(-cluster|\\+unix|-sentinel)?|unix|valkey|[a-z:/]{0,8}",
            password in "[a-z%@:/?#,\\[\\]0-9]{0,12}",
            host in "[a-z0-9.:,/?#@=&\\[\\]%-]{0,24}",
        ) {
            address(format!("{scheme} {password} {host}").as_bytes());
            address(format!("{scheme}://{host}").as_bytes());
        }

        #[test]
        fn values(value in value()) {
            json(value.to_string().as_bytes());
        }
    }

    #[test]
    fn what_the_fuzzer_starts_from() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fuzz/corpus");
        let seeds = |target: &str| {
            let files = std::fs::read_dir(format!("{corpus}/{target}")).expect("the corpus");
            files.map(|file| std::fs::read(file.expect("a file").path()).expect("a seed"))
        };
        seeds("envelope").for_each(|seed| envelope(&seed));
        seeds("texts").for_each(|seed| texts(&seed));
        seeds("address").for_each(|seed| address(&seed));
        seeds("json").for_each(|seed| json(&seed));
    }
}
