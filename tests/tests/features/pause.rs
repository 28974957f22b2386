//! Rows G1, G2 and CT1: pausing queues.

use std::time::Duration;

use hworker::{Control, Priority};
use hworker_tests::{Act, InProcess, Machine, TestServer, act};

use crate::SOON;

/// Longer than a heartbeat takes to bring what was lost.
const LONG: Duration = Duration::from_millis(2_500);

fn control(server: &TestServer, queue: &str) -> Control {
    server.client().control(queue)
}

fn job(server: &TestServer, name: &str) -> hworker::Enqueue<act> {
    act::with(name.to_owned(), Vec::new()).on(server.client())
}

#[tokio::test(flavor = "multi_thread")]
async fn g1_ct1_pause_and_resume() {
    // What runs finishes, nothing starts anywhere, enqueue goes on; a worker that starts later is paused too; resume -> all run. To do either
    // twice is no error.
    // Guard: `paused` in reserve.lua: a worker waits at the server when the queue is paused (fault 16), and gets the next job.
    let server = TestServer::start();
    let first = InProcess::run(server.worker().register::<act>().concurrency(4));
    let gate = act::with("held".into(), vec![vec![Act::Gate("go".into())]]);
    gate.on(server.client()).enqueue().await.expect("enqueued");
    server.eventually("it runs", SOON, || server.begun("held") == 1);
    let mail = control(&server, "default");
    assert_eq!(mail.paused().await.expect("asked"), None);
    for _ in 0..2 {
        mail.pause().await.expect("paused");
    }
    let paused = mail.paused().await.expect("asked").expect("paused");
    assert_eq!(paused.until, None);
    let names = ["plain", "urgent", "low", "delayed", "front"];
    job(&server, "plain").enqueue().await.expect("enqueued");
    job(&server, "urgent").priority(Priority::Highest).enqueue().await.expect("enqueued");
    job(&server, "low").priority(Priority::Low).enqueue().await.expect("enqueued");
    job(&server, "delayed").delay(Duration::from_millis(50)).enqueue().await.expect("enqueued");
    job(&server, "front").front().enqueue().await.expect("enqueued");
    let second = InProcess::run(server.worker().register::<act>().concurrency(4));
    server.open("go");
    server.eventually("what ran is done", SOON, || server.ended("held") == 1);
    server.holds("nothing starts", LONG, || names.iter().all(|name| server.begun(name) == 0));
    let counts = server.inspect().counts().await.expect("counts");
    assert_eq!((counts.waiting, counts.scheduled, counts.running), (5, 0, 0), "timers go on");

    assert!(mail.resume().await.expect("resumed"));
    server.eventually("all run", SOON, || names.iter().all(|name| server.ended(name) == 1));
    assert!(!mail.resume().await.expect("no error"), "it was not paused");
    assert!(first.is_alive() && second.is_alive());
    server.drained(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn ct1_a_pause_is_durable_and_recovery_goes_on() {
    // The worker dies, others come; figures are cleared and the token is deleted by hand (fault 13): the queue stays paused.
    // Guard: the mark in heartbeat.lua.
    let server = TestServer::start();
    let kill = act::with("crashed".into(), vec![vec![Act::Gate("never".into())], vec![]]);
    kill.on(server.client()).enqueue().await.expect("enqueued");
    let mut first = server.worker_process(&[]);
    server.eventually("it runs", SOON, || server.begun("crashed") == 1);
    let mail = control(&server, "default");
    mail.pause().await.expect("paused");
    let _second = server.worker_process(&[]);
    first.kill();
    let waiting = || server.redis().len("hworker-jobs-default") == 1;
    server.eventually("it is recovered", 2 * SOON, waiting);
    let _: u64 = server.redis().ask(&["DEL", "hworker-stat-default"]);
    server.holds("and does not start", LONG, || server.begun("crashed") == 1);
    let _: u64 = server.redis().ask(&["DEL", "hworker-token-default"]);
    let token = || -> Option<String> { server.redis().ask(&["GET", "hworker-token-default"]) };
    server.eventually("heartbeats mark it again", SOON, || token().is_some());
    job(&server, "late").enqueue().await.expect("enqueued");
    server.holds("nothing starts", LONG, || server.begun("late") + server.begun("crashed") == 1);
    assert!(mail.resume().await.expect("resumed"));
    server.eventually("both run", SOON, || server.ended("late") + server.ended("crashed") == 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn g2_one_queue_of_several() {
    // The others go on, in the same worker.
    let server = TestServer::start();
    let worker = server.worker().register::<act>().queues(["+a", "+b"]).concurrency(2);
    let _worker = InProcess::run(worker);
    control(&server, "a").pause().await.expect("paused");
    for number in 0..20 {
        for queue in ["a", "b"] {
            let name = format!("{queue}{}", number % 2);
            job(&server, &name).queue(queue).enqueue().await.expect("enqueued");
        }
    }
    server.eventually("the other runs", SOON, || server.ended("b0") + server.ended("b1") == 20);
    assert_eq!(server.begun("a0") + server.begun("a1"), 0);
    let queues = server.client().queues().await.expect("queues");
    let paused: Vec<_> =
        queues.iter().map(|queue| (&*queue.name, queue.paused.is_some())).collect();
    // The worker serves that of its own jobs too.
    assert_eq!(paused, [("a", true), ("b", false), ("default", false)]);
    control(&server, "a").resume().await.expect("resumed");
    server.eventually("then it", SOON, || server.ended("a0") + server.ended("a1") == 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_for_some_time_ends_by_itself() {
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<act>().concurrency(2));
    let mail = control(&server, "default");
    assert!(mail.pause_for(Duration::ZERO).await.is_err());
    mail.pause_for(Duration::from_millis(1_500)).await.expect("paused");
    let until = mail.paused().await.expect("asked").expect("paused").until.expect("a time");
    job(&server, "later").enqueue().await.expect("enqueued");
    server.eventually("it runs", SOON, || server.ended("later") == 1);
    assert!(server.runs_of("later")[0].at / 1000 >= until, "not before");
    assert_eq!(mail.paused().await.expect("asked"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_paused_and_what_comes_later_too() {
    let server = TestServer::start();
    let client = server.client();
    job(&server, "known").queue("known").enqueue().await.expect("enqueued");
    control(&server, "nobody-knows").pause().await.expect("accepted");
    let listed = client.list_queues().await.expect("listed");
    assert!(listed.iter().any(|name| name == "nobody-knows"), "{listed:?}");
    client.pause_all(None).await.expect("paused");
    let worker = server.worker().register::<act>().queues(["+known", "+later", "+nobody-knows"]);
    let _worker = InProcess::run(worker.concurrency(2));
    let queues = ["known", "later", "nobody-knows"];
    for queue in queues {
        job(&server, queue).queue(queue).enqueue().await.expect("enqueued");
    }
    server.holds("nothing starts", LONG, || queues.iter().all(|name| server.begun(name) == 0));
    // The three, and that of the worker's own jobs.
    assert_eq!(client.resume_all().await.expect("resumed"), 4);
    server.eventually("all run", SOON, || {
        server.ended("known") == 2 && server.ended("later") + server.ended("nobody-knows") == 2
    });
    assert_eq!(client.resume_all().await.expect("no error"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_paused_once() {
    // One queue of all that are paused is resumed -> a worker that starts later does not pause it again; one that was paused for ever is not
    // resumed by the end of a pause of all.
    // Guard: `order` in pause.lua.
    let server = TestServer::start();
    let client = server.client();
    let (resumed, for_ever) = (control(&server, "resumed"), control(&server, "for-ever"));
    for_ever.pause().await.expect("paused");
    job(&server, "known").queue("resumed").enqueue().await.expect("enqueued");
    client.pause_all(Some(Duration::from_secs(3600))).await.expect("paused");
    assert!(for_ever.paused().await.expect("asked").expect("paused").until.is_none());
    assert!(resumed.resume().await.expect("resumed"));
    let worker = server.worker().register::<act>().queues(["+resumed", "+later"]);
    let _worker = InProcess::run(worker.concurrency(2));
    server.eventually("it runs", SOON, || server.ended("known") == 1);
    server
        .eventually_async("what comes later is paused", SOON, async || {
            control(&server, "later").paused().await.expect("asked").is_some()
        })
        .await;
    assert!(resumed.paused().await.expect("asked").is_none());
    client.pause_all(None).await.expect("paused");
    assert!(resumed.paused().await.expect("asked").is_some(), "by another order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_is_not_polled_and_resumes_at_once() {
    // Guard: the wait at the gate.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<act>().concurrency(2));
    let mail = control(&server, "default");
    mail.pause().await.expect("paused");
    for number in 0..5 {
        job(&server, &number.to_string()).enqueue().await.expect("enqueued");
    }
    let calls = || -> u64 {
        let stats: String = server.redis().ask(&["INFO", "commandstats"]);
        let moves = stats.lines().filter(|line| line.starts_with("cmdstat_blmove:"));
        let count =
            |line: &str| line.split(['=', ',']).nth(1).and_then(|calls| calls.parse::<u64>().ok());
        moves.filter_map(count).sum()
    };
    server.eventually("it waits at the gate", SOON, || {
        let clients: String = server.redis().ask(&["CLIENT", "LIST"]);
        clients.contains("cmd=blmove")
    });
    let before = calls();
    tokio::time::sleep(LONG).await;
    let waits = calls() - before;
    assert!(waits <= 3, "{waits} waits in {LONG:?}");
    let began = std::time::Instant::now();
    mail.resume().await.expect("resumed");
    server.eventually("all run", SOON, || {
        (0..5).all(|number: u32| server.ended(&number.to_string()) == 1)
    });
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_made_of_the_keys_of_a_pause_holds_up_no_job() {
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().register::<act>().concurrency(2));
    for (number, words) in [
        &["HSET", "hworker-jobs-default:control", "paused", "for ever"][..],
        &["SET", "hworker-jobs-default:control", "text"],
        &["RPUSH", "hworker-jobs-default:gate", "!", "!", "no ticket"],
        &["SET", "hworker-jobs-default:gate", "text"],
    ]
    .into_iter()
    .enumerate()
    {
        let _: redis::Value = server.redis().ask(words);
        let _: String = server.redis().ask(&["SET", "hworker-token-default", "1+"]);
        let name = format!("runs-{number}");
        job(&server, &name).enqueue().await.expect("enqueued");
        server.eventually("it runs", SOON, || server.ended(&name) == 1);
        let keys = ["hworker-jobs-default:control", "hworker-jobs-default:gate"];
        let _: u64 = server.redis().ask(&["DEL", keys[0], keys[1]]);
    }
}
