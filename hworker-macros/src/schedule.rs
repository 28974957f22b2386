//! `cron` and `every` in the attribute, and their code.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::ParseStream;
use syn::{Error, Expr, Ident, LitStr, Result, Token, parenthesized, token};

use crate::args::{Args, consists_of, number, peel, string};
use crate::errors::Errors;
use crate::model::JobModel;
use crate::params::Param;
use crate::{brackets, calendar, duration};

/// The keys in the brackets, each with an example of the value.
const INNER: &[(&str, &str)] = &[
    ("name", "\"morning\""),
    ("timezone", "\"Europe/Berlin\""),
    ("args", "(7, \"all\")"),
    ("catch_up", "\"one\""),
    ("overlap", "\"skip\""),
    ("splay", "\"20s\""),
    ("start", "\"2026-12-01\""),
    ("end", "\"2026-12-31\""),
    ("count", "100"),
    ("skip_days", "\"sat, sun\""),
];

const CATCH_UP: &str = "`catch_up` is \"skip\", \"one\" or \"all\"";
const OVERLAP: &str = "`overlap` is \"allow\", \"skip\", \"queue\" or \"cancel\"";

/// An interval is no shorter, in ms.
const SHORTEST: u64 = 100;

/// When a job runs again and again.
pub(crate) struct Schedule {
    word: Ident,
    when: When,
    name: Option<LitStr>,
    timezone: Option<LitStr>,
    arguments: Option<(Expr, Vec<Expr>)>,
    catch_up: Option<Ident>,
    overlap: Option<(Ident, LitStr)>,
    splay: Option<u64>,
    start: Option<LitStr>,
    end: Option<LitStr>,
    count: Option<u32>,
    skip_days: Option<LitStr>,
    /// Whether nothing in it is wrong; else it becomes no code.
    sound: bool,
}

enum When {
    Cron(LitStr),
    Every(u64),
}

/// Whether a key of the attribute is one of those here, which may have brackets.
pub(crate) fn is_schedule(key: &str) -> bool {
    key == "cron" || key == "every"
}

/// What follows the word. None where something has to, and does not.
pub(crate) fn parse(word: &Ident, input: ParseStream<'_>, errors: &mut Errors) -> Option<Schedule> {
    let before = errors.count();
    if input.peek(Token![=]) {
        input.parse::<Token![=]>().ok()?;
        let value = input.parse::<Expr>().ok()?;
        let mut schedule = errors.ok(Schedule::new(word, &value))?;
        schedule.sound = errors.count() == before;
        return Some(schedule);
    }
    if !input.peek(token::Paren) {
        return None;
    }
    let parsed = in_brackets(word, input, errors);
    let mut schedule = errors.ok(parsed)?;
    schedule.sound = errors.count() == before;
    Some(schedule)
}

fn in_brackets(word: &Ident, input: ParseStream<'_>, errors: &mut Errors) -> Result<Schedule> {
    let inside;
    parenthesized!(inside in input);
    let example = if word == "every" { "30s" } else { "0 9 * * *" };
    let expected = || {
        Error::new(
            word.span(),
            format!("`{word}` begins with its time, as in `{word}(\"{example}\", ..)`"),
        )
    };
    if !inside.peek(syn::LitStr) {
        // What follows is not looked at.
        inside.parse::<TokenStream>()?;
        return Err(expected());
    }
    let first: LitStr = inside.parse().map_err(|_| expected())?;
    let first = Expr::Lit(syn::ExprLit { attrs: Vec::new(), lit: syn::Lit::Str(first) });
    let schedule = Schedule::new(word, &first);
    inside.parse::<Option<Token![,]>>()?;
    let mut schedule = match schedule {
        Ok(schedule) => schedule,
        Err(error) => {
            // What else is wrong is told too.
            let mut rest = Schedule::empty(word);
            brackets::pairs(&word.to_string(), INNER, &inside, errors, &mut |key, value| {
                value.map_or(Ok(()), |value| rest.set(&key.to_string(), &value))
            });
            return Err(error);
        }
    };
    brackets::pairs(&word.to_string(), INNER, &inside, errors, &mut |key, value| {
        value.map_or(Ok(()), |value| schedule.set(&key.to_string(), &value))
    });
    Ok(schedule)
}

