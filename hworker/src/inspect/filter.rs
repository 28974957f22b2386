//! The one language in which jobs are chosen: in programs, on the command line, in the browser.

use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;

use super::job::JobInfo;
use crate::job_state::JobState;
use crate::priority::Priority;
use crate::time::{millis, parse_duration, parse_time};

/// Which jobs are meant: conditions that all hold. It is written as text, and read with [`str::parse`].
///
/// ```
/// # fn main() -> Result<(), String> {
/// let filter: hworker::Filter = r#"job:send_welcome error:"timed out" args.user_id=42 age>2h"#.parse()?;
/// # Ok(()) }
/// ```
///
/// | condition | holds for |
/// |---|---|
/// | `job:send_welcome` | jobs of this type |
/// | `state:failed` | jobs in this state; a page has one state, and takes it from here where the program names none |
/// | `queue:mail` | jobs on this queue |
/// | `priority:high` | jobs of this priority |
/// | `id:019a4f..` | the job with this id |
/// | `error:"timed out"` | an error, or reason, whose text has this in it |
/// | `group:3fa9c0ffee12` | the failures of this group |
/// | `kind:panic` | jobs that ended with this kind of error |
/// | `args.user_id=42` | an argument that is this, by its name, or deeper: `args.to.city=Paris` |
/// | `args~ada` | arguments that have this in their JSON |
/// | `tag:eu` | jobs with this tag |
/// | `meta.tenant=7` | a value of what the producer noted |
/// | `parent:019a4f..` | jobs that the body of this one enqueued with [`child_of`](crate::Enqueue::child_of) |
/// | `worker:web-1` | jobs that a worker holds or ended whose id begins so |
/// | `attempt>=3` | attempts; also `<`, `<=`, `>`, `=` |
/// | `age>2h` | by how long ago the time was that is shown of the job; also `<` |
/// | `since:2h`, `until:2026-12-24T18:00:00Z` | the same by a time: so long ago, a time in UTC, a day, or milliseconds since 1970 |
///
/// A value in double quotes may hold anything: `\"` and `\\` stand for themselves in it. `*` is no wildcard. Capital letters count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub(super) conditions: Vec<Condition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    Job(String),
    State(JobState),
    Queue(String),
    Priority(Priority),
    Id(String),
    Error(String),
    Group(String),
    Kind(String),
    /// A path into the arguments and what stands there.
    Arg(Vec<String>, String),
    Args(String),
    Tag(String),
    Meta(Vec<String>, String),
    Parent(String),
    Worker(String),
    Attempt(Compare, u64),
    Age(Compare, u64),
    /// In ms since 1970, or so many ms ago.
    Since(When),
    Until(When),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compare {
    Less,
    AtMost,
    Equal,
    AtLeast,
    More,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Ago(u64),
    At(u64),
}

