//! `isolate` in the attribute, and its code.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::parse::ParseStream;
use syn::{Error, Expr, Result, Token, token};

use crate::args::{number, peel, string};
use crate::errors::Errors;
use crate::model::JobModel;
use crate::{brackets, duration};

/// The keys in its brackets, with an example of the value.
const INNER: [(&str, &str); 3] = [("memory", "\"512MB\""), ("cpu", "\"60s\""), ("recycle", "1000")];

const MEMORY: &str =
    "`memory` is a size of at least \"1MB\", as in \"512MB\", \"2GB\" or \"256MiB\"";
const CPU: &str = "`cpu` is the time of a processor that an attempt may use, of at least \"1s\"";
const RECYCLE: &str =
    "`recycle` is after how many jobs a process is replaced, from 1 to 4294967295";

/// Each unit in bytes.
const UNITS: [(&str, u64); 4] =
    [("MiB", 1 << 20), ("GiB", 1 << 30), ("MB", 1_000_000), ("GB", 1_000_000_000)];

/// That the bodies of a type run in processes of their own, and what bounds these.
#[derive(Default)]
pub(crate) struct Isolate {
    memory: Option<u64>,
    cpu_s: Option<u64>,
    recycle: Option<u32>,
}

/// What follows the word. None where nothing does.
pub(crate) fn parse(input: ParseStream<'_>, errors: &mut Errors) -> Option<Isolate> {
    let mut isolate = Isolate::default();
    if input.peek(token::Paren) {
        let brackets = brackets::parse("isolate", &INNER, input, errors, &mut |key, value| {
            value.map_or(Ok(()), |value| isolate.set(key, peel(&value)))
        });
        errors.ok(brackets)?;
        return Some(isolate);
    }
    input.parse::<Token![=]>().ok()?;
    let value = input.parse::<Expr>().ok()?;
    errors.ok(process(peel(&value)));
    Some(isolate)
}

fn process(value: &Expr) -> Result<()> {
    let form =
        "`isolate` is \"process\", or `isolate(memory = \"512MB\")` with what bounds the process";
    let text = string(value, form)?;
    if text.value() == "process" { Ok(()) } else { Err(Error::new_spanned(text, form)) }
}

impl Isolate {
    fn set(&mut self, key: &Ident, value: &Expr) -> Result<()> {
        let wrong = |form| Error::new_spanned(value, form);
        if key == "memory" {
            let bytes = bytes(&string(value, MEMORY)?.value()).ok_or_else(|| wrong(MEMORY))?;
            self.memory = Some(bytes);
        } else if key == "cpu" {
            let ms = duration::parse(&string(value, CPU)?.value());
            let ms = ms.map_err(|why| Error::new_spanned(value, why))?;
            // The system counts whole seconds.
            self.cpu_s = Some(ms.div_ceil(1000)).filter(|_| ms >= 1000);
            self.cpu_s.ok_or_else(|| wrong(CPU))?;
        } else {
            let jobs = number(value).filter(|jobs| *jobs > 0);
            self.recycle = Some(jobs.ok_or_else(|| wrong(RECYCLE))?);
        }
        Ok(())
    }
}

/// A size of at least a megabyte.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, unit) = text.split_at(digits);
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
    count.parse::<u64>().ok().filter(|count| *count > 0)?.checked_mul(*unit)
}

/// What the library knows of it.
pub(crate) fn definition(model: &JobModel) -> TokenStream {
    let private = &model.private;
    let Some(isolate) = &model.args.isolate else { return quote!(::core::option::Option::None) };
    let option = |value: Option<TokenStream>| {
        value.map_or_else(
            || quote!(::core::option::Option::None),
            |value| quote!(::core::option::Option::Some(#value)),
        )
    };
    let memory = option(isolate.memory.map(|bytes| quote!(#bytes)));
    let cpu_s = option(isolate.cpu_s.map(|seconds| quote!(#seconds)));
    let recycle = option(isolate.recycle.map(|jobs| quote!(#jobs)));
    quote! {
        ::core::option::Option::Some({
            #[cfg(not(any(target_os = "linux", target_os = "macos")))]
            ::core::compile_error!("`isolate` needs Linux or macOS");
            #private::Isolation { memory: #memory, cpu_s: #cpu_s, recycle: #recycle }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes() {
        let table = [
            ("512MB", Some(512_000_000)),
            ("2GB", Some(2_000_000_000)),
            ("1MiB", Some(1 << 20)),
            ("3GiB", Some(3 << 30)),
            ("0MB", None),
            ("512", None),
            ("512kB", None),
            ("512 MB", None),
            ("-1MB", None),
            ("1.5GB", None),
            ("", None),
            ("99999999999999GB", None),
        ];
        for (text, size) in table {
            assert_eq!(bytes(text), size, "{text}");
        }
    }
}