impl Schedule {
    fn empty(word: &Ident) -> Self {
        Self {
            word: word.clone(),
            when: When::Every(SHORTEST),
            name: None,
            timezone: None,
            arguments: None,
            catch_up: None,
            overlap: None,
            splay: None,
            start: None,
            end: None,
            count: None,
            skip_days: None,
            sound: false,
        }
    }

    fn new(word: &Ident, value: &Expr) -> Result<Self> {
        calendar::is_there(word)?;
        let when = if word == "cron" {
            let text = string(peel(value), "`cron` is an expression, as in \"0 9 * * MON-FRI\"")?;
            calendar::expression(text)?;
            When::Cron(text.clone())
        } else {
            let text = string(peel(value), duration::FORM)?;
            match duration::parse(&text.value()) {
                Ok(ms) if ms < SHORTEST => {
                    return Err(Error::new_spanned(text, "`every` is at least \"100ms\""));
                }
                Ok(ms) => When::Every(ms),
                Err(why) => return Err(Error::new_spanned(text, why)),
            }
        };
        Ok(Self { when, ..Self::empty(word) })
    }

    fn set(&mut self, key: &str, value: &Expr) -> Result<()> {
        let value = peel(value);
        match key {
            "name" => self.name = Some(name(value)?),
            "timezone" => self.timezone = Some(timezone(value)?),
            "args" => {
                let arguments = match value {
                    Expr::Tuple(tuple) => tuple.elems.iter().cloned().collect(),
                    value => vec![value.clone()],
                };
                self.arguments = Some((value.clone(), arguments));
            }
            "catch_up" => {
                let known = [("skip", "Skip"), ("one", "One"), ("all", "All")];
                self.catch_up = Some(variant(value, &known, CATCH_UP)?.0);
            }
            "overlap" => {
                let known = [
                    ("allow", "Allow"),
                    ("skip", "Skip"),
                    ("queue", "Queue"),
                    ("cancel", "Cancel"),
                ];
                self.overlap = Some(variant(value, &known, OVERLAP)?);
            }
            "splay" => {
                let text = string(value, duration::FORM)?;
                self.splay = Some(
                    duration::parse(&text.value()).map_err(|why| Error::new_spanned(text, why))?,
                );
            }
            "start" => self.start = Some(time(value)?),
            "end" => self.end = Some(time(value)?),
            "count" => {
                let form = "`count` is a number from 1 to 4294967295";
                let count = number(value).filter(|count| *count > 0);
                self.count = Some(count.ok_or_else(|| Error::new_spanned(value, form))?);
            }
            _ => {
                let text = string(value, calendar::SKIP_DAYS)?;
                calendar::skip_days(text)?;
                self.skip_days = Some(text.clone());
            }
        }
        Ok(())
    }

    fn is_sound_with(&self, args: &Args, params: &[Param], errors: &mut Errors) -> bool {
        let before = errors.count();
        let wanted = params.iter().filter(|param| !param.pass.is_injected()).count();
        let word = &self.word;
        match &self.arguments {
            None if wanted > 0 => {
                let message = format!(
                    "the job has arguments, and `{word}` says none: add `args = (..)` in its brackets"
                );
                errors.at(word, message);
            }
            Some((place, given)) if given.len() != wanted => {
                errors.at(
                    place,
                    format!("the job has {wanted} arguments, and here are {}", given.len()),
                );
            }
            _ => {}
        }
        if let (Some((overlap, text)), Some(_)) = (&self.overlap, &args.unique)
            && overlap != "Allow"
        {
            errors.at(text, "a unique job has no `overlap`: its key says what is done");
        }
        if let Some(limit) = args.limits.iter().find(|limit| limit.is_of_arguments()) {
            let message =
                format!("a job with `{word}` has no `when_full`, and no limit from its arguments");
            errors.at(limit.word(), message);
        }
        if let (Some(start), Some(end)) = (&self.start, &self.end) {
            errors.ok(calendar::span(start, end));
        }
        self.sound && errors.count() == before
    }
}

