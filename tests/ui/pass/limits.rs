//! Every form of a limit, in a crate that has every lint on which the generated code could be blamed, and what each becomes.
#![forbid(unsafe_code, missing_docs)]
#![deny(
    warnings,
    unused,
    future_incompatible,
    nonstandard_style,
    rust_2018_idioms,
    rust_2024_compatibility,
    let_underscore_drop,
    missing_debug_implementations,
    missing_copy_implementations,
    single_use_lifetimes,
    trivial_casts,
    unnameable_types,
    unreachable_pub,
    unused_extern_crates,
    unused_import_braces,
    unused_lifetimes,
    unused_qualifications,
    unused_results,
    variant_size_differences,
    rustdoc::all,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]
#![allow(unused_crate_dependencies)]
// Of these functions as they are written here.
#![allow(
    clippy::missing_const_for_fn,
    clippy::needless_pass_by_value,
    clippy::ref_option,
    clippy::unused_async
)]

use std::fmt::Display;

use hworker::__private::limit::{AtOnce, Limit, Rate, Scope, WhenFull};
use hworker::{Job, State};

/// A type of the user with a text.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Plan {
    name: String,
    limit: u64,
}

impl Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl TryFrom<Plan> for u32 {
    type Error = std::num::TryFromIntError;

    fn try_from(plan: Plan) -> Result<Self, Self::Error> {
        plan.limit.try_into()
    }
}

/// Public, with one number.
#[hworker::job(concurrency = 5)]
pub async fn alone() {}

#[hworker::job(name = "mail.send", concurrency = 5, rate_limit = "100/m")]
async fn merged() {}

#[hworker::job(
    concurrency(limit = 2, per = "worker"),
    concurrency(limit = 3, key = tenant, when_full = "keep_oldest", max_waiting = 100),
    concurrency(limit = 20, name = "db"),
)]
async fn several(tenant: &str) {
    println!("{tenant}");
}

#[hworker::job(
    rate_limit(rate = "10/30s", burst = 20, key = (r#type, shop), name = "shopify"),
    concurrency(limit = plan_limit, key = (r#type, shop), name = "shopify", when_full = "wait")
)]
fn parts(r#type: String, shop: &Option<u64>, plan_limit: i64, State(pool): State<u8>) {
    println!("{type} {shop:?} {plan_limit} {pool}");
}

#[hworker::job(concurrency(key = user, order = "strict", when_full = "keep_newest"), fair(key = user))]
async fn in_order(user: Option<Plan>) {
    println!("{user:?}");
}

fn name_of(job: &OfFunctions) -> impl Display {
    &job.plan.name
}

fn number_of(job: &OfFunctions) -> u64 {
    job.plan.limit
}

/// The key and the limit are functions.
#[hworker::job(type = OfFunctions, concurrency(limit = number_of, key = name_of), rate_limit(rate = "1/s", key = name_of))]
pub(crate) async fn of_functions(plan: Plan) {
    println!("{plan:?}");
}

impl maybe {
    fn group(&self) -> Option<&str> {
        self.groups.first().map(String::as_str)
    }
}

#[hworker::job(fair(key = maybe::group))]
async fn maybe(groups: &[String]) {
    println!("{groups:?}");
}

#[hworker::job(concurrency(limit = plan, key = plan))]
async fn of_a_type(plan: Plan) {
    println!("{plan:?}");
}

macro_rules! written {
    ($name:ident, $limit:expr, $key:ident, $path:path, $per:literal) => {
        #[hworker::job(concurrency(limit = $limit, key = ($key, $path)), concurrency(limit = $limit, per = $per))]
        async fn $name($key: u8, x: u8) {
            println!("{}", $key + x);
        }
    };
}
written!(by_a_macro, 4, x_, twice, "worker");

fn twice(job: &by_a_macro) -> u8 {
    job.x_ + job.x
}

const fn limit(name: &'static str, scope: Scope, at_once: AtOnce) -> Limit {
    Limit {
        name,
        scope,
        at_once,
        rate: None,
        when_full: WhenFull::Wait,
        max_waiting: None,
        halts: false,
    }
}

/// Of these arguments, as they are stored.
fn check<J: Job>(limits: &[Limit], args: &str, key: Option<&str>, number: Option<u32>) {
    assert_eq!(J::DEFINITION.limits, limits);
    let values = (J::DEFINITION.limit_values)(args).expect("arguments of the job");
    assert_eq!(values.key.as_deref(), key);
    assert_eq!(values.limit.and_then(Result::ok), number);
}

fn main() {
    check::<alone>(&[limit("alone", Scope::All, AtOnce::Of(5))], "{}", None, None);

    let rate = Some(Rate { count: 100, period_ms: 60_000, burst: 0 });
    let all = limit("mail.send", Scope::All, AtOnce::Of(5));
    check::<merged>(&[Limit { rate, ..all }], "{}", None, None);

    let keyed = limit("several", Scope::Key, AtOnce::Of(3));
    let limits = [
        limit("several", Scope::Worker, AtOnce::Of(2)),
        limit("db", Scope::All, AtOnce::Of(20)),
        Limit { when_full: WhenFull::KeepOldest, max_waiting: Some(100), ..keyed },
    ];
    check::<several>(&limits, r#"{"tenant":"a|b"}"#, Some("a|b"), None);

    let rate = Some(Rate { count: 10, period_ms: 30_000, burst: 20 });
    let limits = [Limit { rate, ..limit("shopify", Scope::Key, AtOnce::OfArguments) }];
    check::<parts>(&limits, r#"{"type":"x","shop":7,"plan_limit":3}"#, Some("x|7"), Some(3));
    check::<parts>(&limits, r#"{"type":"x","shop":null,"plan_limit":-3}"#, None, None);

    let ordered = limit("in_order", Scope::OrderedKey, AtOnce::Of(1));
    let limits = [Limit { when_full: WhenFull::KeepNewest, ..ordered }];
    check::<in_order>(&limits, r#"{"user":{"name":"gold","limit":9}}"#, Some("gold"), None);
    check::<in_order>(&limits, r#"{"user":null}"#, None, None);

    let plan = r#"{"plan":{"name":"gold","limit":9}}"#;
    let rate = Some(Rate { count: 1, period_ms: 1000, burst: 0 });
    let limits = [Limit { rate, ..limit("of_functions", Scope::Key, AtOnce::OfArguments) }];
    check::<OfFunctions>(&limits, plan, Some("gold"), Some(9));

    let limits = [limit("maybe", Scope::Key, AtOnce::Any)];
    check::<maybe>(&limits, r#"{"groups":["a"]}"#, Some("a"), None);
    check::<maybe>(&limits, r#"{"groups":[]}"#, None, None);

    let limits = [limit("of_a_type", Scope::Key, AtOnce::OfArguments)];
    check::<of_a_type>(&limits, plan, Some("gold"), Some(9));

    let limits = [
        limit("by_a_macro", Scope::Worker, AtOnce::Of(4)),
        limit("by_a_macro", Scope::Key, AtOnce::Of(4)),
    ];
    check::<by_a_macro>(&limits, r#"{"x_":1,"x":2}"#, Some("1|3"), None);
}
