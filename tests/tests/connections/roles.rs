//! The users of `SECURITY.md`, as they stand there: each can do its work, and nothing more.

use std::collections::BTreeSet;
use std::time::Duration;

use hworker::{
    Action, AuditEntry, Bulk, Client, Error, JobState, OnConflict, Priority, Unique, When,
};
use hworker_tests::Records as _;
use hworker_tests::{
    Act, RedisSide, SCRIPTS, TestServer, act, act_by_rate, act_by_twos, act_in_order, act_of_key,
    act_once,
};

use super::SOON;

/// The scripts that only read.
const READS: &[&str] = &["look_broadcasts", "read_hash", "read_list", "read_set"];

/// One `ACL SETUSER` line of `SECURITY.md`.
struct Role {
    words: Vec<&'static str>,
}

impl Role {
    fn named(name: &str) -> Self {
        let start = format!("ACL SETUSER {name} ");
        let mut lines =
            include_str!("../../../SECURITY.md").lines().filter(|line| line.starts_with(&start));
        let line = lines.next().unwrap_or_else(|| panic!("SECURITY.md has no line `{start}...`"));
        assert!(lines.next().is_none(), "SECURITY.md has two lines `{start}...`");
        Self { words: line.split_whitespace().collect() }
    }

    /// Makes the user, and gives the URL by which it connects.
    fn set_up(&self, server: &TestServer) -> String {
        let reply: String = server.redis().ask(&self.words);
        assert_eq!(reply, "OK");
        let password = self.words.iter().find_map(|word| word.strip_prefix('>'));
        let password = password.expect("a password");
        format!("{}?user={}&pass={password}", server.url(), self.words[2])
    }

    /// What it may call, a subcommand as `client|id`.
    fn granted(&self) -> BTreeSet<String> {
        let commands = self.words.iter().filter_map(|word| word.strip_prefix('+'));
        commands.map(str::to_owned).collect()
    }
}

/// What the scripts of these names call.
fn called_by(names: &[&str]) -> BTreeSet<String> {
    let texts = SCRIPTS.iter().copied().filter(|(name, _)| names.contains(name));
    let calls = texts.flat_map(|(_, text)| text.split("call('").skip(1));
    let commands = calls.filter_map(|rest| rest.split('\'').next());
    commands.map(str::to_ascii_lowercase).collect()
}

/// What was called on the server, inside scripts too.
fn called_on(server: &TestServer) -> BTreeSet<String> {
    let stats: String = server.redis().ask(&["INFO", "commandstats"]);
    let calls = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next());
    calls.map(str::to_owned).collect()
}

/// The user was granted nothing that it does not need, and asked for nothing that it was not granted.
fn needs_what_it_has(role: &Role, server: &TestServer, scripts: &[&str], rare: &[&str]) {
    let denied: Vec<String> = denials(server);
    assert!(denied.is_empty(), "refused while it did its work: {denied:?}");
    let mut needed = called_by(scripts);
    let missing: Vec<_> = needed.difference(&role.granted()).cloned().collect();
    assert!(missing.is_empty(), "its scripts call what it may not: {missing:?}");
    needed.extend(called_on(server));
    needed.extend(rare.iter().map(|&command| command.to_owned()));
    let unused: Vec<_> = role.granted().difference(&needed).cloned().collect();
    assert!(unused.is_empty(), "granted, and nobody calls it: {unused:?}");
}

/// What the server refused: the reason and the command or key, of each entry of its log.
fn denials(server: &TestServer) -> Vec<String> {
    let entries: Vec<Vec<redis::Value>> = server.redis().ask(&["ACL", "LOG"]);
    entries.iter().map(|entry| format!("{entry:?}")).collect()
}