/// Those of a job that fit the rest of its attribute.
pub(crate) fn check(args: &mut Args, params: &[Param], job: &LitStr, errors: &mut Errors) {
    let mut schedules = std::mem::take(&mut args.schedules);
    if let (Some(timezone), true) = (&args.timezone, schedules.is_empty()) {
        errors.at(timezone, "`timezone` is that of `cron` or `every`, and there is none");
    }
    let mut names: Vec<String> = Vec::new();
    for schedule in &schedules {
        let name = schedule.name.as_ref().unwrap_or(job).value();
        if name.len() > 150 {
            let message = "the name of a cron entry has at most 150 bytes: give it one, as in `cron(.., name = \"morning\")`";
            errors.at(&schedule.word, message);
        }
        if names.contains(&name) {
            let message = format!(
                "two cron entries of the job are called `{name}`: give one another name, as in `{}(.., name = \"morning\")`",
                schedule.word
            );
            errors.at(&schedule.word, message);
        }
        names.push(name);
    }
    schedules.retain(|schedule| schedule.is_sound_with(args, params, errors));
    args.schedules = schedules;
}

fn name(value: &Expr) -> Result<LitStr> {
    let form = "the name of a cron entry is a string of 1 to 100 of `A-Z a-z 0-9 . _ : -`";
    let text = string(value, form)?;
    let fits = consists_of(&text.value(), 100, "._:-");
    if fits { Ok(text.clone()) } else { Err(Error::new_spanned(text, form)) }
}

pub(crate) fn timezone(value: &Expr) -> Result<LitStr> {
    let text = string(value, "`timezone` is the name of a zone, as in \"Europe/Berlin\"")?;
    calendar::timezone(text)?;
    Ok(text.clone())
}

fn time(value: &Expr) -> Result<LitStr> {
    let text = string(value, calendar::TIME)?;
    calendar::time(text)?;
    Ok(text.clone())
}

fn variant(value: &Expr, known: &[(&str, &str)], form: &str) -> Result<(Ident, LitStr)> {
    let text = string(value, form)?;
    let found = known.iter().find(|(word, _)| *word == text.value());
    let (_, variant) = found.ok_or_else(|| Error::new_spanned(text, form))?;
    Ok((Ident::new(variant, proc_macro2::Span::call_site()), text.clone()))
}

/// The value of `crons` in the definition.
pub(crate) fn definition(model: &JobModel) -> TokenStream {
    let entries = model.args.schedules.iter().map(|schedule| entry(model, schedule));
    quote!(&[#(#entries),*])
}

fn entry(model: &JobModel, schedule: &Schedule) -> TokenStream {
    let private = &model.private;
    let some =
        |text: &LitStr| quote!(::core::option::Option::Some(::std::string::String::from(#text)));
    let name = schedule.name.as_ref().unwrap_or(&model.name);
    let timezone = schedule.timezone.as_ref().or(model.args.timezone.as_ref());
    let when = match &schedule.when {
        When::Cron(text) => {
            let text = some(text);
            quote!(cron: #text)
        }
        When::Every(ms) => quote!(every: ::core::option::Option::Some(#ms)),
    };
    let texts = [
        ("timezone", timezone),
        ("start", schedule.start.as_ref()),
        ("end", schedule.end.as_ref()),
        ("skip_days", schedule.skip_days.as_ref()),
    ];
    let texts = texts.into_iter().filter_map(|(field, text)| {
        let (field, text) = (Ident::new(field, proc_macro2::Span::call_site()), some(text?));
        Some(quote!(#field: #text))
    });
    let numbers = [
        schedule.splay.map(|ms| quote!(splay: ::core::option::Option::Some(#ms))),
        schedule.count.map(|count| quote!(count: ::core::option::Option::Some(#count))),
        schedule
            .catch_up
            .as_ref()
            .map(|catch_up| quote!(catch_up: #private::cron::CatchUp::#catch_up)),
        schedule
            .overlap
            .as_ref()
            .map(|(overlap, _)| quote!(overlap: #private::cron::Overlap::#overlap)),
    ];
    let fields = std::iter::once(when).chain(texts).chain(numbers.into_iter().flatten());
    let arguments = schedule.arguments.iter().flat_map(|(_, arguments)| arguments);
    quote! {
        #private::DeclaredCron {
            name: #name,
            timing: || #private::cron::Timing {
                #(#fields,)*
                ..::core::default::Default::default()
            },
            args: || #private::cron::args(Self::with(#(#arguments),*)),
        }
    }
}
