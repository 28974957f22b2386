//! `unique`, `debounce` and `throttle` in the attribute, and their code.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::ParseStream;
use syn::{Error, Expr, Ident, LitStr, Result, Token, token};

use crate::args::{Args, consists_of, string};
use crate::errors::Errors;
use crate::limits::{self, Key};
use crate::model::JobModel;
use crate::params::Param;
use crate::{brackets, duration};

/// The keys in the brackets of each, with an example of the value.
const INNER: [(&str, &[(&str, &str)]); 3] = [
    (
        "unique",
        &[
            ("key", "user_id"),
            ("until", "\"start\""),
            ("on_conflict", "\"replace\""),
            ("scope", "\"import\""),
        ],
    ),
    (
        "debounce",
        &[("wait", "\"5s\""), ("max", "\"1m\""), ("key", "document"), ("scope", "\"index\"")],
    ),
    ("throttle", &[("period", "\"1m\""), ("key", "user_id"), ("scope", "\"sync\"")]),
];

const UNTIL: &str = "`until` is \"start\", \"finish\" or a duration, as in \"24h\"";
const ON_CONFLICT: &str = "`on_conflict` is \"keep\", \"replace\", \"reschedule\", \"replace_and_reschedule\", \"refuse\" or \"follow\"";

/// How the jobs of a type are unique.
pub(crate) struct Unique {
    word: Ident,
    given: Vec<Ident>,
    key: Option<Key>,
    scope: Option<LitStr>,
    until: Option<Until>,
    on_conflict: Option<(&'static str, LitStr)>,
    wait_ms: Option<u64>,
    max_ms: Option<(u64, LitStr)>,
    /// Whether nothing in it is wrong; else it becomes no code.
    sound: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    Start,
    Finish,
    Period(u64),
}

/// Whether a key of the attribute is one of those here, which may have brackets.
pub(crate) fn is_unique(key: &str) -> bool {
    INNER.iter().any(|(word, _)| *word == key)
}

/// What follows the word. None where something has to, and does not.
pub(crate) fn parse(word: &Ident, input: ParseStream<'_>, errors: &mut Errors) -> Option<Unique> {
    let before = errors.count();
    let mut unique = Unique::new(word.clone());
    if input.peek(token::Paren) {
        let name = word.to_string();
        let known =
            INNER.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, keys)| keys);
        let brackets = brackets::parse(&name, known, input, errors, &mut |key, value| {
            unique.given.push(key.clone());
            value.map_or(Ok(()), |value| unique.set(&key.to_string(), &value))
        });
        errors.ok(brackets)?;
    } else if input.peek(Token![=]) && word == "throttle" {
        input.parse::<Token![=]>().ok()?;
        let value = input.parse::<Expr>().ok()?;
        unique.given.push(Ident::new("period", word.span()));
        let set = unique.set("period", &value);
        errors.ok(set);
    } else if word != "unique" || input.peek(Token![=]) {
        return None;
    }
    unique.check(errors.count() == before, errors);
    unique.sound = errors.count() == before;
    Some(unique)
}

impl Unique {
    fn new(word: Ident) -> Self {
        Self {
            word,
            given: Vec::new(),
            key: None,
            scope: None,
            until: None,
            on_conflict: None,
            wait_ms: None,
            max_ms: None,
            sound: false,
        }
    }

    fn set(&mut self, key: &str, value: &Expr) -> Result<()> {
        let value = crate::args::peel(value);
        match key {
            "key" => self.key = Some(limits::key(value)?),
            "scope" => self.scope = Some(scope(value)?),
            "until" => self.until = Some(until(value)?),
            "on_conflict" => self.on_conflict = Some(on_conflict(value)?),
            "wait" => self.wait_ms = Some(time("wait", value)?.0),
            "max" => self.max_ms = Some(time("max", value)?),
            _ => self.until = Some(Until::Period(time("period", value)?.0)),
        }
        Ok(())
    }

    /// Whether what is given fits together.
    fn check(&self, complete: bool, errors: &mut Errors) {
        let needs = match self.word.to_string().as_str() {
            "debounce" => Some(("wait", "\"5s\"")),
            "throttle" => Some(("period", "\"1m\"")),
            _ => None,
        };
        if let Some((key, example)) = needs
            && complete
            && !self.given.iter().any(|given| given == key)
        {
            let word = &self.word;
            let message = format!("`{word}` needs its `{key}`, as in `{word}({key} = {example})`");
            errors.at(word, message);
        }
        if let (Some((max, text)), Some(wait)) = (&self.max_ms, self.wait_ms)
            && *max < wait
        {
            errors.at(text, "`max` is at least as long as `wait`");
        }
        if let Some(("Follow", text)) = &self.on_conflict
            && self.until.is_some_and(|until| until != Until::Finish)
        {
            errors.at(
                text,
                "a job follows another that is unique until it has ended: leave `until` out",
            );
        }
    }

