//! `#[hworker::test]`: a function that runs with a kit of its own.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, FnArg, ItemFn, Lit, MetaNameValue, Result, ReturnType, Token};

/// So many threads a runtime of several has where the test does not say.
const THREADS: usize = 2;

pub(crate) fn expand(args: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let threads = threads(args)?.map_or_else(
        || quote!(::core::option::Option::None),
        |threads| quote!(::core::option::Option::Some(#threads)),
    );
    let ItemFn { attrs, vis, sig, block, .. } = syn::parse2(item)?;
    if sig.asyncness.is_none() {
        return Err(Error::new_spanned(sig.fn_token, "a test of hworker is `async`"));
    }
    if !sig.generics.params.is_empty() {
        return Err(Error::new_spanned(&sig.generics, "a test has no generics"));
    }
    let mut inputs = sig.inputs.iter();
    let kit = match (inputs.next(), inputs.next()) {
        (None, _) => quote!(_: ::hworker::testing::Kit),
        (Some(FnArg::Typed(kit)), None) => quote!(#kit),
        (_, Some(other)) | (Some(other), None) => {
            return Err(Error::new_spanned(
                other,
                "a test takes nothing, or one `hworker::testing::Kit`",
            ));
        }
    };
    let name = &sig.ident;
    let output = &sig.output;
    let ends = match output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ends) => quote!(#ends),
    };
    Ok(quote! {
        #[::core::prelude::v1::test]
        #(#attrs)*
        #vis fn #name() #output {
            ::hworker::testing::run::<#ends>(#threads, async |#kit| #output #block)
        }
    })
}

/// How many threads its runtime has; `None` for that of the test alone.
fn threads(args: TokenStream) -> Result<Option<usize>> {
    let given = Punctuated::<MetaNameValue, Token![,]>::parse_terminated.parse2(args)?;
    let (mut several, mut threads) = (false, None);
    for option in &given {
        let Expr::Lit(ExprLit { lit, .. }) = &option.value else {
            return Err(Error::new_spanned(&option.value, "write a text or a number"));
        };
        match lit {
            Lit::Str(flavor) if option.path.is_ident("flavor") => match flavor.value().as_str() {
                "multi_thread" => several = true,
                "current_thread" => {}
                _ => {
                    return Err(Error::new_spanned(
                        flavor,
                        "the flavors are `current_thread` and `multi_thread`",
                    ));
                }
            },
            Lit::Int(number) if option.path.is_ident("worker_threads") => {
                threads = Some(number.base10_parse::<usize>()?);
            }
            _ => {
                return Err(Error::new_spanned(
                    option,
                    "the options of a test are `flavor = \"multi_thread\"` and `worker_threads = 2`",
                ));
            }
        }
    }
    match (several, threads) {
        (false, None) => Ok(None),
        (_, Some(0)) => Err(Error::new_spanned(&given, "a runtime has a thread or more")),
        (false, Some(_)) => {
            Err(Error::new_spanned(&given, "`worker_threads` needs `flavor = \"multi_thread\"`"))
        }
        (true, threads) => Ok(Some(threads.unwrap_or(THREADS))),
    }
}
