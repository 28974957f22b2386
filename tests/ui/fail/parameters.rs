//! Parameters that cannot be stored or named, each at its token.

use std::borrow::Cow;
use std::collections::HashMap;

use hworker::{Context, State};

#[derive(Clone)]
struct Pool;

#[hworker::job]
async fn patterns((a, b): (u8, u8), _: u8, ref c: u8, d @ 0..=255: u8, [e]: [u8; 1]) {
    let _ = (a, b, c, d, e);
}

#[hworker::job]
async fn patterns_of_injected(_: Context, State { 0: pool }: State<Pool>, #[inject] Pool {}: Pool) {
    let _ = pool;
}

#[hworker::job]
async fn references(
    nested: Option<&str>,
    twice: &&str,
    in_slice: &[&str],
    in_tuple: (u8, &u8),
    written: &mut String,
) {
    let _ = (nested, twice, in_slice, in_tuple, written);
}

#[hworker::job]
async fn lifetimes(forever: &'static str, cow: Cow<'static, str>, elided: &'_ u8) {
    let _ = (forever, cow, elided);
}

#[hworker::job]
async fn nameless(x: Box<dyn Fn() + Send>, y: &(dyn Send + Sync), z: HashMap<u8, Box<dyn Send>>) {
    let _ = (x, y, z);
}

#[hworker::job]
async fn lent_injections(context: &mut Context, pool: &'static State<Pool>, #[inject] other: &impl Send) {
    let _ = (context, pool, other);
}

#[hworker::job]
async fn attributes(
    #[cfg(all())] conditional: u8,
    #[cfg_attr(all(), allow(unused))] conditionally: u8,
    #[inject(now)] pool: State<Pool>,
    #[serde(default)] context: Context,
) {
    let _ = (conditional, conditionally, pool, context);
}

fn main() {
    // None of these is a second error.
    let _ = patterns::with((1, 2), 3, 4, 5, [6]);
    let _ = patterns_of_injected::NAME;
    let _ = references::enqueue(Some("x"), "x", vec!["x"], (1, 2), "x");
    let _ = lifetimes::enqueue("x", String::new(), 1);
    let _ = attributes::enqueue(1, 2);
}
