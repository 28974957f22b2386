//! The whole expansion of typical jobs, as files under `tests/snapshots`.
//!
//! After an intended change run the tests once with `UPDATE_SNAPSHOTS=1` and read the difference.

use std::fs;
use std::path::Path;

use proc_macro2::TokenStream;
use quote::quote;

fn check(name: &str, args: TokenStream, item: TokenStream) {
    let tokens = crate::job_tokens(args, item);
    let file = syn::parse2(tokens.clone()).unwrap_or_else(|error| panic!("{error}\n{tokens}"));
    let expanded = prettyplease::unparse(&file);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshots/{name}.rs"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &expanded).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(expanded, expected, "the expansion is not that of {}", path.display());
}

#[test]
fn a_typical_job() {
    check(
        "typical",
        quote!(timeout = "120s", on_panic = "retry"),
        quote! {
            /// Greets somebody.
            pub async fn send_welcome(to: String, user_id: u64) -> Result<(), MailError> {
                mail(to, user_id).await
            }
        },
    );
}

#[test]
fn no_arguments_and_a_body_that_blocks() {
    check(
        "no_arguments",
        quote!(),
        quote!(
            fn tick() {
                work();
            }
        ),
    );
}

#[test]
#[cfg(feature = "cron")]
fn a_job_that_runs_again_and_again() {
    check(
        "cron",
        quote!(
            cron = "0 9 * * MON-FRI",
            timezone = "Europe/Berlin",
            every("30s", name = "often", overlap = "skip", count = 3)
        ),
        quote!(
            async fn tick() {}
        ),
    );
}

#[test]
fn every_way_to_pass_a_parameter() {
    check(
        "parameters",
        quote!(),
        quote! {
            pub(crate) async fn report(
                /// Who asked.
                who: &str,
                ids: &[u64],
                limits: &Limits,
                #[serde(default)] mut page: u32,
                r#type: Option<String>,
                State(pool): State<Pool>,
                context: &hworker::Context,
                #[inject] tenant: Tenant,
            ) -> hworker::Outcome {
                body
            }
        },
    );
}

#[test]
fn every_policy() {
    check(
        "policies",
        quote! {
            name = "mail:send", aliases = ["send", "mail"], version = 2, upgrade = older::upgrade, type = Send, queue = "mail",
            timeout = "1h30m", on_panic = "fail", on_error = policy::decide, on_timeout = "fail",
            on_crash = "fail", on_failed = jobs::alert, max_attempts = 3, backoff = "exp(1s, 1m)", encrypted, crate = crate::background,
        },
        quote!(
            async fn send(to: String) {}
        ),
    );
}

#[test]
fn a_job_that_keeps_its_result() {
    check(
        "kept",
        quote!(keep_result = "1h", keep_error),
        quote! {
            async fn thumbnail(path: String) -> Result<Thumb, ImageError> {
                draw(path)
            }
        },
    );
}

#[test]
fn limits() {
    check(
        "limits",
        quote! {
            concurrency = 50,
            rate_limit(rate = "100/m", burst = 20),
            concurrency(limit = plan_limit, key = (tenant, shop::of), when_full = "keep_newest", max_waiting = 100),
            concurrency(limit = 2, per = "worker", name = "gpu"),
        },
        quote!(
            async fn sync(tenant: &str, plan_limit: u8) {}
        ),
    );
}

#[test]
fn attributes_of_the_function() {
    check(
        "attributes",
        quote!(),
        quote! {
            #[cfg(feature = "mail")]
            #[cfg_attr(docsrs, doc(cfg(feature = "mail")), allow(unused))]
            #[deprecated = "use `send`"]
            #[expect(clippy::unused_async, reason = "the same as others")]
            #[doc(hidden)]
            #[tracing::instrument]
            pub async fn send_old(to: String) {}
        },
    );
}

#[test]
fn a_wrong_key_leaves_the_job_as_it_is_without_it() {
    check(
        "wrong_key",
        quote!(timeot = "1s", max_attempts = 2),
        quote!(
            async fn send(to: String) {}
        ),
    );
}

#[test]
fn a_refused_parameter_leaves_a_job_that_can_be_named() {
    check(
        "refused",
        quote!(),
        quote!(
            async fn send(to: String, name: Option<&str>) {}
        ),
    );
}
