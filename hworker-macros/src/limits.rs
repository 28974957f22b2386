//! `concurrency`, `rate_limit` and `fair` in the attribute, parsed. What several of them make together is in `together`, and
//! their code in `code`.

pub(crate) mod code;
#[cfg(test)]
mod tests;
mod together;

use syn::parse::ParseStream;
use syn::{Error, Expr, Ident, LitStr, Path, Result, Token, token};

use crate::args::{consists_of, number, path, peel, string, unquoted};
use crate::errors::Errors;
use crate::{brackets, duration};

pub(crate) use together::Limits;

/// The keys in the brackets of each, with an example of the value.
const INNER: [(&str, &[(&str, &str)]); 3] = [
    (
        "concurrency",
        &[
            ("limit", "3"),
            ("key", "tenant"),
            ("name", "\"db\""),
            ("order", "\"strict\""),
            ("after_failure", "\"halt\""),
            ("per", "\"worker\""),
            ("when_full", "\"keep_newest\""),
            ("max_waiting", "100"),
        ],
    ),
    (
        "rate_limit",
        &[("rate", "\"10/s\""), ("burst", "20"), ("key", "shop"), ("name", "\"shopify\"")],
    ),
    ("fair", &[("key", "tenant")]),
];

const CONCURRENCY: &str = "`concurrency` is a number from 1 to 4294967295; all else is in brackets, as in \
    `concurrency(limit = plan_limit, key = tenant)`";
const RATE: &str = "a rate is written \"100/m\" or \"5/30s\": a count from 1 to 1000000, and `s`, `m`, `h`, `d` or a \
    duration";
const MOST: u32 = 1_000_000;
const LONGEST_MS: u64 = 30 * 24 * 3_600_000;

/// One `concurrency`, `rate_limit` or `fair`.
pub(crate) struct Entry {
    word: Ident,
    /// The keys in its brackets, also those with a wrong value, so that no key is called missing that is only wrong.
    given: Vec<Ident>,
    /// Those that have a value, with it as it is written, to which errors point.
    written: Vec<(String, Expr)>,
    name: Option<LitStr>,
    key: Option<Key>,
    at_once: Option<AtOnce>,
    rate: Option<Rate>,
    burst: u32,
    ordered: bool,
    per_worker: bool,
    when_full: WhenFull,
    max_waiting: Option<u32>,
    /// Whether nothing in it is wrong; else it becomes no code.
    sound: bool,
}

/// The parts of a key: arguments, or functions of the arguments.
#[derive(Clone, PartialEq)]
pub(crate) struct Key(pub(crate) Vec<Path>);

/// How many run at once.
#[derive(Clone)]
enum AtOnce {
    Of(u32),
    /// An argument, or a function of the arguments.
    OfArguments(Path),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    count: u32,
    period_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhenFull {
    Wait,
    KeepNewest,
    KeepOldest,
}

/// Whether a key of the attribute is one of those here, which may have brackets.
pub(crate) fn is_limit(key: &str) -> bool {
    INNER.iter().any(|(word, _)| *word == key)
}

/// What follows the word: a value or brackets. None where there is neither.
pub(crate) fn parse(word: &Ident, input: ParseStream<'_>, errors: &mut Errors) -> Option<Entry> {
    let before = errors.count();
    let mut entry = Entry::new(word.clone());
    if input.peek(token::Paren) {
        let brackets = entry.parse_brackets(input, errors);
        errors.ok(brackets)?;
    } else {
        input.parse::<Token![=]>().ok()?;
        let value = input.parse::<Expr>().ok()?;
        let value = entry.set_alone(value);
        errors.ok(value);
    }
    // What is missing is told only where all the rest could be read.
    entry.check(errors.count() == before, errors);
    entry.sound = errors.count() == before;
    Some(entry)
}

impl Entry {
    pub(crate) fn word(&self) -> &Ident {
        &self.word
    }

    /// Whether what becomes of a job depends on those that wait, or on its arguments.
    pub(crate) fn is_of_arguments(&self) -> bool {
        self.when_full != WhenFull::Wait || matches!(self.at_once, Some(AtOnce::OfArguments(_)))
    }

    fn new(word: Ident) -> Self {
        Self {
            word,
            given: Vec::new(),
            written: Vec::new(),
            name: None,
            key: None,
            at_once: None,
            rate: None,
            burst: 0,
            ordered: false,
            per_worker: false,
            when_full: WhenFull::Wait,
            max_waiting: None,
            sound: false,
        }
    }

