//! Two builds of one program on the same queue: what the old one cannot run is kept for the new one.

use std::collections::HashSet;

use hworker::{Bulk, Client, JobState, Unique};
use hworker_tests::{InProcess, Machine, Process, TestServer, act, act_by_twos, act_of_key, weigh};

use crate::support::{SOON, block_on, counter, wait_for_workers};

/// A worker of one build.
fn build(server: &TestServer, build: &str) -> Process {
    let mut command = server.command("test-deploy");
    command.env("HWORKER_TEST_BUILD", build);
    Process::start(command)
}

fn push(server: &TestServer, jobs: impl Iterator<Item = String>) {
    for some in jobs.collect::<Vec<_>>().chunks(500) {
        let words = ["LPUSH", "hworker-jobs-default"].into_iter();
        let words: Vec<_> = words.chain(some.iter().map(String::as_str)).collect();
        let _: u64 = server.redis().ask(&words);
    }
}

#[test]
fn a_deploy_loses_no_job_of_new_code() {
    // Old workers serve a queue when jobs with a new variant, and of a new type, come, many more than broken payloads are kept; new
    // workers come later, and one of them dies -> each job runs once, none is broken, none deleted.
    // Guard: `record::parked` instead of `End::Broken`, and `intake/parked.rs`.
    const EACH: usize = 600;
    let server = TestServer::start();
    let _old: Vec<_> = (0..3).map(|_| build(&server, "old")).collect();
    wait_for_workers(&server, 3);
    let greet = |tone: &'static str| {
        (0..EACH).map(move |n| {
            format!(
                r#"{{"id":"{tone}-{n}","job":"greet","args":{{"name":"{tone}","tone":"{tone}"}}}}"#
            )
        })
    };
    push(&server, greet("Plain").chain(greet("Warm")));
    push(
        &server,
        (0..EACH).map(|n| format!(r#"{{"id":"part-{n}","job":"part","args":{{"name":"part"}}}}"#)),
    );
    server.eventually("the old ones have done theirs", 3 * SOON, || {
        counter(&server, "processed") == EACH as u64
            && server.redis().len("hworker-parked-default") == 2 * EACH as u64
    });
    assert_eq!(counter(&server, "parked"), 2 * EACH as u64, "each is parked once");
    let _new = build(&server, "new");
    let mut dies = build(&server, "new");
    server.eventually("the new ones begin", SOON, || !server.runs_of("Warm").is_empty());
    dies.kill();
    server
        .eventually("all have run", 2 * SOON, || counter(&server, "processed") == 3 * EACH as u64);
    assert_eq!(counter(&server, "broken"), 0);
    assert_eq!(server.redis().len("hworker-parked-default"), 0);
    // Those that the dead one held may have run twice.
    let runs = server.runs_of("Warm").len() + server.runs_of("part").len();
    assert!(runs >= 2 * EACH, "{runs}");
}

#[test]
fn lc4_lc5_lc6_a_rolling_deploy_loses_and_breaks_nothing() {
    // A job counts otherwise from version 2 on; another has a new name and one parameter more beside that. Old and new producers enqueue, old
    // workers run, new ones are added, one of these dies, the old ones stop, and what old producers meant for them comes later still -> each
    // job runs, with what its producer meant; none is broken, fails, or loses an attempt.
    // Guard: `newer` and `upgraded` in decode.rs; `Registry::by_name` for the alias.
    const EACH: usize = 150;
    let server = TestServer::start();
    let jobs = |stage: &'static str| {
        (0..EACH).flat_map(move |n| {
            let of = |name: &str, job: &str, rest: &str| {
                format!(r#"{{"id":"{stage}-{name}-{n}","job":"{job}",{rest}}}"#)
            };
            let old = format!(r#""args":{{"name":"{stage}","euros":3}}"#);
            let new = format!(r#""args_v":2,"args":{{"name":"{stage}","cents":300}}"#);
            [
                of("a", "pay", &old),
                of("b", "pay", &new),
                of("c", "bill", &old),
                of("d", "invoice", &new),
            ]
        })
    };
    let mut old: Vec<_> = (0..2).map(|_| build(&server, "old")).collect();
    wait_for_workers(&server, 2);
    push(&server, jobs("first"));
    server.eventually("the old ones have done theirs", 3 * SOON, || {
        counter(&server, "processed") == 2 * EACH as u64
            && server.redis().len("hworker-parked-default") == 2 * EACH as u64
    });
    let parked = block_on(server.inspect().jobs(JobState::Parked).limit(1000).page());
    for job in parked.expect("a page").items {
        assert!(job.attempt == 1 && job.errors().is_empty(), "{}", job.envelope());
    }
    let _new = build(&server, "new");
    let mut dies = build(&server, "new");
    push(&server, jobs("second"));
    server.eventually("the new ones begin", SOON, || server.runs_of("second").len() > EACH / 2);
    dies.kill();
    old.iter().for_each(Process::terminate);
    server.eventually("the old ones have stopped", 2 * SOON, || {
        old.iter_mut().all(|one| one.exited().is_some())
    });
    push(&server, jobs("third"));
    server
        .eventually("all have run", 3 * SOON, || counter(&server, "processed") == 12 * EACH as u64);
    for stage in ["first", "second", "third"] {
        let runs = server.runs_of(stage);
        assert!(runs.iter().all(|run| run.what == "300 cents" && run.attempt == 1), "{runs:?}");
        // Those that the dead one held may have run twice.
        let ids: HashSet<_> = runs.iter().map(|run| &run.id).collect();
        assert_eq!(ids.len(), 4 * EACH, "{stage}");
    }
    let counts = block_on(server.inspect().counts()).expect("counted");
    assert_eq!((counts.broken, counts.failed, counts.parked, counts.waiting), (0, 0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_job_finds_the_one_worker_that_knows_it_among_twenty() {
    // Twenty old workers and a new one, all idle; jobs of new code -> all run there, none is offered to the same worker twice, and none
    // waits for longer than it takes to park it and look: two heartbeats.
    // Guard: `take_parked.lua` puts a job straight under a lease; back in the list, an old one would take it again.
    const JOBS: usize = 200;
    let _machine = Machine::claim();
    let server = TestServer::start();
    let _old: Vec<_> =
        (0..20).map(|_| InProcess::run(server.worker().register::<weigh>())).collect();
    let _new = InProcess::run(server.worker().register::<act>());
    server
        .eventually_async("all serve", SOON, async || {
            server.inspect().workers().await.expect("asked").len() == 21
        })
        .await;
    for number in 0..JOBS {
        server.enqueue(&number.to_string(), Vec::new()).await;
    }
    server.eventually("all have run", SOON, || counter(&server, "processed") == JOBS as u64);
    assert!(counter(&server, "parked") <= JOBS as u64, "{}", counter(&server, "parked"));
    assert_eq!(counter(&server, "broken"), 0);
    server.drained(SOON);
}

#[test]
fn control_14_lists_that_no_worker_has_declared_are_served() {
    // A queue of three shards. Producers have new code before any worker has: jobs with a limit, with a key, and unique ones with a limit, through the
    // two scripts that put them into lists. Nobody is there for the first; the others find a worker that knows none of their types. A
    // worker with the new code comes last -> each job runs once, and none waits in a list of which nobody knows, is parked or broken.
    // Guard: the `ZADD` to `lists` in `enter` of lib/lists.lua.
    const EACH: u32 = 30;
    let server = TestServer::start();
    let client = Client::builder().redis_url(server.url()).shards("default", 3).build();
    let client = client.expect("a client");
    let enqueue = |names: [&str; 3]| {
        let [limited, keyed, unique] = names;
        let of_limit = (0..EACH).map(|_| act_by_twos::with(limited.into(), vec![]));
        let of_keys =
            (0..EACH).map(|key| act_of_key::with(keyed.into(), Some(key.to_string()), vec![]));
        let by_id = (0..EACH).map(|key| {
            act_by_twos::with(unique.into(), vec![]).unique(Unique::by(format!("{unique} {key}")))
        });
        for bulk in [of_limit.collect::<Bulk>(), of_keys.collect(), by_id.collect()] {
            block_on(bulk.on(&client).enqueue()).expect("enqueued");
        }
    };
    let counts = || block_on(client.inspect("default").counts()).expect("counted");
    let first = ["limited", "keyed", "unique"];
    let then = ["limited then", "keyed then", "unique then"];
    enqueue(first);
    assert_eq!(counts().waiting, 3 * u64::from(EACH));
    let worker = |program: &str| {
        let mut command = server.command(program);
        command.env("HWORKER_SHARDS", "default=3");
        Process::start(command)
    };
    let _old = worker("test-deploy");
    server.eventually("the old one has looked at them", 2 * SOON, || counts().waiting == 0);
    enqueue(then);
    let _new = worker("test-worker");
    let all = || first.iter().chain(&then).all(|name| server.ended(name) == EACH as usize);
    server.eventually("all run", 3 * SOON, all);
    server.eventually("nothing is left", SOON, || {
        let counts = counts();
        counts.waiting + counts.parked + counts.running + counts.scheduled == 0
    });
    assert_eq!((counts().broken, counts().failed), (0, 0));
    assert!(first.iter().chain(&then).all(|name| server.begun(name) == EACH as usize));
}
