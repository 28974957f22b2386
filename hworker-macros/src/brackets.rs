//! The keys and values in the brackets behind a key of the attribute.

use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Error, Expr, Ident, Result, Token, parenthesized};

use crate::args::skip_past_comma;
use crate::errors::Errors;
use crate::keys;

/// Reads them, where `known` has the keys, each with an example of its value. `set` is called with each of them, without a value where that
/// is missing.
pub(crate) fn parse(
    word: &str,
    known: &[(&'static str, &str)],
    input: ParseStream<'_>,
    errors: &mut Errors,
    set: &mut dyn FnMut(&Ident, Option<Expr>) -> Result<()>,
) -> Result<()> {
    let inside;
    parenthesized!(inside in input);
    pairs(word, known, &inside, errors, set);
    Ok(())
}

/// The same from within the brackets.
pub(crate) fn pairs(
    word: &str,
    known: &[(&'static str, &str)],
    inside: ParseStream<'_>,
    errors: &mut Errors,
    set: &mut dyn FnMut(&Ident, Option<Expr>) -> Result<()>,
) {
    let mut seen = Vec::new();
    while !inside.is_empty() {
        let pair = pair(word, known, inside, &mut seen, set);
        if errors.ok(pair).is_some() && !inside.is_empty() && !inside.peek(Token![,]) {
            errors.push(inside.error("expected `,` and the next key"));
        }
        skip_past_comma(inside);
    }
}

fn pair(
    word: &str,
    known: &[(&'static str, &str)],
    input: ParseStream<'_>,
    seen: &mut Vec<String>,
    set: &mut dyn FnMut(&Ident, Option<Expr>) -> Result<()>,
) -> Result<()> {
    let expected = |span| {
        let (key, example) = known.first().copied().unwrap_or_default();
        Error::new(span, format!("expected a key and its value, as in `{key} = {example}`"))
    };
    let key = input.call(Ident::parse_any).map_err(|error| expected(error.span()))?;
    let name = key.to_string();
    let Some((_, example)) = known.iter().find(|(known, _)| *known == name) else {
        if !input.peek(Token![=]) {
            return Err(expected(key.span()));
        }
        let known = known.iter().map(|(known, _)| *known);
        return Err(Error::new(key.span(), keys::unknown_in(word, &name, known)));
    };
    if seen.contains(&name) {
        return Err(Error::new(key.span(), format!("`{name}` is given twice")));
    }
    let needs_value = {
        let message = format!("`{name}` needs a value, as in `{name} = {example}`");
        Error::new(key.span(), message)
    };
    seen.push(name);
    let value = input.parse::<Token![=]>().and_then(|_| input.parse::<Expr>()).ok();
    let is_missing = value.is_none();
    set(&key, value)?;
    if is_missing { Err(needs_value) } else { Ok(()) }
}
