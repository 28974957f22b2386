//! The text in `#[hworker::job(...)]`, parsed. Every error stands at the key or value that is wrong, and parsing
//! goes on after it.

use std::collections::HashSet;

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Path, Result, Token, parse_quote_spanned};

use crate::duration::{self, Backoff};
use crate::errors::Errors;
use crate::isolate::{self, Isolate};
use crate::keys;
use crate::limits::{self, Entry};
use crate::schedule::{self, Schedule};
use crate::unique::{self, Unique};

const ON_ERROR: &str = "`on_error` is \"retry\", \"fail\" or the path of a \
    `fn(&(dyn Error + Send + Sync + 'static)) -> hworker::OnFault`";
const BACKOFF: &str = "`backoff` is \"0s\", \"30s\", \"1s, 10s, 1m\", \"exp(5s, 6h)\" or the path of a \
    `fn(u32, &(dyn Error + Send + Sync + 'static)) -> Duration`";

/// What the attribute says; `None` where it is silent or wrong.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) name: Option<LitStr>,
    pub(crate) aliases: Vec<LitStr>,
    pub(crate) version: Option<u32>,
    pub(crate) upgrade: Option<Path>,
    pub(crate) type_name: Option<Ident>,
    pub(crate) queue: Option<LitStr>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) on_panic: Option<Fault>,
    pub(crate) on_error: Option<OrPath<Fault>>,
    pub(crate) on_timeout: Option<Fault>,
    pub(crate) on_crash: Option<Fault>,
    pub(crate) on_cancel: Option<Ident>,
    pub(crate) on_failed: Option<Path>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) expires_ms: Option<u64>,
    pub(crate) priority: Option<Ident>,
    pub(crate) backoff: Option<OrPath<Backoff>>,
    pub(crate) encrypted: Option<Encrypted>,
    pub(crate) keep_result_ms: Option<u64>,
    pub(crate) keep_error: Option<Span>,
    /// The arguments that no tool shows.
    pub(crate) redact: Vec<LitStr>,
    pub(crate) limits: Vec<Entry>,
    pub(crate) unique: Option<Unique>,
    pub(crate) isolate: Option<Isolate>,
    pub(crate) schedules: Vec<Schedule>,
    pub(crate) timezone: Option<LitStr>,
    pub(crate) krate: Option<Path>,
}

/// `"retry"` or `"fail"`.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    Retry,
    Fail,
}

/// `encrypted` alone or `encrypted = "only"`.
#[derive(Clone, Copy)]
pub(crate) enum Encrypted {
    Yes,
    Only,
}

/// A value written in the attribute, or the path of the user's function.
pub(crate) enum OrPath<T> {
    Value(T),
    Path(Path),
}

