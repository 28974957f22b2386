//! The keys of the attribute, and what is said of others.

/// The keys that work, each with an example of its value.
pub(crate) const KEYS: [(&str, &str); 32] = [
    ("name", "\"mail.welcome\""),
    ("aliases", "[\"old_name\"]"),
    ("version", "2"),
    ("upgrade", "path::to::function"),
    ("type", "SendWelcome"),
    ("queue", "\"mail\""),
    ("timeout", "\"120s\""),
    ("on_panic", "\"retry\""),
    ("on_error", "\"retry\""),
    ("on_timeout", "\"retry\""),
    ("on_crash", "\"retry\""),
    ("on_cancel", "\"token\""),
    ("on_failed", "path::to::job"),
    ("max_attempts", "25"),
    ("expires", "\"10m\""),
    ("backoff", "\"exp(5s, 6h)\""),
    ("priority", "\"high\""),
    ("encrypted", "\"only\""),
    ("redact", "\"card, to\""),
    ("keep_result", "\"1h\""),
    ("keep_error", ""),
    ("concurrency", "5"),
    ("rate_limit", "\"100/m\""),
    ("fair", "(key = tenant)"),
    ("unique", "(key = user_id)"),
    ("debounce", "(wait = \"5s\", key = document)"),
    ("throttle", "\"1m\""),
    ("cron", "\"0 9 * * MON-FRI\""),
    ("every", "\"30s\""),
    ("timezone", "\"Europe/Berlin\""),
    ("isolate", "\"process\""),
    ("crate", "path::to::hworker"),
];

pub(crate) fn unknown(key: &str) -> String {
    let known = KEYS.iter().map(|(known, _)| *known);
    let hint = meant(key).map(str::to_owned).or_else(|| near(key, known.clone()));
    message(key, hint, "the keys are", known)
}

/// What is said of an unknown key in the brackets of another.
pub(crate) fn unknown_in(
    outer: &str,
    key: &str,
    known: impl Iterator<Item = &'static str> + Clone,
) -> String {
    let keys = match known.clone().count() {
        1 => format!("the only key of `{outer}` is"),
        _ => format!("the keys of `{outer}` are"),
    };
    message(key, near(key, known.clone()), &keys, known)
}

/// How a key is written with this value.
pub(crate) fn example(key: &str, value: &str) -> String {
    let sign = if value.starts_with('(') { "" } else { " = " };
    [key, sign, value].concat()
}

fn message(
    key: &str,
    hint: Option<String>,
    keys: &str,
    known: impl Iterator<Item = &'static str>,
) -> String {
    let hint = hint.map(|meant| format!(", did you mean {meant}?")).unwrap_or_default();
    let known: Vec<_> = known.map(|known| format!("`{known}`")).collect();
    format!("unknown key `{key}`{hint}\n{keys} {}", known.join(", "))
}

/// The nearest of the keys, if it is near.
fn near(key: &str, known: impl Iterator<Item = &'static str>) -> Option<String> {
    let nearest = known.min_by_key(|known| distance(key, known));
    let near = nearest.filter(|known| distance(key, known) <= 1 + known.len() / 4);
    near.map(|known| format!("`{known}`"))
}

/// Names that other job queues use, each with the key or the call that is meant.
fn meant(key: &str) -> Option<&'static str> {
    Some(match key {
        "attempts" | "max_retries" | "max_tries" | "retries" | "retry" | "retry_limit"
        | "tries" => "`max_attempts`, which counts the first attempt too",
        "retry_after" | "retry_backoff" | "retry_delay" | "retry_in" => "`backoff`",
        "countdown" | "delay" | "eta" | "run_at" | "run_in" | "schedule_at" | "schedule_in" => {
            "`enqueue_in` or `enqueue_at`, which are called where the job is enqueued, or `backoff`"
        }
        "crontab" | "periodic" | "repeat" | "schedule" => "`cron`",
        "interval" => "`every`",
        "deadline" | "max_runtime" | "max_time" | "time_limit" => "`timeout`",
        "ttl" => "`expires`",
        "dedup" | "dedupe" | "unique_by" | "unique_for" => "`unique`",
        "concurrency_limit" | "limits_concurrency" | "max_concurrency" | "max_concurrent"
        | "max_running" | "threads" | "workers" => "`concurrency`",
        "fairness" | "round_robin" => "`fair`",
        "fifo" | "ordered" | "sequential" => "`concurrency(key = .., order = \"strict\")`",
        "after_failure" | "limit" | "max_waiting" | "order" | "per" | "when_full" => {
            "`concurrency(..)`, in whose brackets it stands"
        }
        "burst" | "rate" => "`rate_limit(..)`, in whose brackets it stands",
        "on_conflict" | "scope" | "until" => "`unique(..)`, in whose brackets it stands",
        "catch_up" | "overlap" | "skip_days" | "splay" => {
            "`cron(..)` or `every(..)`, in whose brackets it stands"
        }
        "time_zone" | "tz" | "zone" => "`timezone`",
        "sandbox" | "subprocess" => "`isolate`",
        "cpu" | "memory" | "recycle" => "`isolate(..)`, in whose brackets it stands",
        "migrate" | "upcast" | "upcaster" => "`upgrade`",
        "kind" | "task" => "`name`",
        _ => return None,
    })
}

/// How many characters have to be inserted, removed or replaced to make `b` of `a`.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_named_only_if_it_is_near() {
        let hints = [
            ("time_out", Some("timeout")),
            ("onpanic", Some("on_panic")),
            ("max_atempts", Some("max_attempts")),
            ("alias", Some("aliases")),
            ("retries", Some("max_attempts")),
            ("max_retries", Some("max_attempts")),
            ("schedule", Some("cron")),
            ("delay", Some("enqueue_in")),
            ("retry_delay", Some("backoff")),
            ("x", None),
            ("prioritiy", Some("priority")),
            ("max_concurrency", Some("concurrency")),
            ("concurency", Some("concurrency")),
            ("ratelimit", Some("rate_limit")),
        ];
        for (key, near) in hints {
            let message = unknown(key);
            let hint = near.map(|near| format!("did you mean `{near}`"));
            assert_eq!(message.contains("did you mean"), hint.is_some(), "{message}");
            assert!(hint.is_none_or(|hint| message.contains(&hint)), "{message}");
        }
    }
}
