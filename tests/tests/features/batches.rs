//! Rows BA1 to BA11: jobs that belong together, and what is enqueued when they have ended.

use std::time::Duration;

use hworker::{
    Action, Batch, BatchId, BatchState, BatchStatus, CallbackState, Enqueue, Error, JobState,
    Priority, Unique, Worker,
};
use hworker_tests::{Act, InProcess, TestServer, act, act_by_twos, act_isolated, common_jobs};

use crate::SOON;

fn job(name: impl Into<String>, plan: Vec<Vec<Act>>) -> Enqueue<act> {
    act::with(name.into(), plan)
}

fn fails() -> Vec<Vec<Act>> {
    vec![vec![Act::Failure("declined".into())], vec![]]
}

/// With all three callbacks.
fn batch(server: &TestServer, name: &str) -> Batch {
    let callback = |what: &str| job(format!("{name} {what}"), vec![]);
    Batch::new(name)
        .on(server.client())
        .on_failure(callback("failure"))
        .on_settled(callback("settled"))
        .on_success(callback("success"))
}

async fn status(server: &TestServer, id: &BatchId) -> BatchStatus {
    server.client().batch(id).status().await.expect("asked").expect("it is there")
}

/// Waits until all that follows is done.
async fn finished(server: &TestServer, id: &BatchId) -> BatchStatus {
    let is_over = async || status(server, id).await.state == BatchState::Finished;
    server.eventually_async("it is finished", SOON, is_over).await;
    status(server, id).await
}

