//! What the generated items take over from the function: its visibility, and those of its attributes that hold for
//! them too.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::punctuated::Punctuated;
use syn::{Ident, Meta, Token};

use crate::model::JobModel;

/// The visibility of the function, for its twins.
pub(crate) fn visibility(model: &JobModel) -> TokenStream {
    from_here(model.function.vis.to_token_stream())
}

/// The same tokens at their places, counted as generated: lints about them are shown at the function already.
pub(crate) fn from_here(tokens: TokenStream) -> TokenStream {
    respan(tokens, &|span| Span::call_site().located_at(span))
}

/// The same tokens with other spans.
pub(crate) fn respan(tokens: TokenStream, span: &dyn Fn(Span) -> Span) -> TokenStream {
    let each = |token: TokenTree| {
        let mut token = match token {
            TokenTree::Group(group) => {
                Group::new(group.delimiter(), respan(group.stream(), span)).into()
            }
            TokenTree::Ident(ident) => {
                let span = span(ident.span());
                return at(ident, span).into();
            }
            token => token,
        };
        token.set_span(span(token.span()));
        token
    };
    tokens.into_iter().map(each).collect()
}

/// The name with another span. What counts as generated is read in this crate's edition, which has a keyword `gen`; what else
/// became one since the first edition, `syn` takes for no name in any.
pub(crate) fn at(mut ident: Ident, span: Span) -> Ident {
    if ident == "gen" {
        return Ident::new_raw("gen", span);
    }
    ident.set_span(span);
    ident
}

/// What holds for everything that is generated: conditions and levels of lints.
pub(crate) fn of_every_item(model: &JobModel) -> Vec<TokenStream> {
    taken_over(model, |meta| {
        let list = meta.require_list().ok().map(|list| &list.tokens);
        match name(meta).as_str() {
            "cfg" | "allow" | "warn" | "deny" | "forbid" => Some(quote!(#meta)),
            // What is expected need not happen in generated code too.
            "expect" => Some(quote!(allow(#list))),
            // The generated items have to mention each other.
            "deprecated" => Some(quote!(allow(deprecated))),
            _ => None,
        }
    })
}

/// What holds for the struct, which users name.
pub(crate) fn of_struct(model: &JobModel) -> Vec<TokenStream> {
    taken_over(model, |meta| match (name(meta).as_str(), meta) {
        ("deprecated", _) | ("doc", Meta::List(_)) => Some(quote!(#meta)),
        _ => None,
    })
}

fn taken_over(model: &JobModel, take: fn(&Meta) -> Option<TokenStream>) -> Vec<TokenStream> {
    model.function.attrs.iter().filter_map(|attr| through_conditions(&attr.meta, take)).collect()
}

/// Looks into `cfg_attr`.
fn through_conditions(meta: &Meta, take: fn(&Meta) -> Option<TokenStream>) -> Option<TokenStream> {
    if name(meta) != "cfg_attr" {
        return take(meta);
    }
    let list = meta.require_list().ok()?;
    let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
    let mut metas = list.parse_args_with(parser).ok()?.into_iter();
    let condition = metas.next()?;
    let taken: Vec<_> = metas.filter_map(|meta| through_conditions(&meta, take)).collect();
    (!taken.is_empty()).then(|| quote!(cfg_attr(#condition, #(#taken),*)))
}

fn name(meta: &Meta) -> String {
    meta.path().get_ident().map(ToString::to_string).unwrap_or_default()
}