impl Args {
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Self::default();
        let parsed = (|input: ParseStream<'_>| {
            args.parse_all(input, errors);
            Ok(())
        })
        .parse2(tokens);
        errors.ok(parsed);
        args
    }

    fn parse_all(&mut self, input: ParseStream<'_>, errors: &mut Errors) {
        let mut seen = HashSet::new();
        while !input.is_empty() {
            let entry = self.parse_entry(input, &mut seen, errors);
            if errors.ok(entry).is_some() && !input.is_empty() && !input.peek(Token![,]) {
                errors.push(input.error("expected `,` and the next key"));
            }
            skip_past_comma(input);
        }
    }

    fn parse_entry(
        &mut self,
        input: ParseStream<'_>,
        seen: &mut HashSet<String>,
        errors: &mut Errors,
    ) -> Result<()> {
        let key = input.call(Ident::parse_any).map_err(|error| {
            Error::new(error.span(), "expected a key and its value, as in `timeout = \"120s\"`")
        })?;
        let name = key.to_string();
        let Some((_, example)) = keys::KEYS.iter().find(|(known, _)| *known == name) else {
            skip_to_comma(input);
            return Err(Error::new(key.span(), keys::unknown(&name)));
        };
        // A job has several limits, and runs at several times.
        let repeats = name == "concurrency" || name == "rate_limit" || schedule::is_schedule(&name);
        if !seen.insert(name.clone()) && !repeats {
            skip_to_comma(input);
            return Err(Error::new(key.span(), format!("`{name}` is given twice")));
        }
        if name == "encrypted" && !input.peek(Token![=]) {
            self.encrypted = Some(Encrypted::Yes);
            return Ok(());
        }
        if name == "keep_error" {
            self.keep_error = Some(key.span());
            return Ok(());
        }
        let needs_value = |span: Span| {
            let example = keys::example(&name, example);
            Error::new(span, format!("`{name}` needs a value, as in `{example}`"))
        };
        if limits::is_limit(&name) {
            let entry = limits::parse(&key, input, errors);
            self.limits.push(entry.ok_or_else(|| needs_value(key.span()))?);
            return Ok(());
        }
        if name == "isolate" {
            let isolate = isolate::parse(input, errors);
            self.isolate = Some(isolate.ok_or_else(|| needs_value(key.span()))?);
            return Ok(());
        }
        if schedule::is_schedule(&name) {
            let before = errors.count();
            let schedule = schedule::parse(&key, input, errors);
            // What is wrong with it was said.
            if schedule.is_none() && errors.count() == before {
                return Err(needs_value(key.span()));
            }
            self.schedules.extend(schedule);
            return Ok(());
        }
        if unique::is_unique(&name) {
            let unique =
                unique::parse(&key, input, errors).ok_or_else(|| needs_value(key.span()))?;
            if self.unique.replace(unique).is_some() {
                let message = "a job has one of `unique`, `debounce` and `throttle`";
                return Err(Error::new(key.span(), message));
            }
            return Ok(());
        }
        input.parse::<Token![=]>().map_err(|_| needs_value(key.span()))?;
        let value: Expr = input.parse().map_err(|_| needs_value(key.span()))?;
        self.set(&name, peel(&value))
    }

    fn set(&mut self, key: &str, value: &Expr) -> Result<()> {
        match key {
            "name" => self.name = Some(name(value)?),
            "aliases" => self.aliases = aliases(value)?,
            "version" => self.version = Some(version(value)?),
            "upgrade" => self.upgrade = Some(upgrade(value)?),
            "type" => self.type_name = Some(type_name(value)?),
            "queue" => self.queue = Some(queue(value)?),
            "timeout" => self.timeout_ms = Some(timeout(value)?),
            "on_panic" => self.on_panic = Some(fault(key, value)?),
            "on_error" => self.on_error = Some(on_error(value)?),
            "on_timeout" => self.on_timeout = Some(fault(key, value)?),
            "on_crash" => self.on_crash = Some(fault(key, value)?),
            "on_cancel" => self.on_cancel = Some(on_cancel(value)?),
            "on_failed" => self.on_failed = Some(on_failed(value)?),
            "expires" => self.expires_ms = Some(expires(value)?),
            "max_attempts" => self.max_attempts = Some(max_attempts(value)?),
            "priority" => self.priority = Some(priority(value)?),
            "backoff" => self.backoff = Some(backoff(value)?),
            "encrypted" => self.encrypted = Some(encrypted(value)?),
            "keep_result" => self.keep_result_ms = Some(keep_result(value)?),
            "timezone" => self.timezone = Some(schedule::timezone(value)?),
            "redact" => self.redact = redact(value)?,
            _ => self.krate = Some(krate(value)?),
        }
        Ok(())
    }

    /// The path of the `hworker` crate.
    pub(crate) fn krate(&self) -> Path {
        self.krate.clone().unwrap_or_else(|| parse_quote_spanned!(Span::call_site()=> ::hworker))
    }
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        // Any token tree parses; an error can only be the end.
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

pub(crate) fn skip_past_comma(input: ParseStream<'_>) {
    skip_to_comma(input);
    // Here is a comma or nothing, and both parse.
    let _ = input.parse::<Option<Token![,]>>();
}

/// The value without the invisible groups that macros put around it.
pub(crate) fn peel(value: &Expr) -> &Expr {
    match value {
        Expr::Group(group) => peel(&group.expr),
        Expr::Paren(paren) => peel(&paren.expr),
        value => value,
    }
}

pub(crate) fn string<'a>(value: &'a Expr, otherwise: &str) -> Result<&'a LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text),
        value => Err(Error::new_spanned(value, otherwise)),
    }
}

pub(crate) fn path<'a>(value: &'a Expr, otherwise: &str) -> Result<&'a Path> {
    match value {
        Expr::Path(path) if path.qself.is_none() => Ok(&path.path),
        value => Err(Error::new_spanned(value, otherwise)),
    }
}

