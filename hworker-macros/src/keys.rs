//! The keys of the attribute, and what is said of others.

/// The keys that work, each with an example of its value.
pub(crate) const KEYS: [(&str, &str); 15] = [
    ("name", "\"mail.welcome\""),
    ("aliases", "[\"old_name\"]"),
    ("type", "SendWelcome"),
    ("queue", "\"mail\""),
    ("timeout", "\"120s\""),
    ("on_panic", "\"retry\""),
    ("on_error", "\"retry\""),
    ("on_timeout", "\"retry\""),
    ("on_crash", "\"retry\""),
    ("max_attempts", "25"),
    ("backoff", "\"exp(5s, 6h)\""),
    ("priority", "\"high\""),
    ("encrypted", "\"only\""),
    ("redact", "\"card, to\""),
    ("crate", "path::to::hworker"),
];

/// The keys that are reserved for what is to come.
const NOT_YET: [&str; 9] = [
    "unique",
    "cron",
    "every",
    "timezone",
    "concurrency",
    "rate_limit",
    "keep_result",
    "expires",
    "isolate",
];

pub(crate) fn unknown(key: &str) -> String {
    if NOT_YET.contains(&key) {
        return format!("`{key}` is not yet supported");
    }
    let known = KEYS.iter().map(|(known, _)| *known);
    let nearest = known.clone().chain(NOT_YET).min_by_key(|known| distance(key, known));
    let near = nearest.filter(|known| distance(key, known) <= 1 + known.len() / 4);
    let near = near.map(|known| format!("`{known}`"));
    let hint = meant(key).map(str::to_owned).or(near);
    let hint = hint.map(|meant| format!(", did you mean {meant}?")).unwrap_or_default();
    let all = known.map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
    format!("unknown key `{key}`{hint}\nthe keys are {all}")
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
        "max_concurrency" | "threads" | "workers" => "`concurrency`",
        "throttle" => "`rate_limit`",
        "kind" | "task" => "`name`",
        _ => return None,
    })
}

/// How many characters have to be inserted, removed or replaced to make `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
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
        ];
        for (key, near) in hints {
            let message = unknown(key);
            let hint = near.map(|near| format!("did you mean `{near}`"));
            assert_eq!(message.contains("did you mean"), hint.is_some(), "{message}");
            assert!(hint.is_none_or(|hint| message.contains(&hint)), "{message}");
        }
    }
}
