//! Much at once, and little room: large leases, many deaths, few connections, few slots.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use hworker_tests::{Act, InProcess, Machine, Proxy, Runs, TestServer, act, act_blocking};

use crate::support::{
    Dead, SOON, begins, counter, envelope, ms_between, now_us, put, serving, time_until,
    wait_for_workers,
};

#[test]
fn a_dead_worker_with_large_jobs() {
    // A worker died that held 32 jobs of 1 MB, and younger ones that are small -> all run, and no call moves much more than 1 MB.
    // Guard: a recovery is cut into chunks by the bytes of what is in them.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let dead = Dead { server: &server, id: "dead.1" };
    let filler = "x".repeat(1_000_000);
    for number in 1..=32 {
        let plan = [vec![], vec![Act::Note(filler.clone())]];
        dead.holds(&number.to_string(), &envelope("large", &plan));
    }
    for number in 33..=64 {
        dead.holds(&number.to_string(), &envelope("small", &[]));
    }
    dead.last_heard(6_000);
    let _worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
    let all = || server.ended("large") == 32 && server.ended("small") == 32;
    server.eventually("all run", 2 * SOON, all);
    server.drained(SOON);
    assert!(proxy.count("recover") >= 32, "{} calls", proxy.count("recover"));
    assert_eq!((server.begun("large"), counter(&server, "recovered")), (32, 64));
}

#[test]
fn many_workers_die_at_once() {
    // 1,000 workers die at once -> all their jobs are back within about 8 s, over a few connections.
    // Guard: a monitor recovers a few at a time, and reads the records of all in one write.
    let _machine = Machine::claim();
    let server = TestServer::start();
    let _worker = server.worker_process(&[]);
    wait_for_workers(&server, 1);
    let ids: Vec<_> = (0..1_000).map(|number| format!("dead.{number}")).collect();
    for id in &ids {
        let dead = Dead { server: &server, id };
        dead.holds("1", &envelope("job", &[]));
        dead.last_heard(0);
    }
    let mut most = 0;
    let took = time_until(&server, "all run", 2 * SOON, || {
        let clients: String = server.redis().ask(&["INFO", "clients"]);
        let clients = clients.lines().find_map(|line| line.strip_prefix("connected_clients:"));
        most = most.max(clients.and_then(|count| count.trim().parse().ok()).unwrap_or(0));
        server.ended("job") == 1_000
    });
    println!("1,000 dead workers were recovered within {took:?}, with {most} connections at most");
    assert!(took < Duration::from_secs(12) && most < 30, "{took:?}, {most}");
    server.drained(SOON);
    assert_eq!((server.begun("job"), counter(&server, "recovered")), (1_000, 1_000));
}

#[test]
fn every_worker_watches_and_one_of_them_recovers() {
    // Workers die beside eight others -> whoever declares one dead makes a connection for what it held, and whoever looks after the
    // dead at most another; the rest sees that it is done. Those that a fleet loses at once would otherwise cost the square of its size.
    // Guard: `monitor::recover` connects only behind a mark of its own.
    let server = TestServer::start();
    let _workers: Vec<_> = (0..8).map(|_| server.worker_process(&[])).collect();
    wait_for_workers(&server, 8);
    let received = || number_in(&server, "stats", "total_connections_received");
    let ids: Vec<_> = (0..20).map(|number| format!("dead.{number}")).collect();
    for id in &ids {
        let dead = Dead { server: &server, id };
        dead.holds("1", &envelope("job", &[]));
        dead.last_heard(0);
    }
    let before = received();
    server.eventually("all run", 2 * SOON, || server.ended("job") == 20);
    // Each of the eight has looked again meanwhile.
    let beats = number_in(&server, "commandstats", "cmdstat_zadd:calls");
    let beat = || number_in(&server, "commandstats", "cmdstat_zadd:calls") >= beats + 16;
    server.eventually("they beat twice", SOON, beat);
    let made = received() - before;
    println!("20 dead workers, watched by 8, took {made} connections");
    assert!((1..=45).contains(&made), "{made}");
    assert_eq!((server.begun("job"), counter(&server, "recovered")), (20, 20));
}

