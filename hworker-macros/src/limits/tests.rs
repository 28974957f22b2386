//! What is read of limits, what is merged, and what is refused.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse_quote;

use super::together::Scope;
use super::*;
use crate::args::Args;
use crate::model::{Function, JobModel};

/// The limits of a job with a few arguments, and what is said of its attribute.
fn limits(args: TokenStream) -> (Limits, Vec<String>) {
    let function: Function = parse_quote! {
        async fn job(tenant: &str, shop: u64, card: String, cap: u8, pool: State<Pool>, State(db): State<Db>) {}
    };
    let mut errors = Errors::default();
    let args = Args::parse(args, &mut errors);
    let model = JobModel::new(function, args, &mut errors);
    (model.limits, errors.into_messages())
}

/// Each limit in short: its name, its scope, how many at once, its rate.
fn shown(args: TokenStream) -> Vec<String> {
    let (limits, errors) = limits(args);
    assert_eq!(errors, Vec::<String>::new());
    let shown = limits.list.iter().map(|limit| {
        let scope = match limit.scope {
            Scope::Worker => "worker",
            Scope::All => "all",
            Scope::Key => "key",
            Scope::OrderedKey => "ordered",
        };
        let at_once = match &limit.at_once {
            None => "any".to_owned(),
            Some(AtOnce::Of(limit)) => limit.to_string(),
            Some(AtOnce::OfArguments(path)) => quote!(#path).to_string(),
        };
        let rate =
            limit.rate.map(|(rate, burst)| format!(" {}/{}ms+{burst}", rate.count, rate.period_ms));
        let max = limit.max_waiting.map(|max| format!(" max {max}")).unwrap_or_default();
        let when_full = match limit.when_full {
            WhenFull::Wait => "",
            WhenFull::KeepNewest => " newest",
            WhenFull::KeepOldest => " oldest",
        };
        let (name, halts) = (limit.name.value(), if limit.halts { " halts" } else { "" });
        format!("{name} {scope} {at_once}{}{when_full}{max}{halts}", rate.unwrap_or_default())
    });
    shown.collect()
}

#[test]
fn each_form() {
    assert_eq!(shown(quote!(concurrency = 5)), ["job all 5"]);
    assert_eq!(shown(quote!(name = "mail.x", concurrency = 5)), ["mail.x all 5"]);
    assert_eq!(shown(quote!(concurrency(limit = 20, name = "db:1"))), ["db:1 all 20"]);
    assert_eq!(shown(quote!(concurrency(limit = 3, key = tenant))), ["job key 3"]);
    assert_eq!(shown(quote!(concurrency(limit = 3, key = (tenant, r#shop),))), ["job key 3"]);
    assert_eq!(shown(quote!(concurrency(limit = 3, key = keys::of::<u8>))), ["job key 3"]);
    assert_eq!(shown(quote!(concurrency(limit = cap, key = tenant))), ["job key cap"]);
    assert_eq!(
        shown(quote!(concurrency(limit = plan::cap, key = tenant))),
        ["job key plan :: cap"]
    );
    assert_eq!(shown(quote!(concurrency(key = tenant, order = "strict"))), ["job ordered 1"]);
    assert_eq!(
        shown(quote!(concurrency(limit = 1, key = tenant, order = "strict"))),
        ["job ordered 1"]
    );
    let halts = quote!(concurrency(key = tenant, order = "strict", after_failure = "halt"));
    assert_eq!(shown(halts), ["job ordered 1 halts"]);
    assert_eq!(shown(quote!(concurrency(limit = 2, per = "worker"))), ["job worker 2"]);
    assert_eq!(shown(quote!(concurrency(limit = 2, when_full = "wait"))), ["job all 2"]);
    let kept =
        quote!(concurrency(limit = 1, key = tenant, when_full = "keep_newest", max_waiting = 9));
    assert_eq!(shown(kept), ["job key 1 newest max 9"]);
    let kept = quote!(concurrency(limit = 1, key = tenant, when_full = "keep_oldest"));
    assert_eq!(shown(kept), ["job key 1 oldest"]);
    assert_eq!(shown(quote!(rate_limit = "100/m")), ["job all any 100/60000ms+0"]);
    let rate = quote!(rate_limit(rate = "10/s", burst = 20, key = shop, name = "shopify"));
    assert_eq!(shown(rate), ["shopify key any 10/1000ms+20"]);
    assert_eq!(shown(quote!(fair(key = tenant))), ["job key any"]);
}

#[test]
fn what_counts_the_same_jobs_is_one_limit() {
    let table = [
        (quote!(concurrency = 5, rate_limit = "100/m"), vec!["job all 5 100/60000ms+0"]),
        (
            quote!(rate_limit = "1/s", concurrency(limit = 5, name = "job")),
            vec!["job all 5 1/1000ms+0"],
        ),
        (
            quote!(
                fair(key = tenant),
                rate_limit(rate = "1/s", key = tenant),
                concurrency(key = tenant, order = "strict")
            ),
            vec!["job ordered 1 1/1000ms+0"],
        ),
        (
            quote!(fair(key = tenant), concurrency(limit = 2, key = (tenant), name = "db")),
            vec!["db key 2"],
        ),
        (
            quote!(
                concurrency(limit = 2, key = tenant),
                concurrency = 9,
                concurrency(limit = 3, per = "worker")
            ),
            vec!["job worker 3", "job all 9", "job key 2"],
        ),
        (
            quote!(concurrency = 9, concurrency(limit = 20, name = "db")),
            vec!["job all 9", "db all 20"],
        ),
        (quote!(concurrency = 9, fair(key = tenant)), vec!["job all 9", "job key any"]),
    ];
    for (args, expected) in table {
        assert_eq!(shown(args), expected);
    }
}

#[test]
fn each_error_is_reported() {
    let table = [
        (quote!(concurrency), &["`concurrency` needs a value, as in `concurrency = 5`"][..]),
        (quote!(concurrency = ), &["`concurrency` needs a value"]),
        (quote!(fair), &["`fair` needs a value, as in `fair(key = tenant)`"]),
        (quote!(fair = tenant), &["`fair` is written `fair(key = tenant)`"]),
        (quote!(fair(key = tenant), fair(key = tenant)), &["`fair` is given twice"]),
        (quote!(fair()), &["`fair` needs its `key`, as in `fair(key = tenant)`"]),
        (quote!(concurrency(key = tenant)), &["`concurrency` needs its `limit`"]),
        (quote!(rate_limit(burst = 3)), &["`rate_limit` needs its `rate`"]),
        (quote!(concurrency = 0), &["`concurrency` is a number from 1"]),
        (quote!(concurrency = -1), &["`concurrency` is a number from 1"]),
        (quote!(concurrency = "5"), &["`concurrency` is a number from 1"]),
        (quote!(concurrency(limit = 0, key = tenant)), &["`limit` is a number from 1"]),
        (quote!(concurrency(limit = 4294967296)), &["`limit` is a number from 1"]),
        (quote!(concurrency(5)), &["expected a key and its value, as in `limit = 3`"]),
        (quote!(concurrency(limit = 5 key = tenant)), &["expected `,` and the next key"]),
        (
            quote!(concurrency(limit = , kay = tenant, per)),
            &[
                "`limit` needs a value",
                "unknown key `kay`, did you mean `key`?\nthe keys of `concurrency` are `limit`, `key`",
                "`per` needs a value, as in `per = \"worker\"`",
            ],
        ),
        (
            quote!(fair(kay = tenant)),
            &["unknown key `kay`, did you mean `key`?\nthe only key of `fair` is `key`"],
        ),
        (quote!(concurrency(limit = 5, limit = 6)), &["`limit` is given twice"]),
        (quote!(concurrency(limit = 5, key = "tenant")), &["a key is an argument"]),
        (quote!(concurrency(limit = 5, key = ())), &["a key is an argument"]),
        (quote!(concurrency(limit = 5, key = (tenant, 3))), &["a key is an argument"]),
        (
            quote!(concurrency(limit = 5, key = pool)),
            &["a key is made of arguments, and `pool` is"],
        ),
        (quote!(concurrency(limit = 5, key = db)), &["a key is made of arguments, and `db` is"]),
        (
            quote!(concurrency(limit = pool, key = tenant)),
            &["a limit is made of arguments, and `pool`"],
        ),
        (quote!(redact = "card", fair(key = (tenant, card))), &["a key is shown to operators"]),
        (quote!(concurrency(limit = 5, name = "a b")), &["the name of a limit is"]),
        (
            quote!(concurrency(limit = 5, order = "strict")),
            &["jobs run in order within a key", "jobs in order run one at a time"],
        ),
        (quote!(concurrency(key = tenant, order = "loose")), &["`order` is \"strict\""]),
        (
            quote!(concurrency(limit = 2, per = "worker", key = tenant, order = "strict")),
            &[
                "jobs in order run one at a time",
                "a limit per worker has no key",
                "a limit per worker has no order",
            ],
        ),
        (quote!(concurrency(limit = cap, per = "worker")), &["a limit per worker is a number"]),
        (quote!(concurrency = cap), &["`concurrency` is a number from 1"]),
        (quote!(concurrency(limit = cap)), &["a limit from the arguments is that of a key"]),
        (quote!(concurrency(limit = 1, when_full = "drop")), &["`when_full` is \"wait\""]),
        (
            quote!(concurrency(limit = 1, when_full = "keep_newest", max_waiting = 1)),
            &["`max_waiting` counts the jobs of a key", "`keep_newest` and `keep_oldest` keep"],
        ),
        (
            quote!(concurrency(limit = 1, key = tenant, after_failure = "halt")),
            &["after a failure the jobs behind it can be halted"],
        ),
        (
            quote!(concurrency(limit = 1, key = tenant, max_waiting = 0)),
            &["`max_waiting` is a number from 1"],
        ),
        (
            quote!(rate_limit(rate = "1/s", burst = 1000001)),
            &["`burst` is a number from 0 to 1000000"],
        ),
    ];
    for (args, expected) in table {
        compare(&args, expected);
    }
}

#[test]
fn what_is_wrong_together_is_reported() {
    let table = [
        (quote!(concurrency = 5, concurrency = 6), &["the limit `job` says already how many"][..]),
        (quote!(rate_limit = "1/s", rate_limit = "1/m"), &["the limit `job` has a rate already"]),
        (quote!(fair(key = tenant), concurrency(limit = 1, key = shop)), &["a job has one key"]),
        (
            quote!(
                concurrency(limit = 1, key = (tenant, shop)),
                rate_limit(rate = "1/s", key = (shop, tenant))
            ),
            &["a job has one key"],
        ),
        (
            quote!(
                concurrency(limit = 1, key = tenant),
                rate_limit(rate = "1/s", key = tenant, name = "shop")
            ),
            &["a job has at most one limit with a key"],
        ),
        (
            quote!(
                concurrency = 1,
                concurrency(limit = 1, name = "a"),
                rate_limit(rate = "1/s", name = "b")
            ),
            &["a job has at most two limits"],
        ),
        (
            quote!(concurrency = 1, concurrency(limit = 1, name = "a"), fair(key = tenant)),
            &["a job has at most two limits"],
        ),
        (
            quote!(
                concurrency(limit = 1, per = "worker"),
                concurrency(limit = 1, per = "worker", name = "a")
            ),
            &["a job has at most one limit per worker"],
        ),
    ];
    for (args, expected) in table {
        compare(&args, expected);
    }
}

fn compare(args: &TokenStream, expected: &[&str]) {
    let (_, errors) = limits(args.clone());
    let same = |(error, start): (&String, &&str)| error.starts_with(*start);
    let all = errors.len() == expected.len() && errors.iter().zip(expected).all(same);
    assert!(all, "{args}\n{errors:#?}\n{expected:#?}");
}

#[test]
fn what_is_wrong_becomes_no_code() {
    let (limits, errors) = limits(quote!(concurrency = 5, concurrency(limit = 1, key = pool)));
    assert_eq!(errors.len(), 1);
    assert_eq!(limits.list.len(), 1);
    assert!(limits.key.is_none());
}

#[test]
fn rates() {
    let table = [
        ("100/m", 100, 60_000),
        ("1/s", 1, 1000),
        ("2/h", 2, 3_600_000),
        ("1000000/d", 1_000_000, 86_400_000),
        ("5/30s", 5, 30_000),
        ("5/500ms", 5, 500),
        ("1/30d", 1, LONGEST_MS),
    ];
    for (text, count, period_ms) in table {
        assert_eq!(parse_rate(text), Ok(Rate { count, period_ms }), "{text}");
    }
    let forms = [
        "",
        "/",
        "100",
        "100/",
        "/m",
        "0/m",
        "-1/m",
        "+1/m",
        "1.5/m",
        "1000001/m",
        "1/min",
        "1/ms",
        "1 / s",
        "1/s/s",
        "0/4000d",
    ];
    for text in forms {
        assert_eq!(parse_rate(text), Err(RATE.into()), "{text}");
    }
    for (text, part) in
        [("1/0s", "longer than zero"), ("1/31d", "too long"), ("1/4000d", "too long")]
    {
        let error = parse_rate(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}