    /// The key without which it says nothing.
    fn main_key(&self) -> &'static str {
        match self.word.to_string().as_str() {
            "concurrency" => "limit",
            "rate_limit" => "rate",
            _ => "key",
        }
    }

    fn parse_brackets(&mut self, input: ParseStream<'_>, errors: &mut Errors) -> Result<()> {
        let word = self.word.to_string();
        let known =
            INNER.iter().find(|(known, _)| *known == word).map_or(&[][..], |(_, keys)| keys);
        brackets::parse(&word, known, input, errors, &mut |key, value| {
            self.given.push(key.clone());
            value.map_or(Ok(()), |value| self.set(&key.to_string(), value))
        })
    }

    /// Without brackets: `concurrency = 5`, `rate_limit = "100/m"`.
    fn set_alone(&mut self, value: Expr) -> Result<()> {
        let key = self.main_key();
        self.given.push(Ident::new(key, self.word.span()));
        let is_number = number(peel(&value)).is_some_and(|limit| limit > 0);
        match key {
            "key" => Err(Error::new_spanned(value, "`fair` is written `fair(key = tenant)`")),
            "limit" if !is_number => Err(Error::new_spanned(value, CONCURRENCY)),
            key => self.set(key, value),
        }
    }

    fn set(&mut self, key: &str, value: Expr) -> Result<()> {
        let whole = peel(&value);
        match key {
            "limit" => self.at_once = Some(at_once(whole)?),
            "rate" => self.rate = Some(rate(whole)?),
            "key" => self.key = Some(self::key(whole)?),
            "name" => self.name = Some(name(whole)?),
            "order" => self.ordered = only(key, "strict", whole)?,
            "after_failure" => _ = only(key, "halt", whole)?,
            "per" => self.per_worker = only(key, "worker", whole)?,
            "when_full" => self.when_full = when_full(whole)?,
            "max_waiting" => self.max_waiting = Some(count(key, 1, u32::MAX, whole)?),
            _ => self.burst = count(key, 0, MOST, whole)?,
        }
        self.written.push((key.to_owned(), value));
        Ok(())
    }

    /// The place of a key, if it is given.
    fn given(&self, key: &str) -> Option<&Ident> {
        self.given.iter().find(|given| *given == key)
    }

    /// The value of a key as it is written.
    fn written(&self, key: &str) -> Option<&Expr> {
        self.written.iter().find(|(written, _)| written == key).map(|(_, value)| value)
    }

    /// Whether what is given fits together.
    fn check(&self, complete: bool, errors: &mut Errors) {
        let (word, main) = (&self.word, self.main_key());
        if complete && self.given(main).is_none() && !self.ordered {
            let example = INNER.iter().find(|(known, _)| word == known);
            let example = example.and_then(|(_, keys)| keys.iter().find(|(key, _)| *key == main));
            let example = example.map(|(_, example)| *example).unwrap_or_default();
            errors.at(
                word,
                format!("`{word}` needs its `{main}`, as in `{word}({main} = {example})`"),
            );
        }
        let has_key = self.given("key").is_some();
        if let Some(order) = self.given("order").filter(|_| !has_key && !self.per_worker) {
            errors.at(order, "jobs run in order within a key: add one, as in `key = tenant`");
        }
        if let Some(halt) = self.given("after_failure").filter(|_| self.given("order").is_none()) {
            let message = "after a failure the jobs behind it can be halted where they run in order: add `order = \"strict\"`";
            errors.at(halt, message);
        }
        if let Some(max) = self.given("max_waiting").filter(|_| !has_key) {
            errors.at(max, "`max_waiting` counts the jobs of a key: add one, as in `key = tenant`");
        }
        if let Some(when) =
            self.written("when_full").filter(|_| !has_key && self.when_full != WhenFull::Wait)
        {
            errors.at(when, "`keep_newest` and `keep_oldest` keep one job of a key: add a key, as in `key = tenant`");
        }
        if let Some(limit) = self.written("limit") {
            let of_arguments = matches!(self.at_once, Some(AtOnce::OfArguments(_)));
            if self.ordered && !matches!(self.at_once, Some(AtOnce::Of(1))) {
                errors.at(limit, "jobs in order run one at a time: the limit is 1 or left out");
            } else if of_arguments && self.per_worker {
                errors.at(limit, "a limit per worker is a number");
            } else if of_arguments && !has_key {
                errors.at(
                    limit,
                    "a limit from the arguments is that of a key: add one, as in `key = tenant`, or give a number",
                );
            }
        }
        if self.per_worker {
            let wrong = [
                ("key", "a limit per worker has no key"),
                ("order", "a limit per worker has no order"),
            ];
            for (key, message) in wrong {
                self.given(key).into_iter().for_each(|key| errors.at(key, message));
            }
        }
    }
}