#[test]
fn whoever_finds_a_worker_dead_first_may_get_no_connection() {
    // The password of the worker that keeps the timer has changed: the connections that it has go on, it gets no others. Workers
    // die, and in part it is the first to find that out -> the other gives back what they held.
    // Guard: `unfinished`, after `OTHERS_LOOK_AFTER`.
    let server = TestServer::start();
    let rules = ["ACL", "SETUSER", "jobs", "on", ">first", "~*", "&*", "+@all"];
    let _: String = server.redis().ask(&rules);
    let url = format!("{}?user=jobs&pass=first", server.url());
    let _keeper = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
    let kept = || -> Option<String> { server.redis().ask(&["GET", "hworker-timer-default"]) };
    server.eventually("it keeps the timer", SOON, || kept().is_some());
    let _other = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    let _: String = server.redis().ask(&["ACL", "SETUSER", "jobs", "resetpass", ">second"]);
    for number in 0..20 {
        let id = format!("dead.{number}");
        let dead = Dead { server: &server, id: &id };
        dead.holds("1", &envelope("job", &[]));
        dead.last_heard(0);
    }
    server.eventually("all run", 3 * SOON, || server.ended("job") == 20);
    assert_eq!((server.begun("job"), counter(&server, "recovered")), (20, 20));
}

#[test]
fn a_user_with_the_rights_of_an_earlier_version_recovers() {
    // The worker's user may not call `HSTRLEN`, which came later than others -> it recovers jobs all the same.
    // Guard: `monitor::give_back` takes each by itself then.
    let server = TestServer::start();
    let rules = ["ACL", "SETUSER", "jobs", "on", ">first", "~*", "&*", "+@all", "-hstrlen"];
    let _: String = server.redis().ask(&rules);
    let dead = Dead { server: &server, id: "dead.1" };
    for number in 1..=20 {
        dead.holds(&number.to_string(), &envelope("job", &[]));
    }
    dead.last_heard(6_000);
    let url = format!("{}?user=jobs&pass=first", server.url());
    let _worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
    server.eventually("all run", SOON, || server.ended("job") == 20);
    assert_eq!((server.begun("job"), counter(&server, "recovered")), (20, 20));
}

#[test]
fn who_died_today_costs_one_worker() {
    // 900 workers have ended within the day -> whoever keeps the timer looks after them, and a worker that starts reads of
    // none of them. A fleet that is rolled out often would otherwise spend its server on its own past.
    // Guard: `everyone` in `heartbeat.lua`.
    let server = TestServer::start();
    let _first = server.worker_process(&[]);
    wait_for_workers(&server, 1);
    let keeper = || -> Option<String> { server.redis().ask(&["GET", "hworker-timer-default"]) };
    server.eventually("it keeps the timer", SOON, || keeper().is_some());
    let first = keeper();
    for number in 0..900 {
        let id = format!("dead.{number}");
        Dead { server: &server, id: &id }.last_heard(3_600_000);
        let record = format!("hworker-worker-default:{id}");
        let _: u64 = server.redis().ask(&["HSET", &record, "dead", "1"]);
    }
    let _: String = server.redis().ask(&["CONFIG", "RESETSTAT"]);
    let _second = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    let calls = |of: &str| number_in(&server, "commandstats", &format!("cmdstat_{of}:calls"));
    server.eventually("both have beaten", SOON, || calls("zadd") >= 8);
    // Each heartbeat has one of its own.
    let read = calls("hmget");
    println!("{read} records were read over {} heartbeats", calls("zadd"));
    assert!(read < 100, "{read}");
    assert_eq!(keeper(), first);
}

