//! A scope in which nothing means what it usually does.
#![deny(warnings)]
#![allow(dead_code, non_camel_case_types, non_snake_case)]

type Result<T> = (T,);
struct Option;
struct String;
struct Vec;
struct Box;
struct Some;
fn Ok() {}
fn Err() {}
fn None() {}
trait Into {}
trait Send {}
trait Sized {}
trait Clone {}
trait Serialize {}
trait Future {}
trait From {}
trait Default {}
trait Drop {}
mod std {}
mod core {}
mod alloc {}
mod hworker {}
mod serde {}
mod inventory {}

#[::hworker::job(timeout = "1s", backoff = "1s, 2s", on_panic = "fail", aliases = ["older"])]
async fn arguments(a: u8, b: &[u8], c: &i8) -> ::core::result::Result<u8, ::std::string::String> {
    let _ = (b, c);
    ::core::result::Result::Ok(a)
}

#[::hworker::job]
fn injected(context: ::hworker::Context, state: ::hworker::State<u8>) {
    let _ = (context, state);
}

fn main() {
    ::core::mem::drop(arguments::enqueue(1, ::std::vec![2], 3));
    let _ = injected::with();
}