impl When {
    pub(super) fn ms(self, now: u64) -> u64 {
        match self {
            Self::Ago(ms) => now.saturating_sub(ms),
            Self::At(ms) => ms,
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        if let Ok(duration) = parse_duration(text) {
            return Ok(Self::Ago(millis(duration)));
        }
        parse_time(text).map(Self::At).ok_or_else(|| {
            format!("`{text}` is no time; write `2h` for two hours ago, `2026-12-24`, or `2026-12-24T18:00:00Z`")
        })
    }
}

impl Compare {
    fn holds(self, one: u64, other: u64) -> bool {
        match self {
            Self::Less => one < other,
            Self::AtMost => one <= other,
            Self::Equal => one == other,
            Self::AtLeast => one >= other,
            Self::More => one > other,
        }
    }
}

impl Filter {
    /// The queue that it asks for, if it asks for one.
    #[must_use]
    pub fn queue(&self) -> Option<&str> {
        self.conditions.iter().find_map(|condition| match condition {
            Condition::Queue(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Whether it has no condition: all jobs are meant.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// The same with the conditions of another.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.conditions.extend(other.conditions);
        self
    }

    /// The same for one state.
    #[must_use]
    pub fn in_state(mut self, state: JobState) -> Self {
        self.conditions.push(Condition::State(state));
        self
    }

    /// The state that it names.
    #[must_use]
    pub fn state(&self) -> Option<JobState> {
        self.conditions.iter().find_map(|condition| match condition {
            Condition::State(state) => Some(*state),
            _ => None,
        })
    }

    /// Whether it asks for arguments, or for what a producer noted.
    #[must_use]
    pub fn asks_for_args(&self) -> bool {
        let asks = |condition: &Condition| {
            matches!(condition, Condition::Arg(..) | Condition::Args(_) | Condition::Meta(..))
        };
        self.conditions.iter().any(asks)
    }

    /// Whether it asks for the text of an error.
    #[must_use]
    pub fn asks_for_errors(&self) -> bool {
        self.conditions.iter().any(|condition| matches!(condition, Condition::Error(_)))
    }

    /// Whether the place of an ended job alone says that it is not meant.
    pub(super) fn excludes_by_place(&self, job: &JobInfo, now: u64) -> bool {
        self.conditions
            .iter()
            .any(|condition| condition.is_of_place() && !condition.holds(job, now))
    }

    /// Whether it asks of an ended job what its place does not say.
    pub(super) fn asks_for_contents(&self) -> bool {
        !self.conditions.iter().all(Condition::is_of_place)
    }

    pub(super) fn holds(&self, job: &JobInfo, now: u64) -> bool {
        self.conditions.iter().all(|condition| condition.holds(job, now))
    }
}

impl Condition {
    /// Whether the place of an ended job says it.
    fn is_of_place(&self) -> bool {
        matches!(
            self,
            Self::Job(_)
                | Self::State(_)
                | Self::Queue(_)
                | Self::Id(_)
                | Self::Group(_)
                | Self::Age(..)
                | Self::Since(_)
                | Self::Until(_)
        )
    }

    fn holds(&self, job: &JobInfo, now: u64) -> bool {
        let is = |value: &Option<String>, wanted: &String| value.as_ref() == Some(wanted);
        match self {
            Self::Job(name) => is(&job.job, name),
            Self::State(state) => job.state == *state,
            Self::Queue(name) => job.queue == *name,
            Self::Priority(priority) => job.priority == *priority,
            Self::Id(id) => job.id.as_ref().is_some_and(|own| own.as_str() == id),
            Self::Error(text) => {
                job.message.as_ref().is_some_and(|message| message.contains(text))
                    || job.errors().iter().any(|error| error.message.contains(text))
            }
            Self::Group(group) => is(&job.group, group),
            Self::Kind(kind) => is(&job.kind, kind),
            Self::Arg(path, wanted) => stands_at(job.args(), path, wanted),
            Self::Args(text) => job.args().contains(text),
            Self::Tag(tag) => job.tags().contains(tag),
            Self::Meta(path, wanted) => {
                job.meta().get(&path[0]).is_some_and(|value| stands_at(value, &path[1..], wanted))
            }
            Self::Parent(id) => job.parent().is_some_and(|parent| parent.as_str() == id),
            Self::Worker(start) => {
                job.worker.as_ref().is_some_and(|worker| worker.starts_with(start))
            }
            Self::Attempt(compare, attempts) => compare.holds(u64::from(job.attempt), *attempts),
            Self::Age(compare, age) => {
                job.at.is_some_and(|at| compare.holds(now.saturating_sub(at), *age))
            }
            Self::Since(when) => job.at.is_some_and(|at| at >= when.ms(now)),
            Self::Until(when) => job.at.is_some_and(|at| at <= when.ms(now)),
        }
    }
}

/// Whether this stands at the end of a path into JSON, as a string or as it is written.
fn stands_at(json: &str, path: &[String], wanted: &str) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(json) else { return false };
    let step = |value: &'_ Value, name: &String| match value {
        Value::Array(values) => values.get(name.parse::<usize>().ok()?).cloned(),
        value => value.get(name).cloned(),
    };
    let found = path.iter().try_fold(value, |value, name| step(&value, name));
    found
        .is_some_and(|found| found.as_str() == Some(wanted) || found.to_string().as_str() == wanted)
}

impl FromStr for Filter {
    type Err = String;

    /// Reads the conditions; an error says which is wrong, and what would be right.
    fn from_str(text: &str) -> Result<Self, String> {
        let conditions = words(text)?.into_iter().map(|word| condition(&word));
        conditions.collect::<Result<_, _>>().map(|conditions| Self { conditions })
    }
}

/// A name, a sign, and a value.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    name: String,
    sign: String,
    value: String,
}

fn words(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let is_sign = |c: char| ":=~<>".contains(c);
        let end = rest.find(|c: char| is_sign(c) || c.is_whitespace() || c == '"');
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        let signs = after.find(|c: char| !is_sign(c)).unwrap_or(after.len());
        let (sign, after) = after.split_at(signs);
        if name.is_empty() || sign.is_empty() {
            let word = rest.split_whitespace().next().unwrap_or_default();
            return Err(format!(
                "`{word}` is no condition; write one like `job:send_welcome`, or `error:\"{word}\"`"
            ));
        }
        let (value, after) = value(after)?;
        words.push(Word { name: name.to_owned(), sign: sign.to_owned(), value });
        rest = after.trim_start();
    }
    Ok(words)
}

/// The value at the front, without its quotes, and what follows it.
fn value(text: &str) -> Result<(String, &str), String> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        return Ok((text[..end].to_owned(), &text[end..]));
    };
    let (mut value, mut characters) = (String::new(), quoted.char_indices());
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &quoted[at + 1..])),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            character => value.push(character),
        }
    }
    Err(format!("a `\"` is missing behind `{quoted}`"))
}

