//! Looking into a queue while it is busy.

use std::time::Duration;

use hworker::{Client, JobId, JobState};
use hworker_tests::{Act, Fault, InProcess, Proxy, Records as _, TestServer, act};

use crate::SOON;

fn envelope(number: usize, padding: usize) -> String {
    let text = "x".repeat(padding);
    format!(r#"{{"v":1,"id":"job-{number}","job":"elsewhere","args":{{"text":"{text}"}}}}"#)
}

/// Jobs that nobody takes, 0 at the front.
fn fill(server: &TestServer, jobs: usize) {
    let mut push = redis::cmd("LPUSH");
    push.arg("hworker-jobs-default");
    for number in 0..jobs {
        push.arg(envelope(number, 10));
    }
    server.redis().run::<u64>(&push).expect("pushed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_found_while_those_before_it_are_taken() {
    // 700 are taken between two portions of a search: what stood behind them is found by the same search.
    // Guard: `find` goes from the back to the front.
    let server = TestServer::start();
    fill(&server, 1200);
    let proxy = Proxy::before(&server);
    let client = Client::new(proxy.url()).expect("a client");
    proxy.fault(3, "read_list", Fault::HoldRequest);
    let search = tokio::spawn(async move {
        client.inspect("default").find(&JobId::from("job-800")).await.expect("asked")
    });
    server.eventually("the third portion is asked for", SOON, || proxy.held() == 1);
    let taken: Vec<String> = server.redis().ask(&["RPOP", "hworker-jobs-default", "700"]);
    assert_eq!(taken.len(), 700);
    proxy.release();
    let found = search.await.expect("no panic").expect("it is there");
    assert!(matches!(found.state, JobState::Waiting), "{found:?}");
    // Two of the search, and one of what the job reports.
    assert_eq!(proxy.count("HGET"), 3, "by the first search");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_found_while_those_that_are_due_before_it_leave() {
    // The same of those that wait for a time.
    // Guard: `find` goes from the last to the first.
    let server = TestServer::start();
    let mut add = redis::cmd("ZADD");
    add.arg("hworker-scheduled-default");
    for number in 0..1200 {
        add.arg(4_000_000_000_000 + number).arg(envelope(number, 10));
    }
    server.redis().run::<u64>(&add).expect("added");
    let proxy = Proxy::before(&server);
    let client = Client::new(proxy.url()).expect("a client");
    proxy.fault(3, "read_set", Fault::HoldRequest);
    let search = tokio::spawn(async move {
        client.inspect("default").find(&JobId::from("job-750")).await.expect("asked")
    });
    server.eventually("the third portion is asked for", SOON, || proxy.held() == 1);
    let _: u64 = server.redis().ask(&["ZREMRANGEBYRANK", "hworker-scheduled-default", "0", "699"]);
    proxy.release();
    let found = search.await.expect("no panic").expect("it is there");
    assert!(found.state == JobState::Scheduled && found.at == Some(4_000_000_000_750), "{found:?}");
    // Two of the search, and one of what the job reports.
    assert_eq!(proxy.count("HGET"), 3, "by the first search");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_handed_over_is_seen() {
    // In the inbox of a worker that has not taken it: it counts as running, and is found there.
    // Guard: `Queue::counts` and `Queue::running` look into inboxes.
    let server = TestServer::start();
    {
        let mut redis = server.redis();
        let now = redis.time_us() / 1000;
        let _: u64 = redis.ask(&["ZADD", "hworker-workers-default", &now.to_string(), "w.1"]);
        let record = ["HSET", "hworker-worker-default:w.1", "session", "1", "dead_after", "60000"];
        let _: u64 = redis.ask(&record);
        let _: u64 = redis.ask(&["LPUSH", "hworker-inbox-default:w.1", &envelope(1, 1)]);
        let _: u64 = redis.ask(&["HSET", "hworker-progress-default:w.1", "5", &envelope(2, 1)]);
    }
    let queue = server.inspect();
    let counts = queue.counts().await.expect("counts");
    assert_eq!((counts.running, counts.waiting), (2, 0));
    for id in ["job-1", "job-2"] {
        let found = queue.find(&JobId::from(id)).await.expect("asked").expect("found");
        assert!(
            found.state == JobState::Running && found.worker.as_deref() == Some("w.1"),
            "{found:?}"
        );
    }
    let workers = queue.workers().await.expect("workers");
    let mut running: Vec<_> = workers[0]
        .running
        .iter()
        .filter_map(|job| job.id.clone())
        .map(|id| id.to_string())
        .collect();
    running.sort_unstable();
    assert_eq!(running, ["job-1", "job-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_payloads_are_read_a_few_at_a_time() {
    // 64 jobs of 1 MiB: no reply has more than one. And as broken payloads.
    // Guard: `bytes` of `read_list.lua` and `read_hash.lua`.
    let server = TestServer::start();
    for number in 0..64 {
        let (waiting, broken) = (envelope(number, 1 << 20), envelope(64 + number, 1 << 20));
        let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", &waiting]);
        let _: u64 = server.redis().ask(&["HSET", "hworker-broken-default", &broken, "1 1 x"]);
    }
    let proxy = Proxy::before(&server);
    let queue = Client::new(proxy.url()).expect("a client").inspect("default");
    assert!(queue.find(&JobId::from("job-3")).await.expect("asked").is_some());
    assert!(proxy.count("read_list") > 60, "{}", proxy.count("read_list"));
    assert_eq!(queue.broken().await.expect("asked").len(), 64);
    assert!(proxy.count("read_hash") >= 2 * 64, "{}", proxy.count("read_hash"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_look_holds_up_no_enqueue() {
    // While the answer of a search is on its way, an enqueue of the same client is not behind it.
    // Guard: `Purpose::Inspect`.
    let server = TestServer::start();
    fill(&server, 10);
    let proxy = Proxy::before(&server);
    let client = Client::new(proxy.url()).expect("a client");
    proxy.fault(1, "read_list", Fault::HoldReply);
    let looking = client.clone();
    let search = tokio::spawn(async move {
        looking.inspect("default").find(&JobId::from("job-3")).await.expect("asked")
    });
    server.eventually("it is under way", SOON, || proxy.held() == 1);
    let job = act::with("beside".into(), Vec::new()).on(&client);
    let enqueued = tokio::time::timeout(Duration::from_secs(2), job.enqueue()).await;
    enqueued.expect("not behind the search").expect("enqueued");
    proxy.release();
    assert!(search.await.expect("no panic").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_failed_jobs_are_listed_in_pages() {
    // 45 failures, in pages of 10 -> 10, 10, 10, 10, 5, and nothing; no id twice, the newest first.
    // Guard: a page goes on behind the last row of the one before.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<act>().concurrency(1));
    let mut ids = Vec::new();
    for _ in 0..45 {
        ids.push(server.enqueue("fails", vec![vec![Act::Failure("no".into())]]).await.to_string());
    }
    server.eventually("all have failed", SOON, || server.counter("failed") == 45);
    let (mut listed, mut pages) = (Vec::new(), Vec::new());
    let queue = server.inspect();
    let mut asked = queue.jobs(JobState::Failed).limit(10);
    loop {
        let page = asked.page().await.expect("a page");
        pages.push(page.items.len());
        assert_eq!((page.total, page.complete), (45, true));
        listed.extend(page.items.into_iter().map(|job| job.id.expect("an id").to_string()));
        let Some(next) = page.next else { break };
        asked = asked.after(next);
    }
    assert_eq!(pages, [10, 10, 10, 10, 5]);
    listed.reverse();
    assert_eq!(listed, ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_runs_again_from_its_record() {
    // The envelope of a record is pushed to the queue -> the job runs again with its id, arguments and last attempt's number.
    // Guard: `JobInfo::payload` is the envelope that stands in the record, unchanged.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<act>());
    let id = server.enqueue("fails first", vec![vec![Act::Failure("no".into())], vec![]]).await;
    server.eventually("it has failed", SOON, || server.counter("failed") == 1);
    let failed = server.inspect().failed(0, 1).await.expect("the records").remove(0);
    server.redis().ask::<u64>(&["LPUSH", "hworker-jobs-default", failed.envelope()]);
    server.eventually("it has run again", SOON, || server.begun("fails first") == 2);
    let runs = server.runs_of("fails first");
    assert!(runs.iter().all(|run| run.id == id.as_str() && run.attempt == 1), "{runs:?}");
}

#[test]
fn everything_that_is_awaited_may_move_between_threads() {
    // As a request handler needs it.
    fn is_send(_: impl Send) {}
    let client = Client::new("redis://127.0.0.1:1").expect("a client");
    let (queue, id) = (client.inspect("default"), JobId::from("1"));
    is_send(queue.counts());
    is_send(queue.statistics(None));
    is_send(queue.workers());
    is_send(queue.find(&id));
    let failed = queue.jobs(JobState::Failed);
    is_send(failed.page());
    is_send(queue.groups());
    is_send(queue.change(&[], &hworker::Action::Retry));
    is_send(queue.change_by_id(&id, &hworker::Action::Delete));
    is_send(queue.requeue_broken(b"{"));
    is_send(queue.delete_broken(b"{"));
    is_send(queue.revoke(&id));
    is_send(queue.destroy(false));
    let job = || act::with("name".into(), Vec::new());
    is_send(job().enqueue());
    is_send(job().delay(Duration::from_secs(1)).enqueue());
    is_send(act::enqueue("name".into(), Vec::new()));
    is_send(hworker::Bulk::from_iter([job()]).enqueue());
    is_send(hworker::run_all());
}
