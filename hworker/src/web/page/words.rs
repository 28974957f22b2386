//! A schedule in words, where they are short; else the expression itself.

use super::figures::span;
use crate::control::CronInfo;

/// When an entry runs, in words.
pub(super) fn schedule(entry: &CronInfo) -> String {
    if let Some(every) = entry.every_ms {
        return format!("Every {}", span(every));
    }
    match &entry.cron {
        Some(cron) => words(cron).unwrap_or_else(|| cron.clone()),
        None => String::new(),
    }
}

fn words(cron: &str) -> Option<String> {
    let word = match cron.trim() {
        "@hourly" => Some("Every hour"),
        "@daily" | "@midnight" => Some("At 00:00 every day"),
        "@weekly" => Some("At 00:00 on Sunday"),
        "@monthly" => Some("At 00:00 on day 1 of the month"),
        "@yearly" | "@annually" => Some("At 00:00 on 1 January"),
        "@reboot" => Some("When a worker starts"),
        _ => None,
    };
    if let Some(word) = word {
        return Some(word.to_owned());
    }
    let fields: Vec<&str> = cron.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else { return None };
    let every = |field: &str| field.strip_prefix("*/").and_then(|step| step.parse::<u32>().ok());
    let is_any = |fields: &[&str]| fields.iter().all(|field| *field == "*");
    if is_any(&[hour, day, month, weekday]) {
        return match (minute, every(minute), minute.parse::<u32>()) {
            ("*", ..) => Some("Every minute".into()),
            (_, Some(step), _) => Some(format!("Every {step} minutes")),
            (.., Ok(minute)) => Some(format!("At minute {minute} of every hour")),
            _ => None,
        };
    }
    let minute: u32 = minute.parse().ok()?;
    if let (Some(step), true) = (every(hour), is_any(&[day, month, weekday])) {
        return Some(format!("At minute {minute} of every {step} hours"));
    }
    let hour: u32 = hour.parse().ok()?;
    let at = format!("At {hour:02}:{minute:02}");
    match (day, month, weekday) {
        ("*", "*", "*") => Some(format!("{at} every day")),
        ("*", "*", days) => Some(format!("{at}, {}", weekdays(days)?)),
        (day, "*", "*") => Some(format!("{at} on day {} of the month", day.parse::<u32>().ok()?)),
        _ => None,
    }
}

/// One day of the week, or a span of them.
fn weekdays(field: &str) -> Option<String> {
    let (from, to) = field.split_once('-').unwrap_or((field, ""));
    let first = weekday(from)?;
    Some(if to.is_empty() { format!("on {first}") } else { format!("{first} to {}", weekday(to)?) })
}

fn weekday(name: &str) -> Option<&'static str> {
    Some(match &*name.to_ascii_uppercase() {
        "0" | "7" | "SUN" => "Sunday",
        "1" | "MON" => "Monday",
        "2" | "TUE" => "Tuesday",
        "3" | "WED" => "Wednesday",
        "4" | "THU" => "Thursday",
        "5" | "FRI" => "Friday",
        "6" | "SAT" => "Saturday",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_expressions_have_words() {
        for (cron, says) in [
            ("* * * * *", "Every minute"),
            ("*/5 * * * *", "Every 5 minutes"),
            ("7 * * * *", "At minute 7 of every hour"),
            ("30 2 * * *", "At 02:30 every day"),
            ("45 7 * * MON-FRI", "At 07:45, Monday to Friday"),
            ("15 3 * * SUN", "At 03:15, on Sunday"),
            ("0 6 1 * *", "At 06:00 on day 1 of the month"),
            ("@daily", "At 00:00 every day"),
        ] {
            assert_eq!(words(cron).as_deref(), Some(says), "{cron}");
        }
        for other in ["", "0 0 1,15 * *", "0 0 * * 1#2", "0 0 L * *", "a b c d e"] {
            assert_eq!(words(other), None, "{other}");
        }
    }
}
