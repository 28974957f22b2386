//! Rows BA3, BA4, BA6, BA7 and BA10: batches that are open, grow, are cancelled and paused, belong to others, and expire.

use std::time::Duration;

use hworker::{
    Batch, BatchChange, BatchHandle, BatchId, BatchState, BatchStatus, BoxError, Bulk,
    CallbackState, Context, Enqueue, Error, Priority, Registry,
};
use hworker_tests::{
    Act, Fault, Harm, InProcess, Proxy, Runner, Runs, TestServer, act, act_isolated, common_jobs,
};

use crate::SOON;
use crate::cli::call;

/// A worker knows of an order to a batch within this time.
const KNOWN_WITHIN: Duration = Duration::from_millis(400);

fn job(name: impl Into<String>, plan: Vec<Vec<Act>>) -> Enqueue<act> {
    act::with(name.into(), plan)
}

fn gate(name: &str) -> Vec<Vec<Act>> {
    vec![vec![Act::Gate(name.into())], vec![]]
}

/// Adds jobs to its batch, and so often in its first runs does not come to its end.
#[hworker::job(backoff = "0s")]
async fn grows(
    name: String,
    children: u32,
    dies: u32,
    context: Context,
    #[inject] runs: Runs,
) -> Result<(), BoxError> {
    runs.note(&name, "begin", 0, Runner::from(&context));
    let children = (0..children).map(|child| job(format!("{name} {child}"), vec![]));
    context.batch()?.add("children", children).await?;
    if context.attempt() <= dies {
        return Err("it fails once it has added them".into());
    }
    runs.note(&name, "end", 0, Runner::from(&context));
    Ok(())
}

/// Adds a job to the batch of which its own is a member.
#[hworker::job]
async fn grows_parent(name: String, context: Context) -> Result<(), BoxError> {
    let batch = context.batch()?;
    let refused = batch.add("own", [job("never", vec![])]).await;
    if !matches!(refused, Err(Error::Refused { .. })) {
        return Err("its own batch takes it".into());
    }
    let parent = batch.parent().await?.ok_or("it has no parent")?;
    parent.add("of a callback", [job(name, vec![])]).await?;
    Ok(())
}

/// Begins a batch that is a member of its own, and fails the first time.
#[hworker::job(backoff = "0s")]
async fn begets(name: String, dies: u32, context: Context) -> Result<(), BoxError> {
    let members = (0..2).map(|member| job(format!("{name} {member}"), vec![]));
    let child = Batch::new(name.clone()).parent(&context).add(members);
    child.on_success(grows_parent::with(format!("{name} more"))).enqueue().await?;
    if context.attempt() <= dies { Err("it fails once it has begun it".into()) } else { Ok(()) }
}

