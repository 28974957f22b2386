//! From the limits of a job to their code: the list of the limits, and what the arguments say of them.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Path};

use super::together::{Limit, Scope, named};
use super::{AtOnce, Key, WhenFull};
use crate::model::{JobModel, visible};

/// The list of the limits.
pub(crate) fn list(model: &JobModel) -> TokenStream {
    let limits = model.limits.list.iter().map(|limit| one(&model.private, limit));
    quote!(&[#(#limits),*])
}

fn one(private: &TokenStream, limit: &Limit) -> TokenStream {
    let limits = quote!(#private::limit);
    let scope = match limit.scope {
        Scope::Worker => quote!(Worker),
        Scope::All => quote!(All),
        Scope::Key => quote!(Key),
        Scope::OrderedKey => quote!(OrderedKey),
    };
    let at_once = match &limit.at_once {
        None => quote!(Any),
        Some(AtOnce::Of(limit)) => quote!(Of(#limit)),
        Some(AtOnce::OfArguments(_)) => quote!(OfArguments),
    };
    let when_full = match limit.when_full {
        WhenFull::Wait => quote!(Wait),
        WhenFull::KeepNewest => quote!(KeepNewest),
        WhenFull::KeepOldest => quote!(KeepOldest),
    };
    let rate = option(limit.rate.map(|(rate, burst)| {
        let (count, period_ms) = (rate.count, rate.period_ms);
        quote!(#limits::Rate { count: #count, period_ms: #period_ms, burst: #burst })
    }));
    let max_waiting = option(limit.max_waiting.map(|max| quote!(#max)));
    let (name, halts) = (&limit.name, limit.halts);
    quote! {
        #limits::Limit {
            name: #name,
            scope: #limits::Scope::#scope,
            at_once: #limits::AtOnce::#at_once,
            rate: #rate,
            when_full: #limits::WhenFull::#when_full,
            max_waiting: #max_waiting,
            halts: #halts,
        }
    }
}

fn option(value: Option<TokenStream>) -> TokenStream {
    match value {
        None => quote!(::core::option::Option::None),
        Some(value) => quote!(::core::option::Option::Some(#value)),
    }
}

/// The method that says what the arguments mean for the limits, where they mean anything.
pub(crate) fn method(model: &JobModel) -> Option<TokenStream> {
    let key = model.limits.key.as_ref()?;
    let private = &model.private;
    let limits = quote!(#private::limit);
    let parts = parts(model, key);
    let limit = option(model.limits.list.iter().find_map(|limit| {
        let Some(AtOnce::OfArguments(path)) = &limit.at_once else { return None };
        let (place, value) = value(model, path);
        let value = match named(path, &model.params) {
            Some(_) => quote_spanned!(place=> ::core::clone::Clone::clone(&#value)),
            None => value,
        };
        Some(quote_spanned!(place=> #limits::limit(#value)))
    }));
    let job = job();
    Some(quote! {
        fn limit_values(&self) -> #limits::LimitValues {
            use #limits::{OfOption as _, OfValue as _};
            let #job = self;
            #limits::LimitValues { key: #limits::key([#(#parts),*]), limit: #limit }
        }
    })
}

/// The texts of the parts of a key.
pub(crate) fn parts(model: &JobModel, key: &Key) -> Vec<TokenStream> {
    let private = &model.private;
    let part = |part| {
        // The compiler complains at the part about what has no text.
        let (place, value) = value(model, part);
        quote_spanned!(place=> (&#private::limit::Key(&#value)).part())
    };
    key.0.iter().map(part).collect()
}

/// The argument, or what the function gives, and the place where the user names it.
fn value(model: &JobModel, path: &Path) -> (Span, TokenStream) {
    let place = Span::mixed_site().located_at(path.span());
    let job = job();
    let argument = path.get_ident().filter(|_| named(path, &model.params).is_some()).map(visible);
    let value = argument.map_or_else(
        || quote_spanned!(place=> #path(#job)),
        |name| quote_spanned!(place=> #job.#name),
    );
    (place, value)
}

/// The local variable that holds the arguments. With `self` in its place the compiler would say of a function that is missing, that it may be
/// a method.
pub(crate) fn job() -> Ident {
    Ident::new("job", Span::mixed_site())
}
