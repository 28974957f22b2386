//! The parameters of a job: which are arguments, which are injected, and what the struct holds for each.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{
    Attribute, Error, FnArg, Ident, Meta, Pat, PatType, Result, Signature, Type, TypeReference,
};

use crate::errors::Errors;
use crate::model::visible;

pub(crate) const NO_LIFETIME: &str = "a job's arguments are stored, so they have no lifetime: take `&str`, \
    `&[T]` or `&T` without one, which the worker lends for the call, or an owned type";
const NO_REFERENCE: &str = "a job's arguments are stored, so they cannot borrow here: use an owned type such as \
    `String`, `Vec<T>` or `T`; only a whole parameter may be `&str`, `&[T]` or `&T`";
const NO_MUT: &str = "a parameter is lent for reading only: take it by value, as in `mut name: T`";
const NO_IMPL: &str =
    "a job's parameters are stored, so their types have names: use a concrete type";
const NO_DYN: &str =
    "a trait object cannot be stored and read back: use a concrete type, such as an enum";
const NO_TYPE: &str = "a job's arguments are stored, so their types are written in full";
const NO_SIZE: &str = "an argument has a size: take a `String` or a `&str`, a `Vec<T>` or a `&[T]`";
const NO_PATTERN: &str = "a parameter of a job has a plain name, which is the name of the argument: take it apart \
    in the body (only `State(name): State<T>` may be a pattern)";

/// A parameter of the function.
pub(crate) struct Param {
    pub(crate) name: Ident,
    /// The type that the struct holds, or is injected; for [`Pass::Slice`] that of the elements.
    pub(crate) ty: Type,
    pub(crate) pass: Pass,
    /// What the user wrote for the field: documentation and `#[serde(..)]`.
    pub(crate) attrs: Vec<Attribute>,
}

/// How the function gets a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// The field itself.
    Value,
    /// A `&str` to the `String` in the field.
    Str,
    /// A `&[T]` to the `Vec<T>` in the field.
    Slice,
    /// A reference to the field.
    Lent,
    /// Not an argument: the worker makes it.
    Injected,
    /// A reference to what the worker makes.
    InjectedLent,
    /// Not at all, its type is refused. The methods take anything for it, so that their uses are no errors.
    Refused,
}

/// The parameters, whose attributes for the macro are taken from the signature.
pub(crate) fn take(sig: &mut Signature, errors: &mut Errors) -> Vec<Param> {
    let mut params = Vec::new();
    for (index, input) in sig.inputs.iter_mut().enumerate() {
        match input {
            FnArg::Receiver(receiver) => errors.at(
                &*receiver,
                "a job has no `self`: write a function outside of the `impl` and take what it needs as \
                    arguments or as `State<T>`",
            ),
            FnArg::Typed(input) => params.push(Param::take(index, input, errors)),
        }
    }
    params
}

impl Pass {
    pub(crate) fn is_injected(self) -> bool {
        matches!(self, Self::Injected | Self::InjectedLent)
    }
}

impl Param {
    fn take(index: usize, input: &mut PatType, errors: &mut Errors) -> Self {
        let (ours, theirs) =
            input.attrs.drain(..).partition(|attr| is_any(attr, &["inject", "serde", "doc"]));
        input.attrs = theirs;
        let (inject, attrs): (Vec<_>, _) =
            Vec::into_iter(ours).partition(|attr| is_any(attr, &["inject"]));
        let injected = !inject.is_empty() || is_known_injected(&input.ty);
        check_attributes(&inject, &attrs, &input.attrs, injected, errors);
        let name = errors.ok(name(&input.pat, injected));
        let name = name.unwrap_or_else(|| format_ident!("parameter_{index}"));
        let passed = if injected { by_injection(&input.ty) } else { by_argument(&input.ty) };
        let refused = if injected { Pass::Injected } else { Pass::Refused };
        let (pass, ty) = errors.ok(passed).unwrap_or((refused, (*input.ty).clone()));
        Self { name: visible(&name), ty, pass, attrs }
    }