fn at_once(value: &Expr) -> Result<AtOnce> {
    if let Some(limit) = number(value).filter(|limit| *limit > 0) {
        return Ok(AtOnce::Of(limit));
    }
    let form = "`limit` is a number from 1 to 4294967295, an argument, or the path of a `fn(&Args) -> T` that gives one";
    path(value, &unquoted("limit", value, form)).cloned().map(AtOnce::OfArguments)
}

pub(crate) fn key(value: &Expr) -> Result<Key> {
    let form = "a key is an argument, several in brackets as in `(tenant, shop)`, or the path of a \
        `fn(&Args) -> impl Display`";
    let parts = match value {
        Expr::Tuple(tuple) if !tuple.elems.is_empty() => tuple.elems.iter().collect(),
        value => vec![value],
    };
    let part = |value| {
        let value = peel(value);
        path(value, &unquoted("key", value, form)).cloned()
    };
    parts.into_iter().map(part).collect::<Result<_>>().map(Key)
}

fn name(value: &Expr) -> Result<LitStr> {
    let form = "the name of a limit is a string of 1 to 100 of `A-Z a-z 0-9 . _ : -`";
    let text = string(value, form)?;
    let fits = consists_of(&text.value(), 100, "._:-");
    if fits { Ok(text.clone()) } else { Err(Error::new_spanned(text, form)) }
}

/// For a key that has one value only.
fn only(key: &str, word: &str, value: &Expr) -> Result<bool> {
    let form = format!("`{key}` is \"{word}\" or left out");
    let text = string(value, &form)?;
    if text.value() == word { Ok(true) } else { Err(Error::new_spanned(text, form)) }
}

fn when_full(value: &Expr) -> Result<WhenFull> {
    let form = "`when_full` is \"wait\", \"keep_newest\" or \"keep_oldest\"";
    let text = string(value, form)?;
    match text.value().as_str() {
        "wait" => Ok(WhenFull::Wait),
        "keep_newest" => Ok(WhenFull::KeepNewest),
        "keep_oldest" => Ok(WhenFull::KeepOldest),
        _ => Err(Error::new_spanned(text, form)),
    }
}

fn count(key: &str, least: u32, most: u32, value: &Expr) -> Result<u32> {
    let fits = number(value).filter(|count| (least..=most).contains(count));
    let form = || format!("`{key}` is a number from {least} to {most}");
    fits.ok_or_else(|| Error::new_spanned(value, form()))
}

fn rate(value: &Expr) -> Result<Rate> {
    let text = string(value, RATE)?;
    parse_rate(&text.value()).map_err(|message| Error::new_spanned(text, message))
}

fn parse_rate(text: &str) -> std::result::Result<Rate, String> {
    let (count, period) = text.split_once('/').ok_or(RATE)?;
    // A number that Rust reads may have a sign.
    let count = Some(count).filter(|count| count.bytes().all(|byte| byte.is_ascii_digit()));
    let count =
        count.and_then(|count| count.parse().ok()).filter(|count| (1..=MOST).contains(count));
    let period = match period {
        "s" | "m" | "h" | "d" => duration::parse(&format!("1{period}")),
        period => duration::parse(period),
    };
    match (count, period) {
        (Some(_), Err(message)) if message != duration::FORM => Err(message),
        (Some(_), Ok(0)) => Err("the period of a rate must be longer than zero".into()),
        (Some(_), Ok(period_ms)) if period_ms > LONGEST_MS => {
            Err(format!("the period of `{text}` is too long, the longest is \"30d\""))
        }
        (Some(count), Ok(period_ms)) => Ok(Rate { count, period_ms }),
        _ => Err(RATE.into()),
    }
}