/// A number of `INFO`: of a line, or behind a colon of one of its fields.
fn number_in(server: &TestServer, section: &str, name: &str) -> u64 {
    let info: String = server.redis().ask(&["INFO", section]);
    let (line, field) = name.split_once(':').unwrap_or((name, ""));
    let value = info.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'));
    let of_field = |value: &str| {
        let mut fields = value.trim().split(',');
        fields.find_map(|part| Some(part.strip_prefix(field)?.trim_start_matches('=').to_owned()))
    };
    value.and_then(of_field).and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[test]
fn no_connection_is_to_be_had() {
    // The server has all the clients that it takes -> a worker that starts waits for a place, as one that runs does.
    // Guard: too many clients pass, as what else keeps a server busy.
    let server = TestServer::builder().arg("--maxclients", "40").start();
    let socket = server.process().socket().to_owned();
    // Known before the server is full.
    assert_eq!(counter(&server, "processed"), 0);
    let taken: Vec<_> = (0..39).map(|_| UnixStream::connect(&socket).expect("a place")).collect();
    let mut worker = server.worker_process(&[]);
    server.holds("it waits", Duration::from_secs(3), || worker.exited().is_none());
    drop(taken);
    wait_for_workers(&server, 1);
    put(&server, "job", vec![]);
    server.eventually("it runs", SOON, || server.ended("job") == 1);
}

#[test]
fn no_further_connection_is_to_be_had() {
    // The password of a worker's user has changed, and the connection on which the idle worker waits is lost: those that it
    // has go on, it gets no other -> it starts jobs within about a second all the same, and says why it is late. When it gets
    // one, it waits for jobs again.
    // Guard: `wait::run` has the loop that fetches look when no connection can be made.
    let server = TestServer::start();
    let rules = ["ACL", "SETUSER", "jobs", "on", ">first", "~*", "&*", "+@all"];
    let _: String = server.redis().ask(&rules);
    let url = format!("{}?user=jobs&pass=first", server.url());
    let worker = server.worker_process(&[("HWORKER_REDIS_URL", &url)]);
    let wait = || -> Option<String> {
        let clients: String = server.redis().ask(&["CLIENT", "LIST"]);
        let waits = clients.lines().find(|client| client.contains(" cmd=blmove "))?;
        Some(waits.split_whitespace().next()?.strip_prefix("id=")?.to_owned())
    };
    server.eventually("it waits", SOON, || wait().is_some());
    let _: String = server.redis().ask(&["ACL", "SETUSER", "jobs", "resetpass", ">second"]);
    let id = wait().expect("it waits");
    let _: u64 = server.redis().ask(&["CLIENT", "KILL", "ID", &id]);
    server.eventually("it is killed", SOON, || wait().is_none());
    for name in ["first", "second"] {
        put(&server, name, vec![]);
        server.eventually("it runs", Duration::from_secs(3), || server.ended(name) == 1);
    }
    let log = || std::fs::read_to_string(server.dir().join("process-0.log")).expect("the log");
    server.eventually("it says so", SOON, || log().contains("no connection for that"));
    assert_eq!(log().matches("no connection for that").count(), 1, "{}", log());

    let _: String = server.redis().ask(&["ACL", "SETUSER", "jobs", ">first"]);
    server.eventually("it waits again", SOON, || wait().is_some());
    drop(worker);
}

/// What a body does that shows all the time that it runs.
fn steps() -> Vec<Act> {
    (0..400).flat_map(|step| [Act::Sleep(50), Act::Note(format!("step {step}"))]).collect()
}

#[test]
fn cancel_on_disconnect_while_the_supervisor_settles() {
    // A worker is cut off, and while its supervisor waits for the server with a settlement of its own, for a body that
    // blocks a thread, the other bodies are stopped in time all the same.
    // Guard: `cancel_on_disconnect` runs apart from what waits for the server.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let _first = server.worker_process(&[
        ("HWORKER_REDIS_URL", url.as_str()),
        ("HWORKER_CANCEL_ON_DISCONNECT", "true"),
        ("TOKIO_WORKER_THREADS", "4"),
    ]);
    let blocks = act::with("blocks".into(), vec![vec![Act::Block(20_000)], vec![]]);
    let blocks = blocks.on(server.client()).timeout(Duration::from_secs(1));
    blocks.enqueue_blocking().expect("enqueued");
    put(&server, "job", vec![steps(), vec![]]);
    server.eventually("both run", SOON, || {
        server.begun("blocks") == 1 && server.runs_of("job").len() > 2
    });
    let _second = server.worker_process(&[]);
    wait_for_workers(&server, 2);
    let start = begins(&server, "blocks")[0].at;
    server.eventually("it is about to be settled", SOON, || {
        ms_between(start, now_us(&server)) > 2_700
    });
    proxy.unreachable(true);
    server.eventually("another has it", 2 * SOON, || server.ended("job") == 1);
    let runs = server.runs_of("job");
    let last = runs.iter().rfind(|run| run.token == runs[0].token).expect("the first run").at;
    assert!(last < begins(&server, "job")[1].at, "both ran at once");
}