fn jobs() -> Registry {
    common_jobs().with::<grows>().with::<grows_parent>().with::<begets>()
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

async fn status(batch: &BatchHandle) -> BatchStatus {
    batch.status().await.expect("asked").expect("it is there")
}

async fn finished(server: &TestServer, batch: &BatchHandle) -> BatchStatus {
    let is_over = async || status(batch).await.state == BatchState::Finished;
    server.eventually_async("it is finished", SOON, is_over).await;
    status(batch).await
}

/// How often each callback has run: failure, settled, success.
fn ran(server: &TestServer, name: &str) -> [usize; 3] {
    ["failure", "settled", "success"].map(|what| server.ended(&format!("{name} {what}")))
}

/// Has whoever keeps the timer look at a batch with its next heartbeat.
fn look(server: &TestServer, batch: &BatchHandle) {
    let _: u64 =
        server.redis().ask(&["ZADD", "hworker-jobs-default:batches", "0", batch.id().as_str()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba3_an_open_batch_takes_members_until_it_is_sealed() {
    // Opened empty, members added under names, one of them twice, all of them end -> nothing comes before it is sealed; then each callback once. Afterwards
    // it takes none.
    // Guard: `state` in lib/batch.lua, `adds` in add_batch.lua.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().registry(jobs()));
    let open = batch(&server, "open").open().await.expect("opened");
    for (name, from) in [("first", 0), ("second", 10), ("first", 20)] {
        let members = (from..from + 10).map(|number| job(format!("member {number}"), vec![]));
        open.add(name, members).await.expect("added");
    }
    let all = async || status(&open).await.ended == 20;
    server.eventually_async("all have ended", SOON, all).await;
    let stands = status(&open).await;
    assert_eq!((stands.state, stands.total, stands.is_open), (BatchState::Open, 20, true));
    assert_eq!((ran(&server, "open"), server.ended("member 20")), ([0, 0, 0], 0));
    assert_eq!(open.seal().await.expect("sealed"), BatchChange::Changed);
    finished(&server, &open).await;
    assert_eq!(ran(&server, "open"), [0, 1, 1]);
    let again = open.seal().await.expect("asked");
    assert_eq!(again, BatchChange::Unchanged(BatchState::Finished));
    let late = open.add("late", [job("late", vec![])]).await.expect_err("refused");
    assert!(late.to_string().contains("finished"), "{late}");
    assert!(matches!(late, Error::Refused { .. }), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ba3_a_member_grows_its_batch_once() {
    // `faults.md` 13: a member of a batch that is sealed adds jobs and fails, twice -> the jobs are there once, and the batch waits for them.
    // Guard: the name of what is added, in add_batch.lua; the numbers of members in `by`.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().registry(jobs()));
    let members = (0..3).map(|member| grows::with(format!("grower {member}"), 5, 2));
    let id = batch(&server, "grows").add(members).enqueue().await.expect("enqueued");
    let status = finished(&server, &server.client().batch(&id)).await;
    assert_eq!((status.total, status.ended, status.bad), (18, 18, 0));
    for member in 0..3 {
        assert_eq!(server.begun(&format!("grower {member}")), 3);
        for child in 0..5 {
            assert_eq!(server.begun(&format!("grower {member} {child}")), 1);
        }
    }
    assert_eq!(ran(&server, "grows"), [0, 1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba3_members_go_where_they_belong() {
    // Of one add: jobs of two queues, with a priority, delayed, in front -> each is where an enqueue would have put it, and all count.
    // Guard: `push_once.lua`; `Where` in relay/grow.rs.
    let server = TestServer::start();
    let open = batch(&server, "mixed").open().await.expect("opened");
    let hour = Duration::from_secs(3600);
    let mut bulk = Bulk::new();
    bulk.extend((0..4).map(|number| job(format!("plain {number}"), vec![])));
    bulk.extend([job("high", vec![]).priority(Priority::High)]);
    bulk.extend([job("other", vec![]).queue("other"), job("later", vec![]).delay(hour)]);
    bulk.extend([job("first", vec![]).front()]);
    open.add_bulk("all", bulk).await.expect("added");
    let len = |key: &str| server.redis().len(key);
    assert_eq!(len("hworker-jobs-default"), 5);
    assert_eq!(len("hworker-jobs-default:high"), 1);
    assert_eq!((len("hworker-jobs-other"), len("hworker-scheduled-default")), (1, 1));
    let next: String = server.redis().ask(&["LINDEX", "hworker-jobs-default", "-1"]);
    assert!(next.contains(r#""name":"first""#) && next.contains(".7\""), "{next}");
    assert_eq!(status(&open).await.queues, ["default", "other"]);
    let _worker = InProcess::run(server.worker().registry(jobs()).extra_queue("other"));
    open.seal().await.expect("sealed");
    let all = async || status(&open).await.ended == 7;
    server.eventually_async("all but one have ended", SOON, all).await;
    open.cancel().await.expect("cancelled");
    assert_eq!(status(&open).await.state, BatchState::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba3_what_an_adder_left_is_given_up() {
    // `faults.md` 12: an adder dies between its numbers and its push -> what it was to add is given up, the batch ends without it; a push that comes late
    // does nothing. The name is free: who adds under it again is not refused.
    // Guard: `void` in push_once.lua, added_batch.lua; `ADDS_FOR_MS` in relay/mind.rs.
    let server = TestServer::start();
    let open = batch(&server, "left").open().await.expect("opened");
    open.add("in", [job("in", vec![])]).await.expect("added");
    let key = format!("hworker-batch-{}", open.id());
    // As `add_batch` leaves it.
    let left = ["add:left.0", "1 1 2 token default 0-1", "given", "3", "total", "3"];
    let _: u64 = server.redis().ask(&[&["HSET", &*key], &left[..]].concat());
    open.seal().await.expect("sealed");
    let _worker = InProcess::run(server.worker().registry(jobs()));
    let one = async || status(&open).await.ended == 1;
    server.eventually_async("the one ends", SOON, one).await;
    assert_eq!(ran(&server, "left"), [0, 0, 0]);
    look(&server, &open);
    let status = finished(&server, &open).await;
    assert_eq!((status.total, status.ended, status.bad), (1, 1, 0));
    let pushed = format!("hworker-jobs-default:pushed:{}", open.id());
    let void: String = server.redis().ask(&["HGET", &pushed, "token.0"]);
    assert_eq!((void.as_str(), ran(&server, "left")), ("void", [0, 1, 1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn ba3_one_that_nobody_goes_on_with_is_cancelled() {
    // Opened, two members added, and the program dies; an hour later -> cancelled as abandoned: what waits does not run, the settled callback comes, success
    // does not.
    // Guard: `open_for` in mind_batch.lua.
    let server = TestServer::start();
    let open = batch(&server, "abandoned").open().await.expect("opened");
    let later = job("later", vec![]).delay(Duration::from_millis(4500));
    open.add("both", [job("now", vec![]), later]).await.expect("added");
    let _worker = InProcess::run(server.worker().registry(jobs()));
    server.eventually("the first ends", SOON, || server.ended("now") == 1);
    let key = format!("hworker-batch-{}", open.id());
    let _: u64 = server.redis().ask(&["HSET", &key, "added", "1"]);
    look(&server, &open);
    let status = finished(&server, &open).await;
    assert_eq!((status.ended, status.bad, status.cancelled), (2, 0, 1));
    assert!(status.is_abandoned && status.is_cancelled);
    assert_eq!((ran(&server, "abandoned"), server.begun("later")), ([0, 1, 0], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn ba7_a_cancelled_batch_ends() {
    // One of its members runs, three wait, one has failed -> the one that runs is cancelled, the others do not begin; settled comes once, success never,
    // failure as one had failed before. Cancelled again: it was so already.
    // Guard: `stopped::end`, `cancel_running`; `cancelled` in apply_batch.lua.
    let server = TestServer::start();
    let worker = server.worker().registry(jobs()).concurrency(1);
    let _worker = InProcess::run(worker);
    let fails = job("fails", vec![vec![Act::Failure("declined".into())]]);
    let long = job("long", gate("never"));
    let members = (0..3).map(|number| job(format!("member {number}"), vec![]));
    let id = batch(&server, "cancelled").add([fails, long]).add(members).enqueue().await;
    let open = server.client().batch(&id.expect("enqueued"));
    server.eventually("it runs", SOON, || server.begun("long") == 1);
    assert_eq!(open.cancel().await.expect("cancelled"), BatchChange::Changed);
    let again = open.cancel().await.expect("asked");
    assert!(matches!(again, BatchChange::Unchanged(_)), "{again:?}");
    let status = finished(&server, &open).await;
    assert_eq!((status.total, status.ended, status.bad, status.cancelled), (5, 5, 1, 4));
    assert_eq!((ran(&server, "cancelled"), server.begun("member 0")), ([1, 1, 0], 0));
    assert_eq!(status.failures.len(), 1);
    let unknown: BatchId = "0190a6c2f3d47b8e9a1b2c3d4e5f6071".parse().expect("an id");
    let none = server.client().batch(&unknown).cancel().await.expect_err("there is none");
    assert!(matches!(none, Error::NotFound { .. }), "{none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ba7_a_paused_batch_waits_and_goes_on() {
    // Paused while a member runs, and one is delayed -> that one ends, no other begins, other jobs of the queue run; resumed, they run in their order,
    // those too that were parked late. Nothing is left beside the queue.
    // Guard: `duties.hold`, stop_batch.lua.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().registry(jobs()).concurrency(1));
    let members = (0..5).map(|number| job(format!("member {number}"), vec![]));
    let high = job("high", vec![]).priority(Priority::High).delay(Duration::from_millis(200));
    let id = batch(&server, "paused").add([job("runs", gate("go"))]).add([high]).add(members);
    let open = server.client().batch(&id.enqueue().await.expect("enqueued"));
    server.eventually("it runs", SOON, || server.begun("runs") == 1);
    assert_eq!(open.pause().await.expect("paused"), BatchChange::Changed);
    let again = open.pause().await.expect("asked");
    assert_eq!(again, BatchChange::Unchanged(BatchState::Paused));
    job("another", vec![]).on(server.client()).enqueue().await.expect("enqueued");
    tokio::time::sleep(KNOWN_WITHIN).await;
    server.open("go");
    server.eventually("the other job runs", SOON, || server.ended("another") == 1);
    let parked = format!("hworker-jobs-default:paused:{}", open.id());
    server.eventually("all are parked", SOON, || server.redis().len(&parked) == 6);
    let stands = status(&open).await;
    assert_eq!((stands.state, stands.ended, server.begun("member 0")), (BatchState::Paused, 1, 0));
    assert_eq!(open.resume().await.expect("resumed"), BatchChange::Changed);
    finished(&server, &open).await;
    assert_eq!(ran(&server, "paused"), [0, 1, 1]);
    for number in 0..5 {
        assert_eq!(server.begun(&format!("member {number}")), 1);
    }
    assert_eq!(server.redis().len(&parked), 0);
    let again = open.resume().await.expect("asked");
    assert_eq!(again, BatchChange::Unchanged(BatchState::Finished));
}

#[tokio::test(flavor = "multi_thread")]
async fn ba7_what_grows_while_it_is_paused_waits_too() {
    // An open batch is paused, then members are added on a queue that had none of it; then it is cancelled -> none begins.
    // Guard: `stop` in `Adding::push`, `is_paused_batch` in push_once.lua; `queues` in order_batch.lua.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().registry(jobs()).extra_queue("other"));
    let open = batch(&server, "grows paused").open().await.expect("opened");
    open.pause().await.expect("paused");
    let members = (0..3).map(|number| job(format!("member {number}"), vec![]).queue("other"));
    open.add("late", members).await.expect("added");
    let parked = format!("hworker-jobs-other:paused:{}", open.id());
    server.eventually("they are parked", SOON, || server.redis().len(&parked) == 3);
    open.cancel().await.expect("cancelled");
    let status = finished(&server, &open).await;
    assert_eq!((status.ended, status.cancelled, server.begun("member 0")), (3, 3, 0));
    assert_eq!(ran(&server, "grows paused"), [0, 1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba4_a_batch_in_a_batch() {
    // `faults.md` 14: a member begins a batch in its own, twice as it fails once; the success callback of that adds to the parent -> the parent ends when that
    // callback and what it added have ended. Its own callbacks add nothing to it.
    // Guard: `is_finished` in lib/batch.lua; `child` in relay/grow.rs.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().registry(jobs()));
    let id = batch(&server, "parent").add([begets::with("child".into(), 1)]).enqueue().await;
    let parent = server.client().batch(&id.expect("enqueued"));
    let status = finished(&server, &parent).await;
    assert_eq!((status.total, status.ended, status.bad, status.children), (3, 3, 0, 1));
    assert_eq!(ran(&server, "parent"), [0, 1, 1]);
    for name in ["child 0", "child 1", "child more"] {
        assert_eq!(server.begun(name), 1, "{name}");
    }
    assert_eq!(server.begun("never"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba4_what_a_parent_learns_of_its_batches() {
    // `faults.md` 15: of the batches in one, one has a callback that fails, one a member that fails, one is well -> two are bad. Cancelled, a parent cancels
    // those in it.
    // Guard: `has_failed` in lib/batch.lua; `cancel_children`.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().registry(jobs()));
    let fails = || job("fails", vec![vec![Act::Failure("declined".into())]]);
    let parent = batch(&server, "parent").open().await.expect("opened");
    let child = |name: &str| Batch::new(name).parent_batch(&parent);
    let bad = child("callback fails").on_settled(fails()).enqueue().await.expect("enqueued");
    child("member fails").add([fails()]).enqueue().await.expect("enqueued");
    child("well").add([job("well", vec![])]).enqueue().await.expect("enqueued");
    parent.seal().await.expect("sealed");
    let stands = finished(&server, &parent).await;
    assert_eq!((stands.total, stands.ended, stands.bad), (3, 3, 2));
    assert_eq!(ran(&server, "parent"), [1, 1, 0]);
    let bad = status(&server.client().batch(&bad)).await;
    assert_eq!(bad.on_settled, Some(CallbackState::Failed));
    assert_eq!(bad.parent.as_ref(), Some(parent.id()));

    let parent = batch(&server, "over").open().await.expect("opened");
    let waits = job("waits", vec![]).delay(2 * KNOWN_WITHIN);
    let child = Batch::new("child").parent_batch(&parent).add([waits]).enqueue().await;
    let child = server.client().batch(&child.expect("enqueued"));
    parent.cancel().await.expect("cancelled");
    let stands = finished(&server, &parent).await;
    assert_eq!((stands.ended, stands.bad, stands.cancelled), (1, 0, 1));
    assert!(status(&child).await.is_cancelled && server.begun("waits") == 0);
    assert_eq!(ran(&server, "over"), [0, 1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba6_ba10_notes_and_an_end_of_its_own() {
    // Tags and meta are in its status; one that expires is gone at its time: its member runs as a plain job, no callback comes, and nothing comes back.
    // Guard: `expires` in lib/batch.lua.
    let server = TestServer::start();
    let noted = batch(&server, "noted").tag("eu").meta("customer", 7).meta("who", "ada");
    let noted = server.client().batch(&noted.enqueue().await.expect("enqueued"));
    let stands = status(&noted).await;
    assert_eq!(
        (stands.tags.as_slice(), &stands.meta["customer"]),
        (&["eu".to_owned()][..], &7.into())
    );
    let short = batch(&server, "short").expires(Duration::from_millis(300));
    let open = short.add([job("late", vec![])]).open().await.expect("opened");
    open.pause().await.expect("paused");
    let gone = async || open.status().await.expect("asked").is_none();
    server.eventually_async("it is gone", SOON, gone).await;
    let _worker = InProcess::run(server.worker().registry(jobs()));
    look(&server, &open);
    server.eventually("its member runs", SOON, || server.ended("late") == 1);
    assert_eq!(server.redis().keys(&format!("hworker-batch-{}*", open.id())), [""; 0]);
    assert_eq!(ran(&server, "short"), [0, 0, 0]);
    for wrong in [
        batch(&server, "wrong").tag("").enqueue().await,
        batch(&server, "wrong").expires(Duration::ZERO).enqueue().await,
        batch(&server, "wrong").meta("large", "x".repeat(5_000)).enqueue().await,
    ] {
        assert!(matches!(wrong.expect_err("refused"), Error::Config(_)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ba2_an_enqueue_that_fails_leaves_nothing_or_is_cancelled() {
    // The first chunk is refused, as the list of the queue is of another type -> an error, and nothing is there. The second queue is -> some are in: the
    // error says which, and the batch is cancelled.
    // Guard: `fill` in enqueue/batch.rs.
    let server = TestServer::start();
    let _: () = server.redis().ask(&["SET", "hworker-jobs-other", "mine"]);
    let other = |name: &str| job(name, vec![]).queue("other");
    let wrong = batch(&server, "nothing").add([other("a")]).enqueue().await;
    assert!(matches!(wrong, Err(Error::Refused { .. })), "{wrong:?}");
    assert_eq!(server.redis().keys("hworker-batch-*"), [""; 0]);
    let wrong = batch(&server, "some").add([job("b", vec![]), other("a")]).enqueue().await;
    assert!(matches!(wrong, Err(Error::Bulk { .. })), "{wrong:?}");
    let key = server.redis().keys("hworker-batch-*");
    let id = key.iter().find_map(|key| key.strip_prefix("hworker-batch-")?.parse::<BatchId>().ok());
    let some = server.client().batch(&id.expect("it is there"));
    let _worker = InProcess::run(server.worker().registry(jobs()));
    let status = finished(&server, &some).await;
    assert_eq!((status.total, status.cancelled, server.begun("b")), (1, 1, 0));
    assert_eq!(ran(&server, "some"), [0, 1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba9_members_that_are_nowhere_are_found_and_count_as_ended() {
    // `faults.md` 11: of members that run, wait, are delayed, are met while it is paused, and of a batch in it none is missing; one that somebody removed by
    // hand is, and repaired it is bad; counts that somebody changed are right again.
    // Guard: `missing` in inspect/batch.rs; recount_batch.lua.
    let server = TestServer::start();
    let open = batch(&server, "audited").open().await.expect("opened");
    let later = job("later", vec![]).delay(Duration::from_secs(1));
    open.add("some", [job("runs", gate("go")), later]).await.expect("added");
    open.add("lost", [job("lost", vec![])]).await.expect("added");
    let child = Batch::new("child").parent_batch(&open).add([job("of a child", gate("go"))]);
    child.enqueue().await.expect("enqueued");
    let high = job("high", vec![]).priority(Priority::High);
    open.add("more", [high, job("last", vec![])]).await.expect("added");
    let waiting: Vec<String> = server.redis().ask(&["LRANGE", "hworker-jobs-default", "0", "-1"]);
    let lost = waiting.iter().find(|job| job.contains(r#""name":"lost""#)).expect("it waits");
    let _: u64 = server.redis().ask(&["LREM", "hworker-jobs-default", "1", lost]);
    open.seal().await.expect("sealed");
    let _worker = InProcess::run(server.worker().registry(jobs()).concurrency(2));
    let (soon, is_there) = (Duration::from_millis(50), |name: &str| server.begun(name) == 1);
    server.eventually("both run", SOON, || is_there("runs") && is_there("of a child"));
    open.pause().await.expect("paused");
    let audit = open.audit(soon, false).await.expect("asked").expect("it is there");
    assert_eq!((audit.missing.as_slice(), audit.is_repaired), (&[2][..], false));
    server.open("go");
    let parked = format!("hworker-jobs-default:paused:{}", open.id());
    server.eventually("it is parked", SOON, || server.redis().len(&parked) >= 1);
    let key = format!("hworker-batch-{}", open.id());
    let _: u64 = server.redis().ask(&["HSET", &key, "ended", "17", "bad", "9"]);
    let audit = open.audit(soon, true).await.expect("asked").expect("it is there");
    assert_eq!((audit.missing.as_slice(), audit.is_repaired), (&[2][..], true));
    open.resume().await.expect("resumed");
    let status = finished(&server, &open).await;
    assert_eq!((status.total, status.ended, status.bad), (6, 6, 1));
    assert_eq!((status.failures[0].member, &*status.failures[0].outcome), (2, "lost"));
    assert_eq!(ran(&server, "audited"), [1, 1, 0]);
    let audit = open.audit(soon, true).await.expect("asked").expect("it is there");
    assert_eq!((audit.alive, audit.missing.len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn ba8_what_a_batch_refuses_again_and_again_is_put_aside() {
    // `faults.md` 25: the key of a batch is made a string -> after ten refusals the note is put aside, the doctor tells of it, and other batches go on.
    // Guard: `put_aside` in worker/relay.rs.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().registry(jobs()));
    let id = batch(&server, "broken").add([job("first", gate("go"))]).enqueue().await;
    let id = id.expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("first") == 1);
    let key = format!("hworker-batch-{id}");
    let _: u64 = server.redis().ask(&["DEL", &key]);
    let _: () = server.redis().ask(&["SET", &key, "mine"]);
    server.open("go");
    let aside = || server.redis().len("hworker-jobs-default:undelivered");
    server.eventually("it is put aside", Duration::from_secs(60), || aside() == 1);
    assert_eq!(server.redis().len("hworker-jobs-default:notes"), 0);
    let other = batch(&server, "other").add([job("other", vec![])]).enqueue().await;
    finished(&server, &server.client().batch(&other.expect("enqueued"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ba6_ba7_batches_in_a_terminal() {
    // Listed, shown, paused, resumed, cancelled and verified; each change is in the audit. What is no id, and one that there is not.
    let server = TestServer::start();
    let named = batch(&server, "in a terminal").tag("eu").add([job("a", vec![])]).enqueue().await;
    let id = named.expect("enqueued").to_string();
    let said = |words: &[&str]| call(&server, words);
    let listed = said(&["batches", "ls"]);
    assert!(listed.code == 0 && listed.out.contains(&id), "{}", listed.out);
    assert!(listed.out.contains("in a terminal"), "{}", listed.out);
    let shown = said(&["batches", "show", &id, "--json"]).json().remove(0);
    assert_eq!((&shown["state"], &shown["total"]), (&"sealed".into(), &1.into()), "{shown}");
    for (order, changed, state) in [
        ("pause", true, "paused"),
        ("resume", true, "sealed"),
        ("resume", false, "sealed"),
        ("cancel", true, "cancelled"),
    ] {
        let answer = said(&["batches", order, &id, "--json"]).json().remove(0);
        assert_eq!((&answer["changed"], &answer["state"]), (&changed.into(), &state.into()));
    }
    let audit = said(&["batches", "verify", &id, "--json"]).json().remove(0);
    assert_eq!((&audit["alive"], audit["missing"].as_array().map(Vec::len)), (&1.into(), Some(0)));
    assert_eq!(said(&["batches", "repair", &id]).code, 0);
    let audited = said(&["audit"]).out;
    assert!(audited.contains(&format!("the batch {id}")), "{audited}");
    assert_eq!(said(&["batches", "show", "no-id"]).code, 2);
    assert_eq!(said(&["batches", "show", "0190a6c2f3d47b8e9a1b2c3d4e5f6071"]).code, 3);
    assert_eq!(said(&["batches", "cancel", "0190a6c2f3d47b8e9a1b2c3d4e5f6071"]).code, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn ba2_answers_that_are_lost() {
    // `faults.md` 4 and 12: of an enqueue to two queues a request or an answer of each script is lost -> it succeeds, each member runs once, and each
    // callback comes once.
    // Guard: `repeated` in relay.rs, the token in push_once.lua.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().registry(jobs()).extra_queue("other"));
    let proxy = Proxy::before(&server);
    let scripts = ["stop_batch", "create_batch", "add_batch", "push_once", "added_batch"];
    for (number, script) in scripts.into_iter().enumerate() {
        for loss in [Fault::LoseRequest, Fault::LoseReply] {
            let name = format!("{number} {loss:?}");
            // Its connection is there, and the scripts are known.
            let client = proxy.client();
            Batch::new("before").on(&client).enqueue().await.expect("enqueued");
            proxy.fault(1, script, loss);
            let member = |member| {
                let queue = if member % 2 == 0 { "default" } else { "other" };
                job(format!("{name} {member}"), vec![]).queue(queue)
            };
            let id = batch(&server, &name).on(&client).add((0..6).map(member)).enqueue().await;
            let id = id.unwrap_or_else(|error| panic!("{script} {loss:?}: {error}"));
            assert!(proxy.all_happened(), "{script} {loss:?}");
            let status = finished(&server, &server.client().batch(&id)).await;
            assert_eq!((status.total, status.ended, status.bad), (6, 6, 0), "{script} {loss:?}");
            assert_eq!(ran(&server, &name), [0, 1, 1], "{script} {loss:?}");
            for member in 0..6 {
                assert_eq!(server.begun(&format!("{name} {member}")), 1, "{script} {loss:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ba11_a_member_that_dies_as_it_grows() {
    // `faults.md` 13: the worker of a member is killed once that has added to its batch -> another runs it, the batch has grown once, each callback comes
    // once. A member in a process of its own grows it too.
    // Guard: `by` of what a member adds; `of` in the context.
    let server = TestServer::start();
    let mut dies = server.worker_process(&[("HWORKER_TEST_JOBS", "isolated")]);
    let plan = vec![vec![Act::Grow(4), Act::Kill], vec![Act::Grow(4)]];
    let id = batch(&server, "dies").add([job("grower", plan)]).enqueue().await;
    let dying = server.client().batch(&id.expect("enqueued"));
    server.eventually("it died", SOON, || dies.exited().is_some());
    let _other = server.worker_process(&[("HWORKER_TEST_JOBS", "isolated")]);
    let apart = act_isolated::with("apart".into(), vec![vec![Harm::Act(Act::Grow(3))]]);
    let id = batch(&server, "apart").add([apart]).enqueue().await.expect("enqueued");
    let status = finished(&server, &dying).await;
    assert_eq!((status.total, status.ended, status.bad), (5, 5, 0));
    assert_eq!((server.begun("grower"), ran(&server, "dies")), (2, [0, 1, 1]));
    // Some of them ran in the one that died.
    for child in 0..4 {
        assert!(server.begun(&format!("grower {child}")) >= 1);
    }
    let status = finished(&server, &server.client().batch(&id)).await;
    assert_eq!((status.total, status.ended, status.bad), (4, 4, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn ba1_a_batch_of_thousands() {
    // `faults.md` 20 and 21: 20,000 members on two queues, which four workers run -> all run once, the batch counts them all, each callback comes once, and
    // nothing of it is left beside the queues but what expires.
    // Guard: `AT_ONCE` in enqueue/batch/members.rs, `AT_A_TIME` in relay.rs.
    let server = TestServer::start();
    let member = |number: u32| {
        let queue = if number.is_multiple_of(3) { "other" } else { "default" };
        job("member", vec![]).queue(queue)
    };
    let id = batch(&server, "large").add((0..20_000).map(member)).enqueue().await;
    let large = server.client().batch(&id.expect("enqueued"));
    let worker = || {
        let builder = server.worker().registry(jobs()).extra_queue("other");
        InProcess::run(builder.name("one").concurrency(50))
    };
    let _workers = [worker(), worker()];
    let is_over = async || status(&large).await.state == BatchState::Finished;
    server.eventually_async("it is finished", Duration::from_secs(120), is_over).await;
    let stands = status(&large).await;
    assert_eq!((stands.total, stands.ended, stands.bad), (20_000, 20_000, 0));
    assert_eq!(server.begun("member"), 20_000);
    assert_eq!(ran(&server, "large"), [0, 1, 1]);
    for queue in ["default", "other"] {
        let notes = format!("hworker-jobs-{queue}:notes");
        server.eventually("no note is left", SOON, || server.redis().len(&notes) == 0);
        let batches = format!("hworker-jobs-{queue}:batches");
        let _: u64 = server.redis().ask(&["ZADD", &batches, "0", large.id().as_str()]);
        server.eventually("it is forgotten", SOON, || server.redis().len(&batches) == 0);
    }
}