/// How often each callback has run: failure, settled, success.
fn ran(server: &TestServer, name: &str) -> [usize; 3] {
    ["failure", "settled", "success"].map(|what| server.ended(&format!("{name} {what}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn ba1_callbacks_of_success_and_of_the_end() {
    // All succeed, with retries, priorities and limits, on two queues, in processes of their own -> settled and success run once each, failure never;
    // nothing of it is left beside the queues.
    // Guard: `callbacks` in lib/batch.lua.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().registry(common_jobs()).extra_queue("later"));
    let again = |number| job(format!("member {number}"), vec![vec![Act::RetryIn(1)], vec![]]);
    let id = batch(&server, "all well")
        .add((0..20).map(again))
        .add((20..25).map(|number| again(number).priority(Priority::High)))
        .add((25..30).map(|number| again(number).queue("later").delay(Duration::from_millis(50))))
        .add((30..35).map(|number| act_by_twos::with(format!("member {number}"), vec![])))
        .enqueue()
        .await
        .expect("enqueued");
    let status = finished(&server, &id).await;
    assert_eq!((status.total, status.ended, status.bad), (35, 35, 0));
    assert_eq!((status.name.as_str(), &status.failures[..]), ("all well", &[][..]));
    assert_eq!(ran(&server, "all well"), [0, 1, 1]);
    assert_eq!(status.on_failure, Some(CallbackState::Waits));
    assert_eq!(status.on_success, Some(CallbackState::Ended));
    let beside = || server.redis().len("hworker-jobs-default:notes");
    server.eventually("no note is left", SOON, || beside() == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba1_the_first_failure_and_what_follows_later() {
    // Two of ten fail -> failure once, settled once, success not; the status names them. Both are run again by hand and succeed -> success comes.
    // Guard: `GETBIT` in apply_batch.lua.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().registry(common_jobs()));
    let member = |number: u32| {
        let plan = if number.is_multiple_of(5) { fails() } else { vec![] };
        job(format!("member {number}"), plan)
    };
    let id = batch(&server, "some fail").add((0..10).map(member)).enqueue().await;
    let id = id.expect("enqueued");
    let status = finished(&server, &id).await;
    assert_eq!((status.total, status.ended, status.bad), (10, 10, 2));
    assert_eq!(ran(&server, "some fail"), [1, 1, 0]);
    let mut failures: Vec<_> =
        status.failures.iter().map(|failure| (failure.member, &*failure.outcome)).collect();
    failures.sort_unstable();
    assert_eq!(failures, [(0, "failed"), (5, "failed")]);
    for failure in &status.failures {
        server.inspect().change_by_id(&failure.id, &Action::Retry).await.expect("it runs again");
    }
    server.eventually("success follows", SOON, || ran(&server, "some fail") == [1, 1, 1]);
    assert_eq!(finished(&server, &id).await.bad, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba1_cancelled_and_expired_members_have_ended() {
    // One is cancelled while it waits, one is deleted, one expires, one has arguments that no worker can read -> all count as ended, and not well.
    // Guard: `note` in inspect/change.rs and in `Overdue`; `Note::of_payload`.
    let server = TestServer::start();
    let gone = job("expires", vec![]).expires_in(Duration::from_millis(1));
    let held = job("held", vec![]).delay(Duration::from_secs(3600));
    let id = batch(&server, "none runs").add([gone]).add([held]);
    let id = id.add([job("deleted", vec![]).delay(Duration::from_secs(7200))]);
    let id = id.add([job("broken", vec![])]).enqueue().await.expect("enqueued");
    let waiting = server.inspect().jobs(JobState::Scheduled).page().await.expect("listed");
    let [held, deleted] = [0, 1].map(|at: usize| waiting.items[at].id.clone().expect("an id"));
    server.inspect().change_by_id(&deleted, &Action::Delete).await.expect("deleted");
    // As an older build would have written it.
    let broken: String = server.redis().ask(&["LPOP", "hworker-jobs-default"]);
    assert!(broken.contains(r#""name":"broken""#), "{broken}");
    let broken = broken.replace(r#""name":"broken""#, r#""nom":"broken""#);
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &broken]);
    // Until the first has expired.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let worker = server.worker().registry(common_jobs()).unknown_for(Duration::from_millis(100));
    let _worker = InProcess::run(worker);
    server.inspect().cancel(&held).await.expect("cancelled");
    let status = finished(&server, &id).await;
    assert_eq!((status.ended, status.bad), (4, 4));
    let mut outcomes: Vec<_> =
        status.failures.iter().map(|failure| (failure.member, &*failure.outcome)).collect();
    outcomes.sort_unstable();
    let expected = [(0, "expired"), (1, "cancelled"), (2, "deleted"), (3, "broken")];
    assert_eq!(outcomes, expected);
    assert_eq!(ran(&server, "none runs"), [1, 1, 0]);
    assert_eq!(server.begun("expires") + server.begun("held"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba5_a_batch_without_members() {
    // None -> settled and success run at once, failure does not; without a callback it is finished at once.
    let server = TestServer::start();
    let id = batch(&server, "empty").enqueue().await.expect("enqueued");
    let plain = Batch::new("plain").on(server.client()).enqueue().await.expect("enqueued");
    assert_eq!(status(&server, &plain).await.state, BatchState::Finished);
    let worker: Worker = server.worker().registry(common_jobs()).build().expect("a worker");
    worker.run_until_idle().await.expect("it ran");
    assert_eq!(ran(&server, "empty"), [0, 1, 1]);
    assert_eq!(status(&server, &id).await.total, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba8_what_ends_twice_counts_once() {
    // A member that stands in the queue twice, as after an enqueue whose answer was lost -> it runs twice and counts once, and the batch waits for the
    // other.
    // Guard: `SETBIT` in apply_batch.lua, of what it gives.
    let server = TestServer::start();
    let held = job("other", vec![vec![Act::Gate("go".into())]]);
    let id = batch(&server, "twice").add([job("double", vec![])]).add([held]).enqueue().await;
    let id = id.expect("enqueued");
    let first: String = server.redis().ask(&["LINDEX", "hworker-jobs-default", "-1"]);
    let _: u64 = server.redis().ask(&["RPUSH", "hworker-jobs-default", &first]);
    let _worker = InProcess::run(server.worker().registry(common_jobs()).concurrency(4));
    server.eventually("it runs twice", SOON, || server.ended("double") == 2);
    let counted = async || status(&server, &id).await.ended == 1;
    server.eventually_async("it counts", SOON, counted).await;
    let notes = || server.redis().len("hworker-jobs-default:notes");
    server.eventually("both notes are delivered", SOON, || notes() == 0);
    assert_eq!((status(&server, &id).await.ended, ran(&server, "twice")), (1, [0, 0, 0]));
    server.open("go");
    finished(&server, &id).await;
    assert_eq!(ran(&server, "twice"), [0, 1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba11_a_callback_comes_although_its_worker_is_killed() {
    // A worker that runs members is killed; one that has written a note and has not delivered it is gone -> another runs the rest, delivers the note,
    // and each callback runs once.
    // Guard: `deliver_left`; the note is written by settle.lua.
    let server = TestServer::start();
    let mut dies = server.worker_process(&[("HWORKER_TEST_JOBS", "all")]);
    let member = |number| job(format!("member {number}"), vec![vec![Act::Sleep(20)]]);
    let gate = job("last", vec![vec![Act::Gate("go".into())], vec![]]);
    let id = batch(&server, "killed").add((0..30).map(member)).add([gate]).enqueue().await;
    let id = id.expect("enqueued");
    server.eventually("the last begins", SOON, || server.begun("last") == 1);
    dies.kill();
    // As if it had been killed between the two.
    let lost = format!("{id} 99 good done lost");
    let _: u64 = server.redis().ask(&["HSET", "hworker-jobs-default:notes", "1.", &lost]);
    let _other = InProcess::run(server.worker().registry(common_jobs()));
    let status = finished(&server, &id).await;
    assert_eq!((status.total, status.ended, status.bad), (31, 31, 0));
    assert_eq!(ran(&server, "killed"), [0, 1, 1]);
    let notes = || server.redis().len("hworker-jobs-default:notes");
    server.eventually("no note is left", SOON, || notes() == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba2_what_no_batch_can_have_is_refused() {
    // A unique member, a callback that is delayed or for each worker, a name of no length -> an error, and nothing is enqueued. One that cannot be
    // encoded among a thousand: likewise.
    let server = TestServer::start();
    let new = || Batch::new("wrong").on(server.client());
    let member = || job("a", vec![]);
    for wrong in [
        new().add([member().unique(Unique::by("key"))]).enqueue().await,
        new().add([member().id("own")]).enqueue().await,
        new().on_settled(member().delay(Duration::from_secs(1))).enqueue().await,
        new().on_settled(member().on_each()).enqueue().await,
        new().on_settled(member().id("own")).enqueue().await,
        Batch::new("").on(server.client()).enqueue().await,
    ] {
        let wrong = wrong.expect_err("refused");
        assert!(matches!(wrong, Error::Config(_)), "{wrong:?}");
    }
    let large = "x".repeat(17 << 20);
    let members = (0..1_000).map(|_| member()).chain([job(large, vec![])]);
    let wrong = new().add(members).enqueue().await.expect_err("refused");
    assert!(!matches!(wrong, Error::Bulk { .. }), "{wrong:?}");
    assert!(server.leftovers("default").is_empty());
    assert!("no id".parse::<BatchId>().is_err());
    let unknown: BatchId = "0190a6c2f3d47b8e9a1b2c3d4e5f6071".parse().expect("an id");
    assert_eq!(server.client().batch(&unknown).status().await.expect("asked"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba8_what_others_write_does_no_harm() {
    // Notes and envelopes of another program: of no batch, with numbers that are none, of a batch of another type -> jobs run, the notes are dropped but
    // for those of the batch that cannot be told, and workers go on.
    // Guard: `Note::of`, `Note::parse`; `gone` in apply_batch.lua.
    let server = TestServer::start();
    let worker = InProcess::run(server.worker().registry(common_jobs()));
    let unknown = "0190a6c2f3d47b8e9a1b2c3d4e5f6071";
    let ofs = ["", "b.", "x", "b.0190.1", "7"];
    let of_unknown = ["5", "99999999", "c0", "c7", "-1", "1e9"];
    let of_unknown = of_unknown.map(|which| format!("b.{unknown}.{which}"));
    for (number, of) in ofs.into_iter().chain(of_unknown.iter().map(|of| &**of)).enumerate() {
        let args = format!(r#"{{"name":"foreign {number}","plan":[]}}"#);
        let payload = format!(r#"{{"id":"f{number}","job":"act","args":{args},"of":"{of}"}}"#);
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &payload]);
    }
    server.eventually("all run", SOON, || {
        (0..11).all(|number| server.ended(&format!("foreign {number}")) == 1)
    });
    for note in ["", "no note", unknown, "a b c d e"] {
        let _: u64 = server.redis().ask(&["HSET", "hworker-jobs-default:notes", note, note]);
    }
    let notes = || server.redis().len("hworker-jobs-default:notes");
    server.eventually("they are dropped", SOON, || notes() == 0);
    assert_eq!(server.redis().keys("hworker-batch-*"), [""; 0]);
    let id = batch(&server, "after").add([job("after", vec![])]).enqueue().await;
    finished(&server, &id.expect("enqueued")).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ba8_a_batch_that_cannot_be_told_holds_up_no_other() {
    // `faults.md`, "Counts and callbacks", 25: somebody made the key of a batch a string -> another, whose note comes later, is finished; the note of the
    // first stays, and is dropped when the key is gone.
    // Guard: `untold` in relay.rs; a worker does not wait for what it wrote itself.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().registry(common_jobs()));
    let gate = job("first", vec![vec![Act::Gate("go".into())]]);
    let first = batch(&server, "first").add([gate]).enqueue().await.expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("first") == 1);
    let key = format!("hworker-batch-{first}");
    let _: u64 = server.redis().ask(&["DEL", &key]);
    let _: () = server.redis().ask(&["SET", &key, "mine"]);
    server.open("go");
    server.eventually("it ends", SOON, || server.ended("first") == 1);
    let notes = || server.redis().len("hworker-jobs-default:notes");
    for number in 0..3 {
        let name = format!("other {number}");
        let other = batch(&server, &name).add([job("other", vec![])]).enqueue().await;
        finished(&server, &other.expect("enqueued")).await;
        assert_eq!(ran(&server, &name), [0, 1, 1]);
    }
    server.eventually("the note of the first is left alone", SOON, || notes() == 1);
    let _: u64 = server.redis().ask(&["DEL", &key]);
    server.eventually("it is dropped", SOON, || notes() == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba1_members_in_processes_of_their_own() {
    // Members with `isolate` -> they count as others do.
    let server = TestServer::start();
    let _worker = server.worker_process(&[("HWORKER_TEST_JOBS", "isolated")]);
    let member = |number| act_isolated::with(format!("member {number}"), vec![]);
    let id = batch(&server, "isolated").add((0..5).map(member)).enqueue().await;
    let status = finished(&server, &id.expect("enqueued")).await;
    assert_eq!((status.ended, status.bad), (5, 0));
    assert_eq!(ran(&server, "isolated"), [0, 1, 1]);
}
