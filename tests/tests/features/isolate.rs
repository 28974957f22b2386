//! Rows IS1 to IS3, O11: bodies in processes of their own. And `faults.md`, "Of control.md", 37 to 40.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hworker::JobId;
use hworker_tests::{
    Act, DOCUMENTED_KEY, Failed, Harm, InProcess, Process, Records, TestServer, act_bounded,
    act_isolated, act_isolated_blocking, act_until_cancelled, binary, isolated_jobs,
};

use crate::SOON;

fn worker(server: &TestServer, settings: &[(&str, &str)]) -> Process {
    let mut command = server.command("test-worker");
    command.env("HWORKER_TEST_JOBS", "isolated").env("HWORKER_CONCURRENCY", "4");
    Process::start({
        command.envs(settings.iter().copied());
        command
    })
}

async fn isolated(server: &TestServer, name: &str, plan: Vec<Vec<Harm>>) -> JobId {
    let job = act_isolated::with(name.into(), plan).on(server.client());
    job.enqueue().await.expect("enqueued")
}

async fn bounded(server: &TestServer, name: &str, harm: Harm) -> JobId {
    let job = act_bounded::with(name.into(), vec![vec![harm]]).on(server.client());
    job.enqueue().await.expect("enqueued")
}

async fn failed(server: &TestServer, id: &JobId) -> Failed {
    let record = async || {
        let failed = server.inspect().failed(0, 100).await.expect("the records");
        failed.into_iter().find(|failed| failed.id == id.as_str())
    };
    server.eventually_async("it has failed", SOON, async || record().await.is_some()).await;
    record().await.expect("a record")
}

/// Records are left.
async fn nothing_is_held(server: &TestServer) {
    server
        .eventually_async("nothing is held", SOON, async || {
            let counts = server.inspect().counts().await.expect("counted");
            counts.waiting + counts.scheduled + counts.running == 0
        })
        .await;
}

/// The processes that a worker has for bodies.
fn children(worker: &Process) -> Vec<u32> {
    let mark = format!("hworker-child-of-{}/", worker.pid());
    processes().into_iter().filter(|(_, name)| name.starts_with(&mark)).map(|(id, _)| id).collect()
}

/// Every process that has not ended, with its arguments.
fn processes() -> Vec<(u32, String)> {
    let Ok(listed) = std::fs::read_dir("/proc") else { return listed_by_ps() };
    let of = |name: String| {
        let arguments = std::fs::read_to_string(format!("/proc/{name}/cmdline")).ok()?;
        // One that has ended, and was not awaited, has none.
        Some((name.parse().ok()?, arguments)).filter(|(_, arguments)| !arguments.is_empty())
    };
    listed.filter_map(|entry| of(entry.ok()?.file_name().into_string().ok()?)).collect()
}

fn listed_by_ps() -> Vec<(u32, String)> {
    let listed = Command::new("ps").args(["-ax", "-o", "pid=,stat=,args="]).output().expect("ps");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let one = |line: &str| {
        let mut words = line.split_whitespace();
        let (id, state) = (words.next()?.parse().ok()?, words.next()?);
        (!state.starts_with('Z')).then(|| (id, words.collect()))
    };
    listed.lines().filter_map(one).collect()
}

fn lives(id: u32) -> bool {
    processes().iter().any(|(known, _)| *known == id)
}

