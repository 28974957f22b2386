//! From the parsed attribute and function to a job: every check of meaning is here, and all their errors are collected.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{
    Attribute, Error, GenericParam, Ident, LitStr, Result, ReturnType, Safety, Signature, Token,
    Type, Visibility, token,
};

use crate::args::{self, Args};
use crate::attributes::{self, from_here};
use crate::errors::Errors;
use crate::limits::Limits;
use crate::params::{self, Param, Pass};
use crate::schedule;

/// A function whose body was not looked into, so that completion works in a body that does not parse yet.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: TokenStream,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let starts = input.peek(Token![fn]) || input.peek(Token![async]);
        if !(starts
            || input.peek(Token![const])
            || input.peek(Token![unsafe])
            || input.peek(Token![extern]))
        {
            return Err(
                input.error("a job is a function, as in `async fn send(to: String) { .. }`")
            );
        }
        let sig = input.parse()?;
        if !input.peek(token::Brace) {
            return Err(input.error("a job needs a body"));
        }
        Ok(Self { attrs, vis, sig, body: input.parse()? })
    }
}

/// A job, ready to be written out.
pub(crate) struct JobModel {
    /// The function without the attributes of its parameters.
    pub(crate) function: Function,
    pub(crate) args: Args,
    /// The path of the module that generated code calls.
    pub(crate) private: TokenStream,
    /// The name of the struct.
    pub(crate) job: Ident,
    /// The name on the wire.
    pub(crate) name: LitStr,
    pub(crate) params: Vec<Param>,
    pub(crate) limits: Limits,
    /// Whether the signature is one that a job can have; where it is not, the function alone can be used.
    pub(crate) sound: bool,
}

impl JobModel {
    pub(crate) fn new(mut function: Function, mut args: Args, errors: &mut Errors) -> Self {
        let before = errors.count();
        take_second(&mut function.attrs, errors);
        check_qualifiers(&function.sig, errors);
        check_generics(&function.sig, errors);
        check_return(&function.sig.output, errors);
        let mut params = params::take(&mut function.sig, errors);
        if !function.sig.generics.params.is_empty() {
            // Their types may name what is known in the function alone.
            let arguments = params.iter_mut().filter(|param| !param.pass.is_injected());
            arguments.for_each(|param| param.pass = Pass::Refused);
        }
        let sound = errors.count() == before;
        check_redacted(&args, &params, errors);
        check_upgrade(&args, errors);
        if let (Some(span), None) = (args.keep_error, args.keep_result_ms) {
            errors.push(Error::new(
                span,
                "`keep_error` keeps the error beside the result: add `keep_result = \"1h\"`",
            ));
        }
        let name = wire_name(&function.sig.ident, &args, errors);
        let limits = Limits::new(&args, &params, &name, errors);
        let unique =
            args.unique.take().filter(|unique| unique.is_sound_with(&args, &params, errors));
        args.unique = unique;
        schedule::check(&mut args, &params, &name, errors);
        let job = visible(args.type_name.as_ref().unwrap_or(&function.sig.ident));
        let krate = args.krate();
        let private = from_here(quote!(#krate::__private));
        Self { function, args, private, job, name, params, limits, sound }
    }

    pub(crate) fn is_async(&self) -> bool {
        self.function.sig.asyncness.is_some()
    }

    /// Those parameters that are arguments.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &Param> {
        self.params.iter().filter(|param| !param.pass.is_injected())
    }

    /// Those that are not.
    pub(crate) fn injected(&self) -> impl Iterator<Item = &Param> {
        self.params.iter().filter(|param| param.pass.is_injected())
    }
}

/// The name for a generated item: users see it, it stands where they wrote it, but it counts as coming from here, since
/// lints on how it is spelt would repeat what they already said or are not the user's concern.
pub(crate) fn visible(ident: &Ident) -> Ident {
    attributes::at(ident.clone(), Span::call_site().located_at(ident.span()))
}

/// A second `#[hworker::job]` would be read as one of another job of the same name.
fn take_second(attrs: &mut Vec<Attribute>, errors: &mut Errors) {
    attrs.retain(|attr| {
        let path: Vec<_> = attr.path().segments.iter().map(|segment| &segment.ident).collect();
        let second =
            matches!(path.as_slice(), [krate, job] if *krate == "hworker" && *job == "job");
        if second {
            errors.at(attr, "`#[hworker::job]` is given twice");
        }
        !second
    });
}

fn check_qualifiers(sig: &Signature, errors: &mut Errors) {
    if let Some(constness) = &sig.constness {
        errors.at(constness, "a job is not `const`: write `async fn` or `fn`");
    }
    if let Safety::Unsafe(unsafety) = &sig.safety {
        let message = "a worker cannot keep the promises of an unsafe function: write a safe one, with an \
            `unsafe` block in its body";
        errors.at(unsafety, message);
    }
    if let Some(abi) = &sig.abi {
        errors.at(abi, "a job is called from Rust: remove the `extern`");
    }
    if let Some(variadic) = &sig.variadic {
        errors.at(variadic, "a job has a fixed list of parameters: take a `Vec<T>`");
    }
}

fn check_generics(sig: &Signature, errors: &mut Errors) {
    for param in &sig.generics.params {
        match param {
            GenericParam::Lifetime(lifetime) => errors.at(lifetime, params::NO_LIFETIME),
            param => errors.at(
                param,
                "a job is not generic, since a worker must know all its types: write one job for each type, \
                    which may call a generic function",
            ),
        }
    }
    if let Some(clause) = &sig.generics.where_clause {
        errors.at(clause, "a job is not generic, so it has no `where`");
    }
}

fn check_return(output: &ReturnType, errors: &mut Errors) {
    let ReturnType::Type(_, ty) = output else {
        return;
    };
    if let Type::Never(never) = &**ty {
        errors.at(never, "a job ends: return `()`, a `Result<T, E>` or a `hworker::Outcome`");
    } else if let Some(span) = params::keyword(ty, "impl") {
        let message = "name the type that the job returns: `()`, a type that serialises, `Result<T, E>` or \
            `hworker::Outcome`";
        errors.push(Error::new(span, message));
    }
}

/// What is redacted is an argument.
fn check_redacted(args: &Args, params: &[Param], errors: &mut Errors) {
    for name in &args.redact {
        let is_it = |param: &Param| !param.pass.is_injected() && param.name.unraw() == name.value();
        if !params.iter().any(is_it) {
            errors.at(name, format!("the job has no argument `{}`", name.value()));
        }
    }
}

/// Arguments are upgraded from one version to another.
fn check_upgrade(args: &Args, errors: &mut Errors) {
    if let (Some(upgrade), None | Some(1)) = (&args.upgrade, args.version) {
        let message = "`upgrade` takes arguments of an older version, and there is none: add `version = 2`, or a higher \
            one where there were others before";
        errors.at(upgrade, message);
    }
}

fn wire_name(ident: &Ident, args: &Args, errors: &mut Errors) -> LitStr {
    let own = LitStr::new(&ident.unraw().to_string(), ident.span());
    if args.name.is_none() && !args::is_name(&own.value()) {
        errors.at(
            ident,
            "on the wire a name is 1 to 200 of `A-Z a-z 0-9 . _ : -`: add `name = \"...\"`",
        );
    }
    let name = args.name.clone().unwrap_or(own);
    let mut taken = vec![name.value()];
    for alias in &args.aliases {
        if taken.contains(&alias.value()) {
            errors.at(alias, "the job has this name already");
        }
        taken.push(alias.value());
    }
    name
}