/// Each of these is refused for want of a right, whatever it would have done.
fn may_not(url: &str, commands: &[&str]) {
    let mut redis = RedisSide::new(url);
    let anybodys = [
        "FLUSHALL",
        "FLUSHDB",
        "CONFIG GET requirepass",
        "CONFIG SET maxmemory 1mb",
        "KEYS *",
        "ACL LIST",
        "ACL SETUSER other on nopass allkeys allcommands",
        "SHUTDOWN NOSAVE",
        "MONITOR",
        "SCRIPT FLUSH",
        "FUNCTION FLUSH",
        "CLIENT LIST",
        "CLIENT KILL TYPE normal",
        "REPLICAOF NO ONE",
        "SAVE",
        "GET accounts",
        "SET accounts 1",
        "LPUSH accounts 1",
        "LRANGE accounts 0 -1",
        "EVAL return(redis.call('GET','accounts')) 0",
        "EVAL return(redis.call('FLUSHALL')) 0",
        "EVAL return(redis.call('LPUSH',KEYS[1],'x')) 1 accounts",
        "SUBSCRIBE all",
        "PUBLISH all 1",
    ];
    for command in anybodys.iter().chain(commands) {
        let words: Vec<_> = command.split(' ').collect();
        let error = redis.try_ask::<redis::Value>(&words).expect_err(command);
        // Inside a script the server of version 7 says ERR, and then why.
        let refused = error.code() == Some("NOPERM")
            || [
                "can't run this command",
                "can't access at least one",
                "No permissions",
                "ACL failure",
            ]
            .iter()
            .any(|why| error.to_string().contains(why));
        assert!(refused, "{command}: {error}");
    }
}

/// While one of a page is drawn, the one that waits already stays.
#[hworker::job(concurrency(limit = most, key = page, when_full = "keep_oldest"))]
fn draw_oldest(page: u64, most: u32) {
    let _ = (page, most);
}

/// While one of a page is drawn, the newest waits.
#[hworker::job(concurrency(limit = 1, key = page, when_full = "keep_newest"))]
fn draw_newest(page: u64) {
    let _ = page;
}

/// Has a limit, a rate, a key, and a key in order.
async fn enqueue_limited(client: &Client) {
    let none = Vec::new;
    let (name, key) = (|| "limited".to_owned(), Some("k".to_owned()));
    act_by_twos::with(name(), none()).on(client).enqueue().await.expect("enqueued");
    act_by_rate::with(name(), none()).on(client).enqueue().await.expect("enqueued");
    act_of_key::with(name(), key, none()).on(client).enqueue().await.expect("enqueued");
    let again = vec![vec![Act::RetryIn(50)], vec![]];
    let in_order = act_in_order::with(name(), "k".into(), again);
    in_order.on(client).enqueue().await.expect("enqueued");
}