#[tokio::test(flavor = "multi_thread")]
async fn o11_is1_a_body_that_ends_its_process_fails_alone() {
    // Bodies that abort, follow a wrong address, exit with 0 and 3, beside others -> those alone end, as `killed` with the signal or the code and
    // the end of standard error; the worker lives, and the death counts as no crash of it. Where it may be retried it runs again.
    // Guard: `Finish::Killed`.
    let server = TestServer::start();
    let worker = worker(&server, &[]);
    let name = |number| format!("beside {number}");
    for number in 0..4 {
        let sleeps = vec![vec![Act::Sleep(500)]];
        server.enqueue(&name(number), sleeps.clone()).await;
        isolated(&server, &name(number + 4), vec![vec![Harm::Act(Act::Sleep(500))]]).await;
    }
    let plan = vec![vec![Harm::Abort], vec![]];
    isolated(&server, "again", plan).await;
    for (harm, says) in [
        (Harm::Abort, "signal 6, SIGABRT"),
        (Harm::Segfault, "signal 11, SIGSEGV"),
        (Harm::Exit(0), "exit code 0"),
        (Harm::Exit(3), "exit code 3"),
    ] {
        let plan = vec![vec![Harm::Say("its last words".into()), harm.clone()]];
        let job = act_bounded::with(format!("{harm:?}"), plan).on(server.client());
        let id = job.enqueue().await.expect("enqueued");
        let failed = failed(&server, &id).await;
        assert_eq!((failed.kind.as_str(), failed.attempts), ("killed", 1), "{failed:?}");
        assert!(failed.message.contains(says), "{failed:?}");
        assert!(failed.message.ends_with("its last words"), "{failed:?}");
        assert!(failed.crashes.is_empty(), "{failed:?}");
    }
    server.eventually("the others end", SOON, || {
        (0..8).all(|number| server.ended(&name(number)) == 1) && server.ended("again") == 1
    });
    assert_eq!(server.runs_of("again")[0].attempt, 2);
    assert!(lives(worker.pid()));
    nothing_is_held(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn is1_its_end_is_seen_although_another_process_holds_its_line() {
    // A body whose process aborts, where what it has started holds its sockets still -> it ends as `killed` with the signal and not by its timeout,
    // and what it has started is no more.
    // Guard: `hear` in isolate/child.rs, of the process.
    let server = TestServer::start();
    let _worker = worker(&server, &[]);
    let plan = vec![vec![Harm::Hold, Harm::Abort]];
    let job = act_bounded::with("holds".into(), plan).on(server.client());
    let id = job.timeout(Duration::from_secs(60)).enqueue().await.expect("enqueued");
    let failed = failed(&server, &id).await;
    assert_eq!(failed.kind, "killed", "{failed:?}");
    assert!(failed.message.contains("SIGABRT"), "{failed:?}");
    let runs = server.runs_of("holds");
    let started = runs.iter().filter_map(|run| run.what.strip_prefix("started "));
    let started: Vec<u32> = started.filter_map(|id| id.parse().ok()).collect();
    assert!(!started.is_empty() || !cfg!(target_os = "linux"), "{runs:?}");
    server.eventually("they end", SOON, || !started.iter().any(|id| lives(*id)));
}

#[tokio::test(flavor = "multi_thread")]
async fn is1_what_a_body_says_goes_through() {
    // Errors, panics, outcomes and verdicts of a body in a process -> records and attempts as of one in the worker. A body that blocks too.
    // Guard: `Finish::Decided`, `Becomes`.
    let server = TestServer::start();
    let _worker = worker(&server, &[]);
    for (act, kind, message) in [
        (Act::Error("no such user".into()), "error", "no such user"),
        (Act::Panic("out of bounds".into()), "panic", "out of bounds"),
        (Act::Failure("gone".into()), "failure", "gone"),
        (Act::Fail("for good".into()), "error", "for good"),
    ] {
        let id = bounded(&server, &format!("{act:?}"), Harm::Act(act)).await;
        let failed = failed(&server, &id).await;
        assert_eq!((failed.kind.as_str(), failed.message.as_str()), (kind, message));
        assert_eq!(failed.place.is_some(), kind == "panic", "{failed:?}");
    }
    let then = |act| vec![vec![Harm::Act(act)], vec![]];
    for (act, attempt) in [
        (Act::Retry("not yet".into()), 2),
        (Act::RetryIn(10), 2),
        (Act::Snooze(10), 1),
        (Act::SlowDown(10), 1),
        (Act::Panic("once".into()), 2),
    ] {
        let name = format!("{act:?}");
        isolated(&server, &name, then(act)).await;
        server.eventually("it ends", SOON, || server.ended(&name) == 1);
        assert_eq!(server.runs_of(&name).last().expect("a run").attempt, attempt, "{name}");
    }
    let blocks = act_isolated_blocking::with("blocks", 50).on(server.client());
    let id = blocks.enqueue().await.expect("enqueued");
    server.eventually("it ends", SOON, || server.ended("blocks") == 1);
    assert_eq!(server.runs_of("blocks")[0].id, id.as_str());
    // What does not fit is for another worker.
    let payload = r#"{"v":1,"id":"unfit","job":"act_isolated","args":{"name":7}}"#;
    let _: u64 = server.redis().ask(&["LPUSH", "hworker-jobs-default", payload]);
    server.eventually("it is parked", SOON, || server.redis().len("hworker-parked-default") == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn is1_a_body_is_ended_at_its_deadline_with_all_that_it_started() {
    // An endless loop, and one that started a program -> at the timeout both are no more, and the slot runs the next job.
    // Guard: `kill_process_group`; `Pool::keep`, or there would be more processes than slots; `Child::lives`.
    let server = TestServer::start();
    let worker = worker(&server, &[("HWORKER_CONCURRENCY", "1")]);
    let plan = vec![vec![Harm::Start, Harm::Spin]];
    let job = act_bounded::with("loops".into(), plan).timeout(Duration::from_millis(700));
    let id = job.on(server.client()).enqueue().await.expect("enqueued");
    let failed = failed(&server, &id).await;
    assert_eq!(failed.kind, "timeout", "{failed:?}");
    let started = server
        .runs_of("loops")
        .into_iter()
        .find_map(|run| run.what.strip_prefix("started ").and_then(|id| id.parse().ok()));
    let started = started.expect("it started a program");
    server.eventually("its program ends", SOON, || !lives(started));
    isolated(&server, "next", vec![]).await;
    server.eventually("the next runs", SOON, || server.ended("next") == 1);
    server.eventually("one process waits", SOON, || children(&worker).len() == 1);
    // Somebody kills that one, and the next job runs in another.
    let waiting = children(&worker)[0];
    kill(waiting);
    server.eventually("it is gone", SOON, || !lives(waiting));
    isolated(&server, "last", vec![]).await;
    server.eventually("the last runs", SOON, || server.ended("last") == 1);
    assert_eq!(server.runs_of("last")[0].attempt, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn is2_a_process_is_bounded_and_replaced() {
    // Memory beyond its bound, and time of a processor -> killed, and the record says of what. After three
    // jobs another process runs them.
    // Guard: `MEMORY_EVERY`, `bound_time`, `Pool::put_back`.
    let server = TestServer::start();
    let _worker = worker(&server, &[("HWORKER_CONCURRENCY", "1")]);
    let id = bounded(&server, "large", Harm::Allocate(600)).await;
    let large = failed(&server, &id).await;
    assert_eq!(large.kind, "killed", "{large:?}");
    assert!(large.message.contains("bytes of memory, and may have 400000000"), "{large:?}");
    let id = bounded(&server, "spins", Harm::Spin).await;
    let spins = failed(&server, &id).await;
    assert!(spins.message.contains("SIGXCPU"), "{spins:?}");
    for number in 0..7 {
        let name = format!("recycled {number}");
        bounded(&server, &name, Harm::Act(Act::Sleep(0))).await;
        server.eventually("it ends", SOON, || server.ended(&name) == 1);
    }
    let pids: Vec<_> =
        (0..7).map(|number| server.runs_of(&format!("recycled {number}"))[0].pid).collect();
    let changes = pids.windows(2).filter(|two| two[0] != two[1]).count();
    assert_eq!(changes, 2, "{pids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn control_40_memory_counts_when_it_is_used() {
    // A body, as allocators do, asks for ten times the addresses of its bound, and uses none -> it runs.
    // Guard: `resident`.
    let server = TestServer::start();
    let _worker = worker(&server, &[]);
    bounded(&server, "reserves", Harm::Reserve(4000)).await;
    server.eventually("it ends", SOON, || server.ended("reserves") == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn is3_an_endless_loop_starves_nobody() {
    // Loops for longer than a silent worker counts as alive, in all but one slot -> the worker is not declared dead, other jobs start at once, and
    // each loop ran once.
    // Guard: `isolate` of `act_isolated`.
    let server = TestServer::start();
    let worker = worker(&server, &[("HWORKER_DEAD_AFTER", "2s")]);
    for number in 0..3 {
        let job = act_isolated::with(format!("loop {number}"), vec![vec![Harm::Spin], vec![]]);
        let job = job.timeout(Duration::from_secs(6)).on(server.client());
        job.enqueue().await.expect("enqueued");
    }
    let spins = |number| server.runs_of(&format!("loop {number}")).len();
    server.eventually("they loop", SOON, || (0..3).all(|number| spins(number) == 1));
    for number in 0..10 {
        let name = format!("beside {number}");
        server.enqueue(&name, vec![vec![Act::Sleep(200)]]).await;
        server.eventually("it runs beside them", SOON, || server.ended(&name) == 1);
    }
    server.eventually("their timeout ends them", SOON, || {
        (0..3).all(|number| server.ended(&format!("loop {number}")) == 1)
    });
    assert!((0..3).all(|number| server.runs_of(&format!("loop {number}"))[1].attempt == 2));
    assert!(lives(worker.pid()));
    assert!(server.client().dead_workers().await.expect("looked").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn is1_a_cancelled_body_is_ended_or_told() {
    // Cancelled while it runs -> its process is ended, or, with `on_cancel = "token"`, it is told.
    // Guard: `Order::Cancel`.
    let server = TestServer::start();
    let worker = worker(&server, &[]);
    let ended = isolated(&server, "ended", vec![vec![Harm::Spin]]).await;
    let told = act_until_cancelled::with("told".into()).on(server.client());
    let told = told.enqueue().await.expect("enqueued");
    server.eventually("both run", SOON, || {
        server.runs_of("ended").len() == 1 && server.runs_of("told").len() == 1
    });
    let process = server.runs_of("ended")[0].pid;
    for id in [&ended, &told] {
        server.inspect().cancel(id).await.expect("cancelled");
    }
    server.eventually("one is told", SOON, || {
        server.runs_of("told").iter().any(|run| run.what == "cancelled")
    });
    server.eventually("the other is ended", SOON, || !lives(process));
    nothing_is_held(&server).await;
    assert!(lives(worker.pid()));
}

#[tokio::test(flavor = "multi_thread")]
async fn is1_no_process_outlives_its_worker() {
    // Told to stop, with bodies that do not end -> their jobs are given back, and no process is left. Killed -> none is left either.
    // Guard: `die`, `impl Drop for Child`.
    let server = TestServer::start();
    let mut first = worker(&server, &[("HWORKER_SHUTDOWN_GRACE", "300ms")]);
    let plan = vec![vec![Harm::Spin], vec![Harm::Spin], vec![]];
    isolated(&server, "moves", plan).await;
    server.eventually("it runs", SOON, || server.runs_of("moves").len() == 1);
    let of_first = children(&first);
    assert!(!of_first.is_empty());
    first.terminate();
    server.eventually("it stops", SOON, || first.exited().is_some());
    server.eventually("none is left", SOON, || !of_first.iter().any(|id| lives(*id)));
    let mut second = worker(&server, &[]);
    server.eventually("it runs again", SOON, || server.runs_of("moves").len() == 2);
    let of_second = children(&second);
    second.kill();
    server.eventually("none is left", SOON, || !of_second.iter().any(|id| lives(*id)));
    let _third = worker(&server, &[]);
    server.eventually("it ends elsewhere", SOON, || server.ended("moves") == 1);
    assert_eq!(server.runs_of("moves").last().expect("a run").attempt, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn is1_encrypted_arguments_and_large_ones_reach_the_process() {
    // Encrypted arguments -> the process has the keys of its worker. A megabyte, more than a socket holds -> all of it.
    // Guard: `payload` in `Run`.
    let server = TestServer::start();
    let (name, key) = DOCUMENTED_KEY;
    let line = format!("{name} AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n");
    let file = server.dir().join("keys");
    std::fs::write(&file, line).expect("written");
    let keys = file.to_str().expect("a path");
    let settings = [("HWORKER_ENCRYPTION_KEYS", keys), ("HWORKER_ENCRYPT_ALL", "true")];
    let _worker = worker(&server, &settings);
    let client = hworker::Client::builder().redis_url(server.url()).encryption_key(name, &key);
    let client = client.encrypt_all(true).build().expect("a client");
    let large = "x".repeat(1_000_000);
    for (name, text) in [("small", "\u{e4}\"\n".to_owned()), ("large", large)] {
        let plan = vec![vec![Harm::Act(Act::Note(text.clone()))]];
        let job = act_isolated::with(name.into(), plan).on(&client);
        job.enqueue().await.expect("enqueued");
        server.eventually("it ends", SOON, || server.ended(name) == 1);
        assert_eq!(server.runs_of(name)[1].what, text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn control_37_what_a_body_starts_is_no_process_for_bodies() {
    // A body starts its own program, and reads its input -> the program takes itself for none, and the input is empty.
    // Guard: `take_input`, `marker::name`.
    let server = TestServer::start();
    let _worker = worker(&server, &[]);
    isolated(&server, "asks", vec![vec![Harm::Ask]]).await;
    server.eventually("it ends", SOON, || server.ended("asks") == 1);
    assert_eq!(server.runs_of("asks")[0].what, "child false");
}

#[tokio::test(flavor = "multi_thread")]
async fn control_38_a_main_that_fails_in_a_process_is_an_error_at_start() {
    // `main` fails in the first process -> the worker does not start, and says why with its standard error.
    // Guard: `Pool::warm_up`.
    let server = TestServer::start();
    let flag = server.dir().join("fails");
    std::fs::write(&flag, "").expect("written");
    let mut command = server.command("test-worker");
    command.env("HWORKER_TEST_JOBS", "isolated").env("HWORKER_TEST_CHILD_FAILS", &flag);
    let mut worker = Process::start({
        command.stderr(std::process::Stdio::piped());
        command
    });
    let says = std::io::read_to_string(worker.log().expect("its log")).expect("read");
    assert_eq!(worker.wait(SOON).expect("it ends").code(), Some(1), "{says}");
    assert!(says.contains("no process for jobs with `isolate` comes up"), "{says}");
    assert!(says.contains("the port is taken"), "{says}");
}

#[tokio::test(flavor = "multi_thread")]
async fn is1_a_job_for_which_no_process_can_be_started_waits_uncounted() {
    // Later on no process can be started -> the job is given back as it was, readiness says why, others run; when it is well again the job runs.
    // Guard: `no_process`, `Unhealthy::NoProcess`.
    let server = TestServer::start();
    let flag = server.dir().join("fails");
    let port = free_port();
    let health = format!("127.0.0.1:{port}");
    let fails = flag.to_str().expect("a path");
    let settings = [("HWORKER_TEST_CHILD_FAILS", fails), ("HWORKER_HEALTH", &health)];
    let _worker = worker(&server, &settings);
    isolated(&server, "first", vec![]).await;
    server.eventually("it runs", SOON, || server.ended("first") == 1);
    std::fs::write(&flag, "").expect("written");
    // The process that it had is gone with that.
    let id = bounded(&server, "ends it", Harm::Abort).await;
    failed(&server, &id).await;
    isolated(&server, "waits", vec![]).await;
    let ready = || answer(port, "/ready");
    server.eventually("it is not ready", SOON, || ready().contains("the port is taken"));
    server.enqueue("beside", vec![]).await;
    server.eventually("others run", SOON, || server.ended("beside") == 1);
    assert_eq!(server.begun("waits"), 0);
    std::fs::remove_file(&flag).expect("removed");
    server.eventually("it runs", SOON, || server.ended("waits") == 1);
    assert_eq!(server.runs_of("waits")[0].attempt, 1);
    server.eventually("it is ready", SOON, || ready().contains("200"));
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn control_39_a_program_that_was_replaced_goes_on_in_its_processes() {
    // A deploy writes another program over that of a running worker, and a process ends -> the next one is of the program that runs.
    // Guard: `child::program`.
    let server = TestServer::start();
    let copy = server.dir().join("deployed");
    std::fs::copy(binary("test-worker"), &copy).expect("copied");
    let template = server.command("test-worker");
    let mut command = Command::new(&copy);
    command.env("HWORKER_TEST_JOBS", "isolated").stdin(std::process::Stdio::piped());
    for (name, value) in template.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let _worker = Process::start(command);
    isolated(&server, "first", vec![]).await;
    server.eventually("it runs", SOON, || server.ended("first") == 1);
    replace(&copy);
    let id = bounded(&server, "ends it", Harm::Abort).await;
    failed(&server, &id).await;
    isolated(&server, "second", vec![]).await;
    server.eventually("it runs", SOON, || server.ended("second") == 1);
}

#[cfg(target_os = "linux")]
fn replace(program: &Path) {
    std::fs::remove_file(program).expect("removed");
    std::fs::copy(binary("test-producer"), program).expect("copied");
}

#[tokio::test(flavor = "multi_thread")]
async fn is1_a_test_has_no_process_for_it() {
    // In a test, whose program would run all tests again -> the job fails, and the record says what to do.
    // Guard: `is_harness`.
    let server = TestServer::start();
    let _worker = InProcess::run(server.worker().registry(isolated_jobs()));
    let id = isolated(&server, "refused", vec![]).await;
    let failed = failed(&server, &id).await;
    assert_eq!((failed.kind.as_str(), failed.attempts), ("failure", 1));
    assert!(failed.message.contains("call its function in the test"), "{failed:?}");
}

fn kill(process: u32) {
    let process = rustix::process::Pid::from_raw(process.cast_signed()).expect("a process");
    rustix::process::kill_process(process, rustix::process::Signal::KILL).expect("killed");
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

fn answer(port: u16, path: &str) -> String {
    use std::io::{Read, Write};
    let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else {
        return String::new();
    };
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let mut text = String::new();
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.read_to_string(&mut text));
    text
}
