//! From a job whose signature is refused to something that compiles, so that the user sees one message, and none about
//! the places where the job is used.

use proc_macro2::TokenStream;
use quote::quote;
use syn::FnArg;

use crate::expand;
use crate::model::JobModel;

/// The function, and a struct that can be used like that of a sound job but does nothing.
pub(crate) fn job(model: &JobModel) -> TokenStream {
    let mut tokens = expand::function(model);
    // Where there is a `self` there is an `impl` around, which has no place for other items.
    if model.function.sig.inputs.iter().all(|input| matches!(input, FnArg::Typed(_))) {
        tokens.extend(expand::arguments(model));
        tokens.extend(expand::methods(model));
        tokens.extend(expand::implementation(model, &definition(model)));
    }
    tokens
}

fn definition(model: &JobModel) -> TokenStream {
    let private = &model.private;
    quote! {
        #private::Definition {
            name: Self::NAME,
            aliases: &[],
            version: 1,
            upgrade: ::core::option::Option::None,
            queue: "",
            priority: #private::Priority::Normal,
            limits: &[],
            unique: ::core::option::Option::None,
            crons: &[],
            place: #private::Place { module: "", file: "", line: 0 },
            policy: #private::Policy::DEFAULT,
            encrypted: #private::Encrypted::No,
            redact: &[],
            parameters: "[]",
            schema: #private::schema!("{}", [], []),
            keep_ms: ::core::option::Option::None,
            blocking: false,
            on_failed: ::core::option::Option::None,
            needs: |_| {},
            decode: #private::decode::<Self>,
            limit_values: #private::limit_values::<Self>,
            unique_key: #private::unique_key::<Self>,
            start: |_| loop {},
        }
    }
}