    /// Whether nothing in it is wrong, and it fits the rest of the attribute.
    pub(crate) fn is_sound_with(&self, args: &Args, params: &[Param], errors: &mut Errors) -> bool {
        let before = errors.count();
        self.key.iter().for_each(|key| key.check(args, params, errors));
        if let Some(limit) = args.limits.iter().find(|limit| limit.is_of_arguments()) {
            let message = format!(
                "a job with `{}` has no `when_full`, and no limit from its arguments",
                self.word
            );
            errors.at(limit.word(), message);
        }
        self.sound && errors.count() == before
    }
}

fn scope(value: &Expr) -> Result<LitStr> {
    let form = "a scope is a string of 1 to 100 of `A-Z a-z 0-9 . _ : -`";
    let text = string(value, form)?;
    let fits = consists_of(&text.value(), 100, "._:-");
    if fits { Ok(text.clone()) } else { Err(Error::new_spanned(text, form)) }
}

fn until(value: &Expr) -> Result<Until> {
    let text = string(value, UNTIL)?;
    match text.value().as_str() {
        "start" => Ok(Until::Start),
        "finish" => Ok(Until::Finish),
        period => match duration::parse(period) {
            Ok(0) => Err(Error::new_spanned(text, "a period is longer than zero")),
            Ok(ms) => Ok(Until::Period(ms)),
            Err(_) => Err(Error::new_spanned(text, UNTIL)),
        },
    }
}

fn on_conflict(value: &Expr) -> Result<(&'static str, LitStr)> {
    let text = string(value, ON_CONFLICT)?;
    let variant = match text.value().as_str() {
        "keep" => "Keep",
        "refuse" => "Refuse",
        "follow" => "Follow",
        "replace" => "Replace",
        "reschedule" => "Reschedule",
        "replace_and_reschedule" => "ReplaceAndReschedule",
        _ => return Err(Error::new_spanned(text, ON_CONFLICT)),
    };
    Ok((variant, text.clone()))
}

fn time(key: &str, value: &Expr) -> Result<(u64, LitStr)> {
    let text = string(value, duration::FORM)?;
    match duration::parse(&text.value()) {
        Ok(0) => Err(Error::new_spanned(text, format!("`{key}` is longer than zero"))),
        Ok(ms) => Ok((ms, text.clone())),
        Err(message) => Err(Error::new_spanned(text, message)),
    }
}

/// The value of `unique` in the definition.
pub(crate) fn definition(model: &JobModel) -> TokenStream {
    let private = &model.private;
    let Some(unique) = &model.args.unique else {
        return quote!(::core::option::Option::None);
    };
    let scope = unique.scope.as_ref().unwrap_or(&model.name);
    let debounces = unique.word == "debounce";
    let until = match unique.until.unwrap_or(if debounces { Until::Start } else { Until::Finish }) {
        Until::Start => quote!(Start),
        Until::Finish => quote!(Finish),
        Until::Period(ms) => quote!(Period(#ms)),
    };
    let default = if debounces { "ReplaceAndReschedule" } else { "Keep" };
    let on_conflict = unique.on_conflict.as_ref().map_or(default, |(variant, _)| variant);
    let on_conflict = Ident::new(on_conflict, proc_macro2::Span::call_site());
    let debounce = match (unique.wait_ms, &unique.max_ms) {
        (None, _) => quote!(::core::option::Option::None),
        (Some(wait), None) => {
            quote!(::core::option::Option::Some((#wait, ::core::option::Option::None)))
        }
        (Some(wait), Some((max, _))) => {
            quote!(::core::option::Option::Some((#wait, ::core::option::Option::Some(#max))))
        }
    };
    quote! {
        ::core::option::Option::Some(#private::unique::Uniqueness {
            scope: #scope,
            until: #private::unique::Until::#until,
            on_conflict: #private::unique::OnConflict::#on_conflict,
            debounce: #debounce,
        })
    }
}

/// The method that gives the key, where there is one.
pub(crate) fn method(model: &JobModel) -> Option<TokenStream> {
    let unique = model.args.unique.as_ref()?;
    let private = &model.private;
    let key = match &unique.key {
        None => quote!(#private::unique::of_arguments(self)),
        Some(key) => {
            let (parts, job) = (limits::code::parts(model, key), limits::code::job());
            quote! {{
                use #private::limit::{OfOption as _, OfValue as _};
                let #job = self;
                #private::limit::key([#(#parts),*])
            }}
        }
    };
    Some(quote! {
        fn unique_key(&self) -> ::core::option::Option<::std::string::String> {
            #key
        }
    })
}
