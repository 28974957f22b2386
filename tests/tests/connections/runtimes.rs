//! Runtimes that connections cannot be driven in.

use std::future::pending;

use hworker::{Bulk, Client, Error, Registry, Worker};
use hworker_tests::act;
use tokio::runtime::Builder;

use super::SOON;

/// What everything that connects says in such a runtime.
async fn errors() -> Vec<Error> {
    let client = Client::new("redis://127.0.0.1:1").expect("a client");
    let job = || act::with("never".into(), Vec::new()).on(&client);
    let worker = || {
        let worker = Worker::builder().client(&client).registry(Registry::new().with::<act>());
        worker.build().expect("a worker")
    };
    let bulk: Bulk = [job(), job()].into_iter().collect();
    vec![
        job().enqueue().await.expect_err("now"),
        job().delay(SOON).enqueue().await.expect_err("later"),
        bulk.enqueue().await.expect_err("a bulk"),
        client.inspect("default").counts().await.expect_err("looked at"),
        worker().run_until(pending()).await.expect_err("a worker"),
        worker().run().await.expect_err("a worker with signals"),
    ]
}

#[test]
fn a_runtime_without_timers_or_io_is_an_error_that_says_what_to_call() {
    // Guard: `runtime::current`: else a task panics of which nobody hears.
    let build = |timers: bool, io: bool, threads: bool| {
        let mut builder =
            if threads { Builder::new_multi_thread() } else { Builder::new_current_thread() };
        if timers {
            builder.enable_time();
        }
        if io {
            builder.enable_io();
        }
        builder.build().expect("a runtime")
    };
    for threads in [false, true] {
        for (timers, io, missing) in [
            (false, true, "has no timers,"),
            (true, false, "has no I/O,"),
            (false, false, "has no timers and no I/O,"),
        ] {
            for error in build(timers, io, threads).block_on(errors()) {
                assert!(matches!(error, Error::Config(_)), "{error}");
                let text = error.to_string();
                assert!(text.contains(missing) && text.contains("`enable_all()`"), "{text}");
            }
        }
        let serves = build(true, true, threads).block_on(async {
            let client =
                Client::builder().redis_url("redis://127.0.0.1:1").enqueue_within(SOON / 60);
            let client = client.build().expect("a client");
            act::with("never".into(), Vec::new()).on(&client).enqueue().await.expect_err("now")
        });
        assert!(matches!(serves, Error::Unavailable { .. }), "{serves}");
    }
}