/// What is said of a wrong value, and where a path stands in quotes, that it is written without.
pub(crate) fn unquoted(key: &str, value: &Expr, form: &str) -> String {
    let text = string(value, form).map(LitStr::value).unwrap_or_default();
    match syn::parse_str::<Path>(&text) {
        Ok(_) => format!("{form}\na path is written without quotes: `{key} = {text}`"),
        Err(_) => form.to_owned(),
    }
}

/// Whether a job may be called so on the wire.
pub(crate) fn is_name(text: &str) -> bool {
    consists_of(text, 200, "._:-")
}

pub(crate) fn consists_of(text: &str, longest: usize, marks: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || marks.contains(c);
    (1..=longest).contains(&text.len()) && text.chars().all(fits)
}

fn name(value: &Expr) -> Result<LitStr> {
    let form = "a name is a string of 1 to 200 of `A-Z a-z 0-9 . _ : -`";
    let text = string(value, form)?;
    if is_name(&text.value()) { Ok(text.clone()) } else { Err(Error::new_spanned(text, form)) }
}

fn aliases(value: &Expr) -> Result<Vec<LitStr>> {
    let Expr::Array(array) = value else {
        return Err(Error::new_spanned(value, "`aliases` is a list, as in `[\"old_name\"]`"));
    };
    array.elems.iter().map(|alias| name(peel(alias))).collect()
}

fn version(value: &Expr) -> Result<u32> {
    let form =
        "`version` is a number from 1, which is that of arguments without one, to 4294967295";
    number(value).filter(|version| *version > 0).ok_or_else(|| Error::new_spanned(value, form))
}

fn on_failed(value: &Expr) -> Result<Path> {
    let form = "`on_failed` is the path of a job that takes a `hworker::Failed`";
    path(value, &unquoted("on_failed", value, form)).cloned()
}

fn upgrade(value: &Expr) -> Result<Path> {
    let form = "`upgrade` is the path of a `fn(u32, hworker::Args) -> Result<hworker::Args, hworker::BoxError>`";
    path(value, &unquoted("upgrade", value, form)).cloned()
}

fn type_name(value: &Expr) -> Result<Ident> {
    let form = "`type` is the name for the struct, as in `SendWelcome`";
    let form = unquoted("type", value, form);
    path(value, &form)?.get_ident().cloned().ok_or_else(|| Error::new_spanned(value, form))
}

fn queue(value: &Expr) -> Result<LitStr> {
    let form = "a queue is a string of 1 to 100 of `A-Z a-z 0-9 . _ -`";
    let text = string(value, form)?;
    let fits = consists_of(&text.value(), 100, "._-");
    if fits { Ok(text.clone()) } else { Err(Error::new_spanned(text, form)) }
}

fn timeout(value: &Expr) -> Result<u64> {
    let text = string(value, duration::FORM)?;
    match duration::parse(&text.value()) {
        Ok(0) => Err(Error::new_spanned(text, "a timeout must be longer than zero")),
        parsed => parsed.map_err(|message| Error::new_spanned(text, message)),
    }
}

fn expires(value: &Expr) -> Result<u64> {
    let text = string(value, duration::FORM)?;
    match duration::parse(&text.value()) {
        Ok(0) => Err(Error::new_spanned(text, "a job that expires has a time longer than zero")),
        parsed => parsed.map_err(|message| Error::new_spanned(text, message)),
    }
}

fn keep_result(value: &Expr) -> Result<u64> {
    let text = string(value, duration::FORM)?;
    match duration::parse(&text.value()) {
        Ok(0) => Err(Error::new_spanned(text, "a result is kept for longer than no time")),
        parsed => parsed.map_err(|message| Error::new_spanned(text, message)),
    }
}

fn fault(key: &str, value: &Expr) -> Result<Fault> {
    let form = format!("`{key}` is \"retry\" or \"fail\"");
    let text = string(value, &form)?;
    fault_named(&text.value()).ok_or_else(|| Error::new_spanned(text, form))
}

/// The variant of the enum, with the place of the text.
fn on_cancel(value: &Expr) -> Result<Ident> {
    let form = "`on_cancel` is \"drop\" or \"token\"";
    let text = string(value, form)?;
    let variant = match text.value().as_str() {
        "drop" => "Drop",
        "token" => "Token",
        _ => return Err(Error::new_spanned(text, form)),
    };
    Ok(Ident::new(variant, Span::call_site()))
}

