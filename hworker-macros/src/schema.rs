//! The shape of a job's arguments as a JSON Schema: their names, which of them must be there, and the JSON type of those whose Rust type
//! says it by its name. What it does not know, it leaves open; with the feature `schema` of `hworker` the types themselves say it at run time.

use proc_macro2::TokenTree;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{GenericArgument, LitStr, Meta, PathArguments, Type};

use crate::model::JobModel;
use crate::params::{Param, Pass};

/// The schema of the arguments.
pub(crate) fn of(model: &JobModel) -> String {
    let mut properties = Vec::new();
    let mut required = Vec::new();
    for (name, param) in named(model) {
        properties.push(format!("{}:{}", quoted(&name), property(param)));
        if is_required(param) {
            required.push(quoted(&name));
        }
    }
    format!(
        r#"{{"type":"object","properties":{{{}}},"required":[{}]}}"#,
        properties.join(","),
        required.join(",")
    )
}

/// The arguments, each with the name under which it is stored.
pub(crate) fn named(model: &JobModel) -> impl Iterator<Item = (String, &Param)> {
    model.arguments().filter_map(|param| Some((stored_name(param)?, param)))
}

/// The arguments as the manifest has them, in JSON: each with its name, its type, and what serde was told of it.
pub(crate) fn parameters(model: &JobModel) -> String {
    let parameter = |param: &Param| {
        let words = words(param);
        let is_none = |word: &str| ["flatten", "skip", "skip_deserializing"].contains(&word);
        if words.iter().any(|(word, _)| is_none(word)) {
            return None;
        }
        let values = |key: &'static str| {
            let of_key = words.iter().filter(move |(word, _)| word == key);
            of_key.filter_map(|(_, value)| value.clone())
        };
        let name = values("rename").next().unwrap_or_else(|| param.name.unraw().to_string());
        let aliases: Vec<_> = values("alias").map(|alias| quoted(&alias)).collect();
        let optional = if is_required(param) { "" } else { r#","optional":true"# };
        let aliases = match aliases.join(",") {
            none if none.is_empty() => none,
            aliases => format!(r#","aliases":[{aliases}]"#),
        };
        let (name, ty) = (quoted(&name), quoted(&type_text(param)));
        Some(format!(r#"{{"name":{name},"type":{ty}{optional}{aliases}}}"#))
    };
    format!("[{}]", model.arguments().filter_map(parameter).collect::<Vec<_>>().join(","))
}

/// A type as it is written, with the blanks that it needs: how tokens are spelled changes with the compiler.
fn type_text(param: &Param) -> String {
    let ty = match param.pass {
        Pass::Str => return "String".to_owned(),
        Pass::Slice => format!("Vec<{}>", param.ty.to_token_stream()),
        _ => param.ty.to_token_stream().to_string(),
    };
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
    let (mut text, mut is_apart) = (String::new(), false);
    for c in ty.chars() {
        if c.is_whitespace() {
            is_apart = true;
            continue;
        }
        if text.ends_with([',', ';']) || (is_apart && is_word(c) && text.ends_with(is_word)) {
            text.push(' ');
        }
        text.push(c);
        is_apart = false;
    }
    text
}

/// The arguments whose fields are stored as arguments.
pub(crate) fn flattened(model: &JobModel) -> impl Iterator<Item = &Param> {
    model.arguments().filter(|param| matches!(&*words(param), [(word, None)] if word == "flatten"))
}

/// The arguments that no tool shows, by the names under which they are stored.
pub(crate) fn redacted(model: &JobModel) -> Vec<LitStr> {
    let stored = |name: &LitStr| {
        let param = model.arguments().find(|param| param.name.unraw() == name.value())?;
        Some(LitStr::new(&stored_name(param)?, name.span()))
    };
    model.args.redact.iter().map(|name| stored(name).unwrap_or_else(|| name.clone())).collect()
}

/// The name under which an argument is stored; none where serde was told more than a name.
fn stored_name(param: &Param) -> Option<String> {
    let mut name = param.name.unraw().to_string();
    for (word, value) in words(param) {
        match word.as_str() {
            "default" | "alias" => {}
            "rename" => name = value?,
            _ => return None,
        }
    }
    Some(name)
}

/// What serde was told of an argument: words, and the texts that are their values.
fn words(param: &Param) -> Vec<(String, Option<String>)> {
    let mut words = Vec::new();
    for attr in param.attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
        let Meta::List(list) = &attr.meta else { continue };
        let tokens: Vec<_> = list.tokens.clone().into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            let TokenTree::Ident(word) = token else { continue };
            let value = match tokens.get(at + 2) {
                Some(TokenTree::Literal(literal)) => {
                    syn::parse_str::<LitStr>(&literal.to_string()).ok().map(|text| text.value())
                }
                _ => None,
            };
            words.push((word.to_string(), value));
        }
    }
    words
}

fn is_required(param: &Param) -> bool {
    let has_default = words(param).iter().any(|(word, _)| word == "default");
    !has_default && generic(&param.ty, "Option").is_none()
}

fn property(param: &Param) -> String {
    match param.pass {
        Pass::Str => r#"{"type":"string"}"#.to_owned(),
        Pass::Slice => array(&param.ty),
        _ => of_type(&param.ty),
    }
}

fn of_type(ty: &Type) -> String {
    if let Some(inner) = generic(ty, "Option") {
        return match json_type(inner) {
            Some(kind) => format!(r#"{{"type":["{kind}","null"]}}"#),
            None => "{}".to_owned(),
        };
    }
    if let Some(inner) =
        ["Vec", "VecDeque", "HashSet", "BTreeSet"].iter().find_map(|name| generic(ty, name))
    {
        return array(inner);
    }
    if let Some(inner) = ["Box", "Arc", "Rc"].iter().find_map(|name| generic(ty, name)) {
        return of_type(inner);
    }
    json_type(ty).map_or("{}".to_owned(), |kind| format!(r#"{{"type":"{kind}"}}"#))
}

fn array(element: &Type) -> String {
    format!(r#"{{"type":"array","items":{}}}"#, of_type(element))
}

fn json_type(ty: &Type) -> Option<&'static str> {
    let Type::Path(path) = ty else { return None };
    Some(match path.path.segments.last()?.ident.to_string().as_str() {
        "String" | "str" | "char" => "string",
        "bool" => "boolean",
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128"
        | "isize" => "integer",
        "f32" | "f64" => "number",
        "HashMap" | "BTreeMap" => "object",
        "Vec" | "VecDeque" | "HashSet" | "BTreeSet" => "array",
        _ => return None,
    })
}

/// The first type in the angle brackets of a type of this name.
fn generic<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let path = match ty {
        Type::Path(path) => &path.path,
        Type::Group(group) => return generic(&group.elem, name),
        Type::Paren(paren) => return generic(&paren.elem, name),
        _ => return None,
    };
    let last = path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// A text in JSON. Names have no control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;
    use crate::args::Args;
    use crate::errors::Errors;

    fn model(function: proc_macro2::TokenStream) -> JobModel {
        let mut errors = Errors::default();
        let args = Args::parse(quote!(), &mut errors);
        JobModel::new(syn::parse2(function).expect("a function"), args, &mut errors)
    }

    #[test]
    fn parameters_are_told_as_they_are_written() {
        let model = model(quote! {
            async fn job(
                to: &str, pairs: &[(u8, [u8; 4])], map: &std::collections::HashMap<String, Vec<u8>>, maybe: Option<fn(u8,u16) -> u8>,
                #[serde(default = "three")] later: u32, #[serde(rename = "type", alias = "sort", alias = "kind")] kind: crate::Kind,
                #[serde(with = "seconds")] at: Time, #[serde(flatten)] rest: Rest, context: Context,
            ) {}
        });
        let expected = concat!(
            r#"[{"name":"to","type":"String"},{"name":"pairs","type":"Vec<(u8, [u8; 4])>"},"#,
            r#"{"name":"map","type":"std::collections::HashMap<String, Vec<u8>>"},"#,
            r#"{"name":"maybe","type":"Option<fn(u8, u16)->u8>","optional":true},{"name":"later","type":"u32","optional":true},"#,
            r#"{"name":"type","type":"crate::Kind","aliases":["sort","kind"]},{"name":"at","type":"Time"}]"#
        );
        assert_eq!(parameters(&model), expected);
    }

    #[test]
    fn what_types_say_by_their_names_is_in_the_schema() {
        let schema = of(&model(quote! {
            async fn job(
                to: &str, n: u64, ratio: f64, on: bool, maybe: Option<String>, list: Vec<Option<u8>>, pairs: &[(u8, u8)],
                #[serde(default)] later: u32, #[serde(rename = "type")] kind: Kind, map: std::collections::HashMap<String, u8>,
                #[serde(flatten)] rest: Rest, boxed: Box<i8>, context: Context,
            ) {}
        }));
        let expected = concat!(
            r#"{"type":"object","properties":{"to":{"type":"string"},"n":{"type":"integer"},"ratio":{"type":"number"},"#,
            r#""on":{"type":"boolean"},"maybe":{"type":["string","null"]},"#,
            r#""list":{"type":"array","items":{"type":["integer","null"]}},"pairs":{"type":"array","items":{}},"#,
            r#""later":{"type":"integer"},"type":{},"map":{"type":"object"},"boxed":{"type":"integer"}},"#,
            r#""required":["to","n","ratio","on","list","pairs","type","map","boxed"]}"#
        );
        assert_eq!(schema, expected);
    }
}