#[test]
fn cancel_on_disconnect_leaves_blocking_bodies_alone() {
    // A worker is cut off for longer than async bodies may go on, and nobody declares it dead -> an async body is stopped
    // and runs again; a blocking one, which cannot be stopped, keeps its lease and does not run twice at once.
    // Guard: only what can be dropped is given back.
    let server = TestServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let _worker = server.worker_process(&[
        ("HWORKER_REDIS_URL", url.as_str()),
        ("HWORKER_CANCEL_ON_DISCONNECT", "true"),
    ]);
    let blocks = act_blocking::with("blocks".into(), vec![vec![Act::Block(8_000)]]);
    blocks.on(server.client()).enqueue_blocking().expect("enqueued");
    put(&server, "job", vec![steps(), vec![]]);
    server.eventually("both run", SOON, || server.begun("blocks") + server.begun("job") == 2);
    proxy.unreachable(true);
    // The server is away for longer than `dead_after`.
    std::thread::sleep(Duration::from_millis(5_500));
    proxy.unreachable(false);
    server.eventually("the async one runs again", SOON, || server.ended("job") == 1);
    server.drained(SOON);
    assert_eq!((server.begun("blocks"), server.begun("job")), (1, 2));
    assert_eq!(counter(&server, "processed"), 2);
}

/// A job of another queue.
#[hworker::job(queue = "second")]
async fn of_the_second(name: String, #[inject] runs: Runs, context: hworker::Context) {
    runs.note(&name, "begin", 0, &context);
    // The work of the body.
    tokio::time::sleep(Duration::from_millis(20)).await;
    runs.note(&name, "end", 0, &context);
}

#[test]
fn two_queues_share_one_slot() {
    // Workers with one slot each serve two queues; jobs come to both at the same time, and connections break -> each runs
    // once and soon, none is kept by a worker that is busy with the other queue; idle, both queues wait on the server.
    // Guard: what came beyond the free slots goes back at once; a slot that two queues look at is free for both.
    let server = TestServer::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let worker = || {
        let _context = runtime.enter();
        let builder = server.worker().concurrency(1).register::<act>();
        InProcess::run(builder.register::<of_the_second>())
    };
    let workers = [worker(), worker()];
    wait_for_workers(&server, 2);
    server.eventually("both wait for both", SOON, || {
        let list: String = server.redis().ask(&["CLIENT", "LIST", "TYPE", "normal"]);
        list.matches("cmd=blmove").count() == 4
    });
    // One is busy for long; whatever its waits capture has to get to the other.
    put(&server, "long", vec![vec![Act::Gate("go".into())]]);
    server.eventually("it runs", SOON, || server.begun("long") == 1);
    for number in 0..40 {
        let (one, two) = (format!("one-{number}"), format!("two-{number}"));
        put(&server, &one, vec![vec![Act::Sleep(20)]]);
        let second = of_the_second::with(two.clone()).on(server.client());
        second.enqueue_blocking().expect("enqueued");
        let took = time_until(&server, "both ran", SOON, || {
            server.ended(&one) == 1 && server.ended(&two) == 1
        });
        assert!(took < Duration::from_secs(1), "{number}: {took:?}");
        if number % 10 == 9 {
            let list: String = server.redis().ask(&["CLIENT", "LIST", "TYPE", "normal"]);
            let waits = list.lines().filter(|line| line.contains("cmd=blmove"));
            let ids: Vec<_> = waits.filter_map(|line| line.split(['=', ' ']).nth(1)).collect();
            for id in ids {
                let _ = server.redis().try_ask::<u64>(&["CLIENT", "KILL", "ID", id]);
            }
        }
    }
    server.open("go");
    server.drained(SOON);
    server.eventually("the other queue is empty", SOON, || server.leftovers("second").is_empty());
    assert_eq!(serving(&server).len(), 2);
    for worker in workers {
        runtime.block_on(worker.stop());
    }
}