fn fault_named(text: &str) -> Option<Fault> {
    match text {
        "retry" => Some(Fault::Retry),
        "fail" => Some(Fault::Fail),
        _ => None,
    }
}

fn on_error(value: &Expr) -> Result<OrPath<Fault>> {
    if let Ok(path) = path(value, ON_ERROR) {
        return Ok(OrPath::Path(path.clone()));
    }
    let text = string(value, ON_ERROR)?;
    let otherwise = || Error::new_spanned(text, unquoted("on_error", value, ON_ERROR));
    fault_named(&text.value()).map(OrPath::Value).ok_or_else(otherwise)
}

/// The number, if it is one.
pub(crate) fn number(value: &Expr) -> Option<u32> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(int), .. }) => int.base10_parse().ok(),
        _ => None,
    }
}

fn max_attempts(value: &Expr) -> Result<u32> {
    let form = "`max_attempts` is a number from 1 to 4294967295";
    number(value).filter(|attempts| *attempts > 0).ok_or_else(|| Error::new_spanned(value, form))
}

/// The variant of the enum, with the place of the text.
fn priority(value: &Expr) -> Result<Ident> {
    let form = "`priority` is \"highest\", \"high\", \"normal\", \"low\" or \"lowest\"";
    let text = string(value, form)?;
    let variant = match text.value().as_str() {
        "highest" => "Highest",
        "high" => "High",
        "normal" => "Normal",
        "low" => "Low",
        "lowest" => "Lowest",
        _ => return Err(Error::new_spanned(text, form)),
    };
    Ok(Ident::new(variant, Span::call_site()))
}

fn backoff(value: &Expr) -> Result<OrPath<Backoff>> {
    if let Ok(path) = path(value, BACKOFF) {
        return Ok(OrPath::Path(path.clone()));
    }
    let text = string(value, BACKOFF)?;
    let backoff = duration::parse_backoff(&text.value()).map_err(|message| {
        Error::new_spanned(text, unquoted("backoff", value, &format!("{message}\n{BACKOFF}")))
    })?;
    Ok(OrPath::Value(backoff))
}

fn encrypted(value: &Expr) -> Result<Encrypted> {
    let form = "`encrypted` is written alone, or as `encrypted = \"only\"`, which refuses arguments that are not";
    let text = string(value, form)?;
    if text.value() == "only" { Ok(Encrypted::Only) } else { Err(Error::new_spanned(text, form)) }
}

/// The names in `"card, to"`, each at the place of the whole text.
fn redact(value: &Expr) -> Result<Vec<LitStr>> {
    let form = "`redact` names arguments, as in `\"card, to\"`";
    let text = string(value, form)?;
    let names = text.value();
    let names: Vec<_> = names.split(',').map(str::trim).collect();
    if names.iter().any(|name| name.is_empty()) {
        return Err(Error::new_spanned(text, form));
    }
    Ok(names.into_iter().map(|name| LitStr::new(name, text.span())).collect())
}

