//! From a job to its code: one function for each generated item.
//!
//! Locals have the span `mixed_site`, so that no argument can clash with them; what users see has the call's, see
//! [`visible`]. No other names are made, so nothing of the user's is shadowed.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Ident, LitStr, ReturnType};

use crate::args::{Encrypted, Fault, OrPath};
use crate::attributes::{of_every_item, of_struct, respan, visibility};
use crate::duration::Backoff;
use crate::limits;
use crate::model::{JobModel, visible};
use crate::params::{Param, Pass, mentions};
use crate::{isolate, schedule, schema, unique};

/// The function and everything beside it.
pub(crate) fn job(model: &JobModel) -> TokenStream {
    let mut tokens = function(model);
    tokens.extend(arguments(model));
    tokens.extend(methods(model));
    tokens.extend(implementation(model, &definition(model)));
    tokens.extend(registration(model));
    tokens.extend(underscores(model));
    tokens
}

/// The function as it was written, without the parameter attributes that only the macro knows.
pub(crate) fn function(model: &JobModel) -> TokenStream {
    let function = &model.function;
    let (attrs, vis, sig, body) = (&function.attrs, &function.vis, &function.sig, &function.body);
    quote!(#(#attrs)* #vis #sig #body)
}

/// The struct of the arguments.
pub(crate) fn arguments(model: &JobModel) -> TokenStream {
    let (private, job, vis) = (&model.private, &model.job, visibility(model));
    let attrs = of_every_item(model).into_iter().chain(of_struct(model));
    let serde = LitStr::new(&quote!(#private::serde).to_string(), Span::call_site());
    let name = model.function.sig.ident.unraw();
    let doc = format!(" The arguments of the job [`{name}`](fn@{name}), and how to enqueue it.");
    let fields = model.arguments().filter(|param| param.pass != Pass::Refused).map(|param| {
        let (name, ty, attrs) = (&param.name, param.stored(), &param.attrs);
        let doc = format!(" The argument `{}`.", name.unraw());
        let doc = (!param.is_documented()).then(|| quote!(#[doc = #doc]));
        let bound = bound(model, param);
        quote!(#doc #bound #(#attrs)* #vis #name: #ty)
    });
    quote! {
        #(#[#attrs])*
        #[doc = #doc]
        #[derive(#private::serde::Serialize, #private::serde::Deserialize)]
        #[serde(crate = #serde)]
        #vis struct #job {
            #(#fields,)*
        }
    }
}

/// Makes the derived code believe that the type of a field serialises, so that `impl Job` alone complains if it does
/// not. Left out where it cannot be said or is not so: a `$crate` has no spelling in the string that serde wants, a job
/// that holds itself would ask for itself without end, and the user may have told serde otherwise.
fn bound(model: &JobModel, param: &Param) -> Option<TokenStream> {
    let (private, ty) = (&model.private, &param.stored());
    let bound = quote!(for<'read> #ty: #private::Argument<'read>).to_string();
    let told = param.attrs.iter().any(|attr| attr.path().is_ident("serde"));
    if told || bound.contains('$') || mentions(&param.ty, &model.job) {
        return None;
    }
    let bound = LitStr::new(&bound, param.ty.span());
    Some(quote!(#[serde(bound(serialize = #bound, deserialize = #bound))]))
}

/// What is called on the struct.
pub(crate) fn methods(model: &JobModel) -> TokenStream {
    let (job, attrs) = (&model.job, of_every_item(model));
    let methods = [
        name(model),
        with(model),
        enqueue(model),
        enqueue_in(model),
        enqueue_at(model),
        enqueue_many(model),
    ];
    // With the time there may be one more than the user is to blame for.
    let many = model.arguments().count() >= 7;
    let allowed = many.then(|| quote!(#[allow(clippy::too_many_arguments)]));
    quote! {
        #(#[#attrs])*
        #allowed
        #[automatically_derived]
        impl #job {
            #(#methods)*
        }
    }
}

/// What is found on the struct leads to the function.
fn method(model: &JobModel, name: &str) -> Ident {
    Ident::new(name, model.job.span())
}

fn name(model: &JobModel) -> TokenStream {
    let (vis, constant, name) = (visibility(model), method(model, "NAME"), &model.name);
    quote! {
        /// The name of the job on the wire.
        #vis const #constant: &'static ::core::primitive::str = #name;
    }
}

fn with(model: &JobModel) -> TokenStream {
    let (private, vis, with) = (&model.private, visibility(model), method(model, "with"));
    let accepted = model.arguments().map(Param::accepted);
    let fields = model.arguments().filter_map(|param| {
        let name = &param.name;
        match param.pass {
            Pass::Refused => None,
            Pass::Str => Some(quote!(#name: ::core::convert::Into::into(#name))),
            _ => Some(quote!(#name: #name)),
        }
    });
    quote! {
        /// The job with these arguments, not enqueued yet: for all that can differ from call to call.
        #vis fn #with(#(#accepted),*) -> #private::Enqueue<Self> {
            #private::Enqueue::new(Self { #(#fields),* })
        }
    }
}

fn enqueue(model: &JobModel) -> TokenStream {
    let doc = " Enqueues the job with these arguments, to run as soon as a worker has a free slot.";
    ending(model, "enqueue", doc, None, &quote!())
}

fn enqueue_in(model: &JobModel) -> TokenStream {
    let delay = Ident::new("delay", Span::mixed_site());
    let doc = " Enqueues the job with these arguments, to run after `delay`.";
    let first = quote!(#delay: ::core::time::Duration);
    ending(model, "enqueue_in", doc, Some(first), &quote!(.delay(#delay)))
}

fn enqueue_at(model: &JobModel) -> TokenStream {
    let time = Ident::new("time", Span::mixed_site());
    let doc = " Enqueues the job with these arguments, to run at `time`.";
    let first = quote!(#time: ::std::time::SystemTime);
    ending(model, "enqueue_at", doc, Some(first), &quote!(.at(#time)))
}

fn enqueue_many(model: &JobModel) -> TokenStream {
    let (private, vis, name) = (&model.private, visibility(model), method(model, "enqueue_many"));
    let jobs = Ident::new("jobs", Span::mixed_site());
    quote! {
        /// Enqueues all jobs of an iterator, and gives how many they are: they are taken from it while others are on their way, so a million of them
        /// need not fit into memory. `hworker::Bulk` has more to choose.
        ///
        /// # Errors
        /// `Error::Stopped` says how many are enqueued, where not all are; with every other error none is.
        #vis fn #name<I>(
            #jobs: I,
        ) -> impl ::core::future::Future<
            Output = ::core::result::Result<::core::primitive::u64, #private::Error>,
        > + ::core::marker::Send
        where
            I: ::core::iter::IntoIterator<Item = #private::Enqueue<Self>>,
            I::IntoIter: ::core::marker::Send,
        {
            #private::enqueue_many(#jobs)
        }
    }
}

/// A method that enqueues. Its future is `'static`, or it would seem to hold what an `impl Into<String>` borrows.
fn ending(
    model: &JobModel,
    name: &str,
    doc: &str,
    first: Option<TokenStream>,
    setting: &TokenStream,
) -> TokenStream {
    let (private, vis) = (&model.private, visibility(model));
    let (name, handle) = (method(model, name), handle(model));
    let accepted = first.into_iter().chain(model.arguments().map(Param::accepted));
    let names = model.arguments().map(|param| &param.name);
    quote! {
        #[doc = #doc]
        ///
        /// # Errors
        /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
        /// other error means that it was not enqueued.
        #vis fn #name(
            #(#accepted),*
        ) -> impl ::core::future::Future<
            Output = ::core::result::Result<#handle, #private::Error>,
        > + ::core::marker::Send + 'static {
            Self::with(#(#names),*)#setting.enqueue()
        }
    }
}

/// What the runtime knows of the job.
pub(crate) fn implementation(model: &JobModel, definition: &TokenStream) -> TokenStream {
    let (private, attrs) = (&model.private, of_every_item(model));
    // Here the compiler complains about arguments.
    let mut job = model.job.clone();
    // Nothing in a job that is refused can be relied on.
    let limit_values = model.sound.then(|| limits::code::method(model)).flatten();
    let unique_key = model.sound.then(|| unique::method(model)).flatten();
    let results = results(model);
    job.set_span(job.span().located_at(model.function.sig.paren_token.span.join()));
    quote! {
        #(#[#attrs])*
        #[automatically_derived]
        impl #private::Job for #job {
            #results
            const NAME: &'static ::core::primitive::str = Self::NAME;
            const DEFINITION: &'static #private::Definition = &#definition;

            #limit_values

            #unique_key
        }
    }
}

/// What is kept of its end. The compiler complains about it at the return type.
fn results(model: &JobModel) -> TokenStream {
    let (private, handle) = (&model.private, handle(model));
    if !keeps_result(model) {
        return quote! {
            type Output = ();
            type Failure = ();
            type Handle = #handle;
        };
    }
    let returned = match &model.function.sig.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) => quote!(#ty),
    };
    let place = match &model.function.sig.output {
        ReturnType::Default => model.job.span(),
        ReturnType::Type(_, ty) => ty.span(),
    };
    let there = respan(private.clone(), &|_| place);
    let of = |name| {
        let name = Ident::new(name, place);
        quote_spanned!(place=> <#returned as #there::Returns>::#name)
    };
    let output = of("Value");
    let failure = model.args.keep_error.map_or_else(|| quote!(()), |_| of("Error"));
    quote! {
        type Output = #output;
        type Failure = #failure;
        type Handle = #handle;
    }
}

/// Nothing in a job that is refused can be relied on.
fn keeps_result(model: &JobModel) -> bool {
    model.sound && model.args.keep_result_ms.is_some()
}

/// What an enqueue gives.
fn handle(model: &JobModel) -> TokenStream {
    let private = &model.private;
    if keeps_result(model) { quote!(#private::Handle<Self>) } else { quote!(#private::JobId) }
}

fn definition(model: &JobModel) -> TokenStream {
    let private = &model.private;
    let (policy, needs, start) = (policy(model), needs(model), start(model));
    let (aliases, blocking) = (&model.args.aliases, !model.is_async());
    let (limits, unique) = (limits::code::list(model), unique::definition(model));
    let (crons, isolate) = (schedule::definition(model), isolate::definition(model));
    let (redact, schema) = (schema::redacted(model), schema(model));
    let (version, parameters) = (model.args.version.unwrap_or(1), schema::parameters(model));
    let keep = match model.args.keep_result_ms {
        None => quote!(::core::option::Option::None),
        Some(ms) => quote!(::core::option::Option::Some(#ms)),
    };
    let upgrade = match &model.args.upgrade {
        None => quote!(::core::option::Option::None),
        Some(path) => quote!(::core::option::Option::Some(#path)),
    };
    let on_failed = match &model.args.on_failed {
        None => quote!(::core::option::Option::None),
        Some(job) => quote!(::core::option::Option::Some(|failed, client| {
            #private::envelope(#job::with(failed), client)
        })),
    };
    let queue = model.args.queue.as_ref();
    let queue = queue.map_or_else(|| quote!(#private::DEFAULT_QUEUE), |queue| quote!(#queue));
    let priority = Ident::new("Normal", Span::call_site());
    let priority = model.args.priority.as_ref().unwrap_or(&priority);
    let encrypted = match model.args.encrypted {
        None => quote!(#private::Encrypted::No),
        // Not there without the feature, and then the compiler names it.
        Some(Encrypted::Yes) => quote!(#private::encryption::YES),
        Some(Encrypted::Only) => quote!(#private::encryption::ONLY),
    };
    quote! {
        #private::Definition {
            name: Self::NAME,
            aliases: &[#(#aliases),*],
            version: #version,
            upgrade: #upgrade,
            queue: #queue,
            priority: #private::Priority::#priority,
            limits: #limits,
            unique: #unique,
            crons: #crons,
            place: #private::Place {
                module: ::core::module_path!(),
                file: ::core::file!(),
                line: ::core::line!(),
            },
            policy: #policy,
            encrypted: #encrypted,
            redact: &[#(#redact),*],
            parameters: #parameters,
            schema: #schema,
            keep_ms: #keep,
            blocking: #blocking,
            isolate: #isolate,
            on_failed: #on_failed,
            needs: #needs,
            decode: #private::decode::<Self>,
            limit_values: #private::limit_values::<Self>,
            unique_key: #private::unique_key::<Self>,
            start: #start,
        }
    }
}

/// The schema of the arguments. What the types say of themselves is asked for in `schema!`, which knows whether `hworker` has that feature.
fn schema(model: &JobModel) -> TokenStream {
    let (private, shallow) = (&model.private, schema::of(model));
    let named = schema::named(model).map(|(name, param)| {
        let ty = param.stored();
        quote!(#name: #ty,)
    });
    let flattened = schema::flattened(model).map(Param::stored);
    quote!(#private::schema!(#shallow, [#(#named)*], [#(#flattened,)*]))
}

/// The policies that the attribute sets, over the defaults.
fn policy(model: &JobModel) -> TokenStream {
    let (private, args) = (&model.private, &model.args);
    let fault = |fault| match fault {
        Fault::Retry => quote!(#private::OnFault::Retry),
        Fault::Fail => quote!(#private::OnFault::Fail),
    };
    let on_error = args.on_error.as_ref().map(|on_error| match on_error {
        OrPath::Value(value) => {
            let fault = fault(*value);
            quote!(#private::OnError::Always(#fault))
        }
        OrPath::Path(path) => quote!(#private::OnError::Decide(#path)),
    });
    let set = [
        args.timeout_ms.map(|ms| quote!(timeout_ms: #ms)),
        args.max_attempts.map(|attempts| quote!(max_attempts: #attempts)),
        args.expires_ms.map(|ms| quote!(expires_ms: ::core::option::Option::Some(#ms))),
        args.backoff
            .as_ref()
            .map(|value| backoff(private, value))
            .map(|value| quote!(backoff: #value)),
        args.on_panic.map(fault).map(|value| quote!(on_panic: #value)),
        on_error.map(|value| quote!(on_error: #value)),
        args.on_timeout.map(fault).map(|value| quote!(on_timeout: #value)),
        args.on_crash.map(fault).map(|value| quote!(on_crash: #value)),
        args.on_cancel.as_ref().map(|value| quote!(on_cancel: #private::OnCancel::#value)),
    ];
    // Clippy dislikes a base of which nothing is left.
    let base = set.iter().any(Option::is_none).then(|| quote!(..#private::Policy::DEFAULT));
    let set = set.iter().flatten();
    quote!(#private::Policy { #(#set,)* #base })
}

fn backoff(private: &TokenStream, backoff: &OrPath<Backoff>) -> TokenStream {
    match backoff {
        OrPath::Value(Backoff::Fixed(ms)) => quote!(#private::Backoff::Fixed(#ms)),
        OrPath::Value(Backoff::List(list)) => quote!(#private::Backoff::List(&[#(#list),*])),
        OrPath::Value(Backoff::Exponential { first, cap }) => {
            quote!(#private::Backoff::Exponential { first_ms: #first, cap_ms: #cap })
        }
        OrPath::Path(path) => quote!(#private::Backoff::Custom(#path)),
    }
}

/// A closure that collects what the parameters need from the worker.
fn needs(model: &JobModel) -> TokenStream {
    let private = &model.private;
    let needs = Ident::new("needs", Span::mixed_site());
    let calls = model.injected().map(|param| {
        let ty = &param.ty;
        quote_spanned!(ty.span()=> <#ty as #private::Inject>::needs(#needs);)
    });
    quote!(|#needs| { #(#calls)* })
}

/// A closure that decodes the arguments and makes the body.
fn start(model: &JobModel) -> TokenStream {
    let job = &model.job;
    let invocation = Ident::new("invocation", Span::mixed_site());
    let args = Ident::new("args", Span::mixed_site());
    let injections = model.injected().enumerate().map(|(index, param)| {
        let (local, ty) = (injected(index), &param.ty);
        quote_spanned!(ty.span()=> let #local = #invocation.inject::<#ty>()?;)
    });
    let body = body(model, &call(model, &args));
    quote! {
        |#invocation| {
            let #args = #invocation.args::<#job>()?;
            #(#injections)*
            ::core::result::Result::Ok(#body)
        }
    }
}

/// The local variable that holds the injected parameter of this number.
fn injected(index: usize) -> Ident {
    format_ident!("injected_{index}", span = Span::mixed_site())
}

/// The call of the function.
fn call(model: &JobModel, args: &Ident) -> TokenStream {
    let function = visible(&model.function.sig.ident);
    let mut injections = 0..;
    let passed = model.params.iter().map(|param| {
        let name = &param.name;
        match param.pass {
            Pass::Injected => injections.next().map(injected).map(|local| quote!(#local)),
            Pass::InjectedLent => injections.next().map(injected).map(|local| quote!(&#local)),
            Pass::Value | Pass::Refused => Some(quote!(#args.#name)),
            Pass::Str | Pass::Slice | Pass::Lent => Some(quote!(&#args.#name)),
        }
    });
    quote!(#function(#(#passed),*))
}

/// The body of an attempt. Of a future that cannot go to another thread the compiler complains at the place of the
/// whole of it, so all of it is at the name of the function.
fn body(model: &JobModel, call: &TokenStream) -> TokenStream {
    let place = visible(&model.function.sig.ident).span();
    let private = respan(model.private.clone(), &|_| place);
    if model.is_async() {
        let end = end(model, &quote_spanned!(place=> #call.await));
        quote_spanned!(place=> #private::Body::from_future(async move { #end }))
    } else {
        let end = end(model, call);
        quote_spanned!(place=> #private::Body::from_blocking(move || { #end }))
    }
}

/// What was returned, in the form that its type tells. The compiler complains about it at the return type.
fn end(model: &JobModel, returned: &TokenStream) -> TokenStream {
    let private = &model.private;
    let place = match &model.function.sig.output {
        ReturnType::Default => model.job.span(),
        ReturnType::Type(_, ty) => ty.span(),
    };
    let place = Span::mixed_site().located_at(place);
    let value = Ident::new("returned", place);
    let method = match (model.args.keep_result_ms, model.args.keep_error) {
        (None, _) => "returned",
        (Some(_), None) => "kept",
        (Some(_), Some(_)) => "kept_with_error",
    };
    let method = Ident::new(method, place);
    let told = quote_spanned!(place=> (&&&&#private::tag(&#value)).form().#method(#value));
    quote! {
        use #private::{IsNested as _, IsOutcome as _, IsResult as _, IsValue as _};
        let #value = #returned;
        #told
    }
}

/// What lets every program that links the job know of it.
fn registration(model: &JobModel) -> TokenStream {
    let (private, job, attrs) = (&model.private, &model.job, of_every_item(model));
    quote! {
        #(#[#attrs])*
        const _: () = {
            #private::inventory::submit! {
                #private::Registration::of::<#job>()
            }
        };
    }
}

/// A warning at each argument that is stored under a name with an underscore in front, which looks as if it could be removed.
/// On stable a macro warns by the use of something deprecated.
fn underscores(model: &JobModel) -> Option<TokenStream> {
    let attrs = of_every_item(model);
    let warnings: Vec<_> = model.arguments().filter_map(underscore).collect();
    (!warnings.is_empty()).then(|| quote!(#(#[#attrs])* const _: () = { #(#warnings)* };))
}

fn underscore(param: &Param) -> Option<TokenStream> {
    let name = param.name.unraw().to_string();
    let plain = name.trim_start_matches('_');
    if plain.len() == name.len() || param.names_itself() {
        return None;
    }
    let note = format!(
        "the argument is stored as `{name}`, so jobs that wait no longer fit once it is called `{plain}`: \
            `#[serde(rename = \"{plain}\")]` stores it as `{plain}` from the start"
    );
    let constant = Ident::new("UNDERSCORE", param.name.span());
    Some(quote!({
        #[deprecated = #note]
        const #constant: () = ();
        #constant
    }))
}