fn condition(word: &Word) -> Result<Condition, String> {
    let Word { name, sign, value } = word;
    let text = value.clone();
    if value.is_empty() {
        return Err(format!("`{name}{sign}` has no value"));
    }
    let path = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
    if let (Some(names), "=") = (name.strip_prefix("args."), sign.as_str()) {
        return Ok(Condition::Arg(path(names), text));
    }
    if let (Some(names), "=") = (name.strip_prefix("meta."), sign.as_str()) {
        return Ok(Condition::Meta(path(names), text));
    }
    let compare = match sign.as_str() {
        "<" => Some(Compare::Less),
        "<=" => Some(Compare::AtMost),
        "=" | ":" => Some(Compare::Equal),
        ">=" => Some(Compare::AtLeast),
        ">" => Some(Compare::More),
        _ => None,
    };
    match (name.as_str(), sign.as_str()) {
        ("job", ":") => Ok(Condition::Job(text)),
        ("state", ":") => text.parse().map(Condition::State),
        ("queue", ":") => Ok(Condition::Queue(text)),
        ("priority", ":") => text.parse().map(Condition::Priority),
        ("id", ":") => Ok(Condition::Id(text)),
        ("error", ":") => Ok(Condition::Error(text)),
        ("group", ":") => Ok(Condition::Group(text)),
        ("kind", ":") => Ok(Condition::Kind(text)),
        ("args", "~") => Ok(Condition::Args(text)),
        ("tag", ":") => Ok(Condition::Tag(text)),
        ("parent", ":") => Ok(Condition::Parent(text)),
        ("worker", ":") => Ok(Condition::Worker(text)),
        ("since", ":") => When::parse(value).map(Condition::Since),
        ("until", ":") => When::parse(value).map(Condition::Until),
        ("attempt", _) if compare.is_some() => {
            let number =
                value.parse().map_err(|_| format!("`{value}` is no number of attempts"))?;
            Ok(Condition::Attempt(compare.unwrap_or(Compare::Equal), number))
        }
        ("age", "<" | "<=" | ">" | ">=") => {
            let age: Duration = parse_duration(value)?;
            Ok(Condition::Age(compare.unwrap_or(Compare::More), millis(age)))
        }
        _ => Err(format!(
            "`{name}{sign}` is no condition; there are job:, state:, queue:, id:, error:, group:, kind:, args.NAME=, args~, tag:, \
             meta.NAME=, parent:, worker:, attempt>=, age>, since: and until:"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<Condition> {
        text.parse::<Filter>().expect(text).conditions
    }

    #[test]
    fn conditions_are_read() {
        use Condition as C;
        let text = |text: &str| text.to_owned();
        for (written, meant) in [
            ("job:x", C::Job(text("x"))),
            ("state:failed", C::State(JobState::Failed)),
            ("error:\"timed \\\"out\\\" \\\\\"", C::Error(text("timed \"out\" \\"))),
            ("args.user_id=42", C::Arg(vec![text("user_id")], text("42"))),
            ("args.to.city=\"New York\"", C::Arg(vec![text("to"), text("city")], text("New York"))),
            ("args~ada", C::Args(text("ada"))),
            ("meta.tenant=7", C::Meta(vec![text("tenant")], text("7"))),
            ("parent:order-7", C::Parent(text("order-7"))),
            ("priority:low", C::Priority(Priority::Low)),
            ("attempt>=3", C::Attempt(Compare::AtLeast, 3)),
            ("attempt:3", C::Attempt(Compare::Equal, 3)),
            ("age>2h", C::Age(Compare::More, 7_200_000)),
            ("since:30m", C::Since(When::Ago(1_800_000))),
            ("until:2026-12-24", C::Until(When::At(1_798_070_400_000))),
            ("error:a:b=c", C::Error(text("a:b=c"))),
        ] {
            assert_eq!(parsed(written), [meant], "{written}");
        }
        assert_eq!(parsed("  job:x   tag:eu ").len(), 2);
        assert!(parsed("").is_empty());
    }

    #[test]
    fn what_is_no_condition_is_told() {
        for (wrong, said) in [
            ("timed out", "`timed` is no condition"),
            ("jobs:x", "`jobs:` is no condition; there are job:,"),
            ("job=x", "`job=` is no condition"),
            ("job:", "`job:` has no value"),
            ("state:lost", "`lost` is no state of a job; there are waiting,"),
            ("priority:soon", "a priority is `highest`, `high`, `normal`, `low` or `lowest`"),
            ("error:\"open", "a `\"` is missing"),
            ("age>soon", "is no duration"),
            ("attempt>=many", "is no number of attempts"),
            ("since:yesterday", "`yesterday` is no time"),
            ("\"x\"", "is no condition"),
        ] {
            let why = wrong.parse::<Filter>().expect_err(wrong);
            assert!(why.contains(said), "{wrong}: {why}");
        }
    }

    #[test]
    fn arguments_are_compared_as_text_and_as_json() {
        let json = r#"{"user_id":42,"to":{"city":"Paris"},"tags":["a","b"],"ok":true}"#;
        let at = |path: &str, wanted: &str| {
            let path: Vec<_> = path.split('.').map(str::to_owned).collect();
            stands_at(json, &path, wanted)
        };
        assert!(
            at("user_id", "42") && at("to.city", "Paris") && at("tags.1", "b") && at("ok", "true")
        );
        assert!(
            !at("user_id", "4") && !at("to", "Paris") && !at("tags.2", "b") && !at("none", "x")
        );
    }
}