fn krate(value: &Expr) -> Result<Path> {
    let form = "`crate` is the path of the hworker crate, as in `::background`";
    path(value, &unquoted("crate", value, form)).cloned()
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn parse(tokens: TokenStream) -> (Args, Vec<String>) {
        let mut errors = Errors::default();
        let args = Args::parse(tokens, &mut errors);
        (args, errors.into_messages())
    }

    #[test]
    fn every_key() {
        let (args, errors) = parse(quote! {
            name = "mail.welcome", aliases = ["a", "b"], version = 2, upgrade = up, type = SendWelcome, queue = "mail",
            timeout = "1m", on_panic = "fail", on_error = "retry", on_timeout = "fail",
            on_crash = "fail", max_attempts = 3, backoff = "1s, 2s", encrypted = "only",
            priority = "high", redact = "card, to", crate = ::background,
        });
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!(args.name.map(|name| name.value()).as_deref(), Some("mail.welcome"));
        assert_eq!(args.aliases.iter().map(LitStr::value).collect::<Vec<_>>(), ["a", "b"]);
        assert!(args.version == Some(2) && args.upgrade.is_some_and(|path| path.is_ident("up")));
        assert!(args.type_name.is_some_and(|name| name == "SendWelcome"));
        assert_eq!(args.queue.map(|queue| queue.value()).as_deref(), Some("mail"));
        assert_eq!(args.timeout_ms, Some(60_000));
        assert!(matches!(args.on_panic, Some(Fault::Fail)));
        assert!(matches!(args.on_error, Some(OrPath::Value(Fault::Retry))));
        assert!(matches!(args.on_timeout, Some(Fault::Fail)));
        assert!(matches!(args.on_crash, Some(Fault::Fail)));
        assert_eq!(args.max_attempts, Some(3));
        assert!(args.priority.is_some_and(|priority| priority == "High"));
        let delays = vec![1000, 2000];
        assert!(matches!(args.backoff, Some(OrPath::Value(Backoff::List(list))) if list == delays));
        assert!(matches!(args.encrypted, Some(Encrypted::Only)));
        assert_eq!(args.redact.iter().map(LitStr::value).collect::<Vec<_>>(), ["card", "to"]);
        assert!(args.krate.is_some());
    }

    #[test]
    fn encrypted_stands_alone_or_says_only() {
        for alone in [quote!(encrypted), quote!(encrypted, timeout = "1m")] {
            let (args, errors) = parse(alone);
            assert_eq!(errors, Vec::<String>::new());
            assert!(matches!(args.encrypted, Some(Encrypted::Yes)));
        }
        for wrong in [quote!(encrypted = true), quote!(encrypted = "yes"), quote!(encrypted = )] {
            let (args, errors) = parse(wrong);
            assert!(args.encrypted.is_none() && errors.len() == 1, "{errors:?}");
        }
        assert_eq!(parse(quote!(encrypted, encrypted)).1, ["`encrypted` is given twice"]);
    }

    #[test]
    fn paths_of_functions() {
        let (args, errors) = parse(quote!(on_error = policy::decide::<u8>, backoff = wait));
        assert_eq!(errors, Vec::<String>::new());
        assert!(matches!(args.on_error, Some(OrPath::Path(_))));
        assert!(matches!(args.backoff, Some(OrPath::Path(_))));
    }

    #[test]
    fn each_error_is_reported_and_the_rest_is_still_read() {
        let (args, errors) = parse(quote! {
            timeout = 120, timeot = "1s", 5, queue, on_panic = "fail" oops, on_panic = "retry",
            ,, name("x"), priority = 3, max_attempts = 0, aliases = ["ok", "not ok"], on_crash = "fail"
        });
        let starts = [
            "a duration is written",
            "unknown key `timeot`, did you mean `timeout`?",
            "expected a key and its value",
            "`queue` needs a value, as in `queue = \"mail\"`",
            "expected `,` and the next key",
            "`on_panic` is given twice",
            "expected a key and its value",
            "expected a key and its value",
            "`name` needs a value",
            "`priority` is \"highest\", \"high\"",
            "`max_attempts` is a number from 1",
            "a name is a string of 1 to 200",
        ];
        assert_eq!(errors.len(), starts.len(), "{errors:#?}");
        for (error, start) in errors.iter().zip(starts) {
            assert!(error.starts_with(start), "{error} / {start}");
        }
        assert!(matches!(args.on_panic, Some(Fault::Fail)));
        assert!(matches!(args.on_crash, Some(Fault::Fail)));
    }

    #[test]
    fn names_and_queues_have_their_letters_and_lengths() {
        let long = "x".repeat(200);
        let wrong = ["", "a b", "grüße", "a/b", "a{b}", &format!("{long}x")];
        for name in ["a", "mail.welcome:v2-x_Y", &long] {
            assert_eq!(parse(quote!(name = #name)).1, Vec::<String>::new(), "{name}");
        }
        for name in wrong {
            assert_eq!(parse(quote!(name = #name)).1.len(), 1, "{name}");
            assert_eq!(parse(quote!(aliases = [#name])).1.len(), 1, "{name}");
            assert_eq!(parse(quote!(queue = #name)).1.len(), 1, "{name}");
        }
        assert_eq!(parse(quote!(queue = "a:b")).1.len(), 1, "a colon separates the parts of a key");
        let (fits, too_long) = ("x".repeat(100), "x".repeat(101));
        assert_eq!(parse(quote!(queue = #fits)).1, Vec::<String>::new());
        assert_eq!(parse(quote!(queue = #too_long)).1.len(), 1);
    }
}