fn nothing(name: &str) -> hworker::Enqueue<act> {
    act::with(name.into(), Vec::new())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_enqueues_and_nothing_more() {
    let server = TestServer::start();
    let role = Role::named("hworker-producer");
    let url = role.set_up(&server);
    let client = Client::new(&url).expect("a client");

    nothing("now").on(&client).enqueue().await.expect("enqueued");
    let later = nothing("later").delay(Duration::from_secs(3600));
    later.on(&client).enqueue().await.expect("scheduled");
    nothing("front").front().on(&client).enqueue().await.expect("put to the front");
    for job in [nothing("low"), nothing("low later").delay(SOON)] {
        let job = job.queue("other").priority(Priority::Low).on(&client);
        job.enqueue().await.expect("enqueued with its priority");
    }
    let bulk: Bulk = (0..3000).map(|_| nothing("many")).collect();
    bulk.on(&client).enqueue().await.expect("a bulk");
    let mixed: Bulk = (0..2000)
        .map(|n| nothing("mixed").delay(Duration::from_millis(n)).queue("other"))
        .collect();
    mixed.on(&client).enqueue().await.expect("a bulk of delayed jobs");
    let counts = server.inspect().counts().await.expect("counted");
    assert_eq!((counts.waiting, counts.scheduled), (3002, 1));
    assert_eq!(server.client().inspect("other").counts().await.expect("counted").scheduled, 2001);
    server.client().control("limited").queue_limit().set_max_waiting(100).await.expect("set");
    let limit = server.client().control("limited").limit("draw_oldest").of_key("7");
    limit.pause().await.expect("paused");
    // The first finds room, the third a job that waits already.
    for page in [8, 7, 7] {
        let oldest = draw_oldest::with(page, 1).queue("limited").on(&client);
        oldest.enqueue().await.expect("enqueued");
    }
    enqueue_limited(&client).await;
    let by_name = client.job_by_name("act", r#"{"name":"n","plan":[]}"#).queue("limited");
    by_name.enqueue().await.expect("there is room");
    // `push` has parts that only workers reach; what is refused in it stands in the log.
    needs_what_it_has(&role, &server, &["schedule"], &[]);
    let limit = server.client().control("limited").limit("draw_newest").of_key("7");
    limit.pause().await.expect("paused");
    let newest = draw_newest::with(7).queue("limited").on(&client).enqueue().await;
    assert!(matches!(newest, Err(Error::Refused { .. })), "{newest:?}");

    may_not(
        &url,
        &[
            "LRANGE hworker-jobs-default 0 -1",
            "LPOP hworker-jobs-default",
            "RPOP hworker-jobs-default",
            "DEL hworker-jobs-default",
            "ZREM hworker-scheduled-default x",
            "HSET hworker-progress-default:w lease x",
            "HGETALL hworker-meta:queues",
            "ZADD hworker-workers-default 1 w",
            "EVAL return(redis.call('LRANGE',KEYS[1],0,-1)) 1 hworker-jobs-default",
            "SCAN 0",
            "INFO",
        ],
    );
    let read = client.inspect("default").failed(0, 1).await.expect_err("it may not look");
    assert!(matches!(read, Error::Refused { .. }), "{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_of_unique_jobs_reads_and_replaces_them_and_nothing_more() {
    let server = TestServer::start();
    let role = Role::named("hworker-unique-producer");
    let url = role.set_up(&server);
    let client = Client::new(&url).expect("a client");
    nothing("now").on(&client).enqueue().await.expect("enqueued");
    // Known by their ids: kept, put off, and replaced.
    let unique = |on_conflict, delay| {
        let job = nothing("unique").unique(Unique::by("k").on_conflict(on_conflict));
        job.queue("other").delay(delay).on(&client)
    };
    let (keep, replace) = (OnConflict::Keep, OnConflict::Replace);
    for on_conflict in [keep, replace, OnConflict::Reschedule, replace] {
        for delay in [Duration::ZERO, SOON] {
            unique(on_conflict, delay).enqueue().await.expect("submitted");
        }
    }
    nothing("each").on_each().queue("other").on(&client).enqueue().await.expect("enqueued");
    nothing("own").id("order-7").queue("other").on(&client).enqueue().await.expect("enqueued");
    let batch = hworker::Batch::new("import").add([nothing("member")]).on(&client);
    batch.on_settled(nothing("settled")).enqueue().await.expect("enqueued");
    let empty = hworker::Batch::new("empty").on(&client).on_settled(nothing("empty"));
    empty.enqueue().await.expect("enqueued, with its callback");
    let control = client.control("other").cron("daily");
    for expression in ["@daily", "@weekly"] {
        control.upsert(nothing("daily").cron(expression)).await.expect("set");
    }
    let denied = denials(&server);
    assert!(denied.is_empty(), "refused while it did its work: {denied:?}");
    may_not(&url, &["RPOP hworker-jobs-default", "LRANGE hworker-jobs-default 0 -1", "SCAN 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_of_bulks_that_come_all_or_none_needs_three_commands_more() {
    let server = TestServer::start();
    let url = Role::named("hworker-unique-producer").set_up(&server);
    let more = ["ACL", "SETUSER", "hworker-unique-producer", "+lrange", "+ltrim", "+persist"];
    let _: String = server.redis().ask(&more);
    let client = Client::new(&url).expect("a client");
    for delay in [Duration::ZERO, SOON] {
        let jobs = (0..2_500).map(|number| {
            let job = nothing("many").priority(Priority::High);
            if number % 2 == 0 { job } else { job.delay(delay) }
        });
        let bulk = Bulk::lazy(jobs).all_or_nothing().on(&client);
        assert_eq!(bulk.enqueue().await.expect("enqueued"), 2_500);
    }
    let twice = Bulk::lazy((0..2_500).map(|_| nothing("many")).chain([nothing("a").front()]));
    twice.all_or_nothing().on(&client).enqueue().await.expect_err("it is given up");
    let denied = denials(&server);
    assert!(denied.is_empty(), "refused while it did its work: {denied:?}");
    assert!(server.redis().keys("hworker-*:staged:*").len() == 2, "the marks of those that came");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_of_one_queue_that_delays_nothing_needs_one_command() {
    let server = TestServer::start();
    let url = Role::named("hworker-mail-producer").set_up(&server);
    let client = Client::new(&url).expect("a client");
    nothing("mail").queue("mail").on(&client).enqueue().await.expect("enqueued");
    for refused in [nothing("other"), nothing("later").queue("mail").delay(SOON)] {
        let error = refused.on(&client).enqueue().await.expect_err("not enqueued");
        assert!(matches!(error, Error::Refused { .. }), "{error}");
    }
    may_not(&url, &["LPUSH hworker-jobs-mail2 x", "LLEN hworker-jobs-mail", "EVAL return(1) 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_may_not_wait_says_so_and_looks() {
    // Without the right to leave an answer out -> jobs run, up to a second late, and the log says why.
    // Guard: what becomes of a refused wait in `intake/wait.rs`.
    let server = TestServer::start();
    let url = Role::named("hworker-worker").set_up(&server);
    let user = ["ACL", "SETUSER", "hworker-worker", "-client|reply"];
    let _: String = server.redis().ask(&user);
    let _worker = server.worker_process(&[("HWORKER_REDIS_URL", url.as_str())]);
    for name in ["first", "second", "third"] {
        server.enqueue(name, Vec::new()).await;
        server.eventually("it runs", SOON, || server.ended(name) == 1);
    }
    let said = || {
        let logs = super::secrets::logs(server.dir());
        logs.iter().map(|log| log.matches("does not let this worker wait").count()).sum::<usize>()
    };
    server.eventually("it is said", SOON, || said() > 0);
    assert_eq!(said(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_runs_retries_recovers_and_stops_and_nothing_more() {
    let server = TestServer::start();
    let role = Role::named("hworker-worker");
    let url = role.set_up(&server);
    let settings = [
        ("HWORKER_REDIS_URL", url.as_str()),
        ("HWORKER_CONCURRENCY", "4"),
        ("HWORKER_DEAD_AFTER", "2s"),
        ("HWORKER_FAILED_LIMIT", "1"),
        ("HWORKER_UNKNOWN_FOR", "1s"),
        ("HWORKER_SHUTDOWN_GRACE", "500ms"),
    ];
    let mut first = server.worker_process(&settings);
    server.enqueue("crash", vec![vec![Act::Kill], vec![]]).await;
    assert!(first.wait(SOON).is_some(), "it kills itself");
    let mut worker = server.worker_process(&settings);
    server.eventually("it is recovered", SOON, || server.ended("crash") == 1);

    let error = || vec![Act::Error("once more".into())];
    server.enqueue("retried", vec![error(), error(), vec![]]).await;
    server.enqueue("later again", vec![vec![Act::RetryIn(200)], vec![]]).await;
    server.enqueue("snoozed", vec![vec![Act::Snooze(100)], vec![]]).await;
    server.enqueue("enqueues", vec![vec![Act::Enqueue("by another".into())]]).await;
    let delayed = nothing("delayed").delay(Duration::from_millis(500)).on(server.client());
    delayed.enqueue().await.expect("scheduled");
    for _ in 0..2 {
        let fails = act_once::with("fails".into(), vec![vec![Act::Fail("no".into())]]);
        fails.on(server.client()).enqueue().await.expect("enqueued");
    }
    for broken in ["no envelope", "neither", r#"{"job":"unknown_to_all","args":{}}"#] {
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", broken]);
    }
    let each = act::with("each".into(), vec![error(), vec![Act::RetryIn(50)], vec![]]).on_each();
    each.on(server.client()).enqueue().await.expect("enqueued");
    let batch = hworker::Batch::new("import").add([nothing("member")]).on(server.client());
    let batch = batch.on_settled(nothing("settled").priority(Priority::High));
    batch.enqueue().await.expect("enqueued");
    enqueue_limited(server.client()).await;
    for name in ["each", "settled", "retried", "later again", "snoozed", "by another", "delayed"] {
        server.eventually(name, SOON, || server.ended(name) == 1);
    }
    server.eventually("those with limits", SOON, || server.ended("limited") == 4);
    server.eventually("failures", SOON, || server.counter("failed") == 2);
    server.eventually("broken ones", SOON, || server.counter("broken") == 3);

    // Stopped with something to give back.
    server.enqueue("held", vec![vec![Act::Gate("never".into())]]).await;
    server.eventually("it runs", SOON, || server.begun("held") == 1);
    worker.terminate();
    assert!(worker.wait(SOON).is_some_and(|status| status.success()));
    assert_eq!(server.inspect().counts().await.expect("counted").waiting, 1, "given back");

    let all: Vec<_> = SCRIPTS
        .iter()
        .copied()
        .map(|(name, _)| name)
        .filter(|name| {
            let tools = [
                "audit",
                "cancel",
                "cancel_broadcast",
                "cron",
                "edit",
                "limit",
                "lock",
                "mend_records",
                "order",
                "orphans",
                "recount",
                "recount_batch",
                "relist",
                "requeue_broken",
                "resume",
                "revoke",
                "set_aside",
                "submit",
                "unlock",
            ];
            !tools.contains(name) && *name != "read_set"
        })
        .collect();
    // More than 5,000 leases of one worker are read in chunks.
    // The inbox of a runtime that is stuck is given back by `LMOVE`.
    needs_what_it_has(&role, &server, &all, &["hscan", "lmove"]);
    may_not(
        &url,
        &["SCAN 0", "UNLINK hworker-jobs-default", "EVAL return(redis.call('KEYS','*')) 0"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observer_looks_and_changes_nothing() {
    let server = TestServer::start();
    let role = Role::named("hworker-observer");
    let url = role.set_up(&server);
    let client = Client::new(&url).expect("a client");
    let mut worker = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
    let fails = act_once::with("fails".into(), vec![vec![Act::Fail("no".into())]]);
    let failed = fails.on(server.client()).enqueue().await.expect("enqueued");
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", "no envelope"]);
    let running = server.enqueue("held", vec![vec![Act::Gate("end".into())]]).await;
    server.eventually("it runs", SOON, || server.begun("held") == 1);
    let pending = server.enqueue("pending", Vec::new()).await;
    let later = nothing("later").delay(Duration::from_secs(3600)).on(server.client());
    let later = later.enqueue().await.expect("scheduled");

    server.client().mark_deploy("ci", "1.4.2").await.expect("marked");

    let queue = client.inspect("default");
    let counts = queue.counts().await.expect("counts");
    assert_eq!((counts.running, counts.failed, counts.broken), (1, 1, 1));
    assert_eq!((counts.waiting, counts.scheduled), (1, 1));
    assert_eq!(queue.statistics(None).await.expect("statistics")["failed"], 1);
    assert_eq!(queue.workers().await.expect("workers")[0].running.len(), 1);
    assert_eq!(queue.failed(0, 10).await.expect("failed").len(), 1);
    let broken = queue.broken().await.expect("broken");
    assert_eq!(broken.len(), 1);
    for (id, is) in [(&failed, "Failed"), (&running, "Running"), (&pending, "Waiting")] {
        let found = queue.find(id).await.expect("looked for").expect("found");
        assert!(format!("{:?}", found.state).starts_with(is), "{:?}", found.state);
    }
    let found = queue.find(&later).await.expect("looked for").expect("found");
    assert_eq!(found.state, JobState::Scheduled);
    let groups = queue.groups().await.expect("groups");
    client.job_types().await.expect("the manifest");
    client.audit_log(10).await.expect("the audit");
    client.dead_workers().await.expect("the dead workers");
    assert_eq!(client.deploys().await.expect("the deploys")[0].text, "1.4.2");
    client.control("default").limits().await.expect("the limits");
    client.control("default").broadcasts().await.expect("those for each worker");
    assert_eq!(groups[0].count, 1);
    let held = &queue.jobs(JobState::Running).page().await.expect("a page").items[0];
    assert_eq!(held.id.as_ref(), Some(&running));
    needs_what_it_has(&role, &server, READS, &[]);
    let queues = client.queues().await.expect("those that were registered, without SCAN");
    assert_eq!(queues.iter().map(|queue| &*queue.name).collect::<Vec<_>>(), ["default"]);

    let refused = [
        queue.revoke(&running).await,
        queue.delete_broken(&broken[0].payload).await,
        queue.requeue_broken(&broken[0].payload).await,
        queue.change_by_id(&failed, &Action::Retry).await,
        queue.destroy(true).await.map(drop),
        nothing("no").on(&client).enqueue().await.map(drop),
        client.mark_deploy("ada", "1.4.3").await.map(drop),
    ];
    for error in refused {
        assert!(matches!(error, Err(Error::Refused { .. })), "{error:?}");
    }
    let write = [
        "DEL hworker-jobs-default",
        "LPUSH hworker-jobs-default x",
        "EVAL return(redis.call('LPUSH',KEYS[1],'x')) 1 hworker-jobs-default",
    ];
    may_not(&url, &write);
    worker.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_mends_and_nothing_more() {
    let server = TestServer::start();
    let role = Role::named("hworker-operator");
    let url = role.set_up(&server);
    let client = Client::new(&url).expect("a client");
    let queue = client.inspect("default");
    for broken in ["one", "another"] {
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", broken]);
    }
    let mut worker = server.worker_process(&[("HWORKER_CONCURRENCY", "1")]);
    server.eventually("both are broken", SOON, || server.counter("broken") == 2);
    let held = server.enqueue("held", vec![vec![Act::Gate("end".into())]]).await;
    server.eventually("it runs", SOON, || server.begun("held") == 1);

    queue.counts().await.expect("what an observer may");
    queue.statistics(None).await.expect("what an observer may");
    queue.workers().await.expect("what an observer may");
    queue.find(&held).await.expect("what an observer may").expect("found");
    queue.failed(0, 1).await.expect("what an observer may");
    queue.revoke(&held).await.expect("revoked");
    server.eventually("it runs anew", SOON, || server.begun("held") == 2);
    let each = nothing("each").on_each().on(&client).enqueue().await.expect("enqueued");
    client.control("default").cancel_broadcast(&each).await.expect("cancelled");
    queue.requeue_broken(b"one").await.expect("put back");
    queue.delete_broken(b"another").await.expect("deleted");
    let entry = AuditEntry::new("ada", "promote", "default", "a job");
    client.audit(&entry).await.expect("written");
    assert_eq!(client.audit_log(10).await.expect("the audit")[0].who, "ada");
    client.mark_deploy("ada", "1.4.2").await.expect("marked");
    assert_eq!(client.deploys().await.expect("the deploys")[0].who, "ada");
    let types = client.job_types().await.expect("the manifest");
    assert!(types.iter().any(|job| job.name == "act"));
    let waits = server.enqueue("waits", Vec::new()).await;
    queue.change_by_id(&waits, &Action::Promote).await.expect("promoted");
    let later = Action::Reschedule(When::In(Duration::from_secs(3600)));
    queue.change_by_id(&waits, &later).await.expect("rescheduled");
    queue.change_by_id(&waits, &Action::MoveTo("other".into())).await.expect("moved");
    let control = client.control("default");
    control.pause().await.expect("paused");
    assert!(control.paused().await.expect("asked").is_some());
    assert!(control.resume().await.expect("resumed"));
    let keys = control.limit("act_of_key");
    keys.set(3).await.expect("set");
    keys.of_key("k").pause().await.expect("paused");
    control.queue_limit().set(9).await.expect("set");
    control.job("act").pause().await.expect("paused");
    assert_eq!(control.limits().await.expect("limits").iter().filter(|it| it.is_set).count(), 2);
    assert!(control.job("act").resume().await.expect("resumed"));
    assert!(
        keys.unset().await.expect("unset") && control.queue_limit().unset().await.expect("unset")
    );
    let nightly = control.cron("nightly");
    nightly.upsert(nothing("nightly").cron("0 2 * * *")).await.expect("set");
    assert!(nightly.pause().await.expect("paused") && nightly.resume().await.expect("resumed"));
    nightly.run_now().await.expect("run").expect("taken");
    assert_eq!(nightly.history().await.expect("its runs").len(), 1);
    nightly.remove().await.expect("removed");
    let tables = control.tables().await.expect("listed");
    control.pin_table(&tables[0].app, &tables[0].hash).await.expect("pinned");
    assert!(control.unpin_table(&tables[0].app).await.expect("unpinned"));
    assert_eq!(client.workers_of_label("nobody").quiet().await.expect("ordered"), 0);
    let workers = queue.workers().await.expect("workers");
    assert_eq!(client.worker(&workers[0].id).quiet().await.expect("ordered"), 1);
    worker.kill();
    assert!(queue.destroy(true).await.expect("destroyed") > 0);
    // Repairs are tested beside the doctor.
    let changes = [
        "audit",
        "broadcast",
        "cancel",
        "cancel_broadcast",
        "cron",
        "fire",
        "requeue_broken",
        "revoke",
        "edit",
        "mend_records",
        "orphans",
        "recount",
        "relist",
        "promote",
        "set_aside",
        "order",
        "pause",
        "resume",
        "limit",
        "unlock",
    ];
    let scripts = [READS, &changes].concat();
    needs_what_it_has(&role, &server, &scripts, &["type", "renamenx", "zcount"]);
    may_not(&url, &["RPOP hworker-jobs-default", "UNLINK accounts"]);
}