    /// The type of the field.
    pub(crate) fn stored(&self) -> TokenStream {
        let ty = &self.ty;
        match self.pass {
            Pass::Str => quote!(::std::string::String),
            Pass::Slice => quote!(::std::vec::Vec<#ty>),
            _ => quote!(#ty),
        }
    }

    /// The parameter of the methods that take the arguments.
    pub(crate) fn accepted(&self) -> TokenStream {
        let (name, stored) = (&self.name, self.stored());
        match self.pass {
            Pass::Str => quote!(#name: impl ::core::convert::Into<#stored>),
            Pass::Refused => quote!(#name: impl ::core::marker::Sized),
            _ => quote!(#name: #stored),
        }
    }

    /// Whether serde was told what it is stored as, or not to store it.
    pub(crate) fn names_itself(&self) -> bool {
        let says = |token: &TokenTree| match token {
            TokenTree::Ident(ident) if ident == "rename" || ident == "skip" => Some(()),
            _ => None,
        };
        self.attrs.iter().any(|attr| find(attr.to_token_stream(), &says).is_some())
    }

    pub(crate) fn is_documented(&self) -> bool {
        self.attrs.iter().any(|attr| is_any(attr, &["doc"]))
    }
}

fn is_any(attr: &Attribute, names: &[&str]) -> bool {
    names.iter().any(|name| attr.path().is_ident(name))
}

fn check_attributes(
    inject: &[Attribute],
    ours: &[Attribute],
    theirs: &[Attribute],
    injected: bool,
    errors: &mut Errors,
) {
    for attr in inject.iter().filter(|attr| !matches!(attr.meta, Meta::Path(_))) {
        errors.at(attr, "`#[inject]` takes nothing: the type says what is injected");
    }
    for attr in ours.iter().filter(|attr| injected && is_any(attr, &["serde"])) {
        errors.at(attr, "an injected parameter is not stored: remove the `#[serde(..)]`");
    }
    for attr in theirs.iter().filter(|attr| is_any(attr, &["cfg", "cfg_attr"])) {
        let message = "a job's arguments are the same in every build, since jobs pass between builds: put the \
            `#[cfg]` on the function, or make the argument an `Option<T>`";
        errors.at(attr, message);
    }
}

fn name(pat: &Pat, injected: bool) -> Result<Ident> {
    match pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => Ok(pat.ident.clone()),
        Pat::TupleStruct(pat) if injected && last_is(&pat.path, &["State"]) => {
            // Passed by position; only a limit may name it, and is told that it is no argument.
            match pat.elems.first() {
                Some(Pat::Ident(pat)) => Ok(pat.ident.clone()),
                _ => Ok(Ident::new("_", Span::call_site())),
            }
        }
        pat => Err(Error::new_spanned(pat, NO_PATTERN)),
    }
}

/// `State<T>` and `Context` need no `#[inject]`.
fn is_known_injected(ty: &Type) -> bool {
    match peel(ty) {
        Type::Path(ty) => ty.qself.is_none() && last_is(&ty.path, &["State", "Context"]),
        Type::Reference(ty) => is_known_injected(&ty.elem),
        _ => false,
    }
}

fn last_is(path: &syn::Path, names: &[&str]) -> bool {
    path.segments.last().is_some_and(|last| names.iter().any(|name| last.ident == name))
}

/// The type without the parentheses and the invisible groups that macros put around it.
fn peel(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => peel(&group.elem),
        Type::Paren(paren) => peel(&paren.elem),
        ty => ty,
    }
}

fn by_injection(ty: &Type) -> Result<(Pass, Type)> {
    let (pass, ty) = match peel(ty) {
        Type::Reference(reference) => (Pass::InjectedLent, lent_type(reference)?),
        _ => (Pass::Injected, ty),
    };
    match keyword(ty, "impl") {
        Some(span) => Err(Error::new(span, NO_IMPL)),
        None => Ok((pass, ty.clone())),
    }
}

fn by_argument(ty: &Type) -> Result<(Pass, Type)> {
    match peel(ty) {
        Type::Reference(reference) => lent(reference),
        Type::Slice(slice) => Err(Error::new_spanned(slice, NO_SIZE)),
        Type::Path(path) if path.path.is_ident("str") => Err(Error::new_spanned(path, NO_SIZE)),
        _ => owned(ty).map(|()| (Pass::Value, ty.clone())),
    }
}

fn lent(reference: &TypeReference) -> Result<(Pass, Type)> {
    let ty = lent_type(reference)?;
    let (pass, ty) = match peel(ty) {
        Type::Path(path) if path.path.is_ident("str") => (Pass::Str, ty),
        Type::Slice(slice) => (Pass::Slice, &*slice.elem),
        _ => (Pass::Lent, ty),
    };
    owned(ty).map(|()| (pass, ty.clone()))
}

/// The type behind a reference that the worker can make for the call.
fn lent_type(reference: &TypeReference) -> Result<&Type> {
    if let Some(lifetime) = &reference.lifetime {
        return Err(Error::new_spanned(lifetime, NO_LIFETIME));
    }
    match &reference.mutability {
        Some(mutability) => Err(Error::new_spanned(mutability, NO_MUT)),
        None => Ok(&reference.elem),
    }
}

/// Whether a type may be stored, as far as its tokens tell.
fn owned(ty: &Type) -> Result<()> {
    find(ty.to_token_stream(), &|token| match token {
        TokenTree::Punct(punct) if punct.as_char() == '&' => Some(NO_REFERENCE),
        TokenTree::Punct(punct) if punct.as_char() == '\'' => Some(NO_LIFETIME),
        TokenTree::Ident(ident) if ident == "impl" => Some(NO_IMPL),
        TokenTree::Ident(ident) if ident == "dyn" => Some(NO_DYN),
        TokenTree::Ident(ident) if ident == "_" => Some(NO_TYPE),
        _ => None,
    })
    .map_or(Ok(()), |(span, message)| Err(Error::new(span, message)))
}

/// Where a keyword stands in a type.
pub(crate) fn keyword(ty: &Type, word: &str) -> Option<Span> {
    let is_word = |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if ident == word);
    find(ty.to_token_stream(), &|token| is_word(token).then_some(())).map(|(span, ())| span)
}

/// Whether a type is named in another, or is it.
pub(crate) fn mentions(ty: &Type, name: &Ident) -> bool {
    let is_name = |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if ident.unraw() == name.unraw());
    find(ty.to_token_stream(), &|token| is_name(token).then_some(())).is_some()
}

/// The first token, at any depth, of which `test` has something to say.
fn find<T>(tokens: TokenStream, test: &dyn Fn(&TokenTree) -> Option<T>) -> Option<(Span, T)> {
    tokens.into_iter().find_map(|token| match &token {
        TokenTree::Group(group) => find(group.stream(), test),
        token => test(token).map(|found| (token.span(), found)),
    })
}
