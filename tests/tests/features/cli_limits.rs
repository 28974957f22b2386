//! Limits from the command line.

use std::time::Duration;

use hworker_tests::{
    Act, InProcess, TestServer, act_by_twos, act_of_key, act_without_context, common_jobs,
};

use crate::SOON;
use crate::cli::{Said, call};

fn ok(server: &TestServer, arguments: &[&str]) -> Said {
    let said = call(server, &[&["limits"], arguments].concat());
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{arguments:?}");
    said
}

/// Of `limits ls`: how many at once, the rate, how many may wait, how many run, and the state.
fn row(server: &TestServer, name: &str) -> Vec<String> {
    let said = ok(server, &["ls"]);
    let row = said.lines().into_iter().find(|row| row[0] == name);
    row.unwrap_or_default().into_iter().skip(1).map(str::to_owned).collect()
}

fn worker(server: &TestServer) -> InProcess {
    let worker = InProcess::run(server.worker().registry(common_jobs()).concurrency(20));
    server.eventually("its limits are known", SOON, || !row(server, "act_by_twos").is_empty());
    worker
}

fn gate() -> Vec<Vec<Act>> {
    vec![vec![Act::Gate("go".into())]]
}

#[tokio::test(flavor = "multi_thread")]
async fn cc8_limits_are_set_and_unset_from_the_command_line() {
    // Set -> it holds while jobs run, `ls` and `show` say so, and it is in the audit; unset -> what code says; by key too.
    // Guard: `limits::set`.
    let server = TestServer::start();
    let _worker = worker(&server);
    for _ in 0..6 {
        let job = act_by_twos::with("held".into(), gate());
        job.on(server.client()).enqueue().await.expect("enqueued");
        for key in ["a", "b c"] {
            let job = act_of_key::with(key.into(), Some(key.into()), gate());
            job.on(server.client()).enqueue().await.expect("enqueued");
        }
    }
    server.eventually("two run", SOON, || {
        ["held", "a", "b c"].iter().all(|name| server.begun(name) == 2)
    });
    assert_eq!(row(&server, "act_by_twos"), ["2", "-", "-", "2", ""]);
    let set = ok(&server, &["set", "act_by_twos", "--at-once", "5", "--rate", "1000/s"]);
    assert!(set.out.contains("set to 5 at once, 1000/s"), "{}", set.out);
    server.eventually("five run", SOON, || server.begun("held") == 5);
    assert_eq!(row(&server, "act_by_twos"), ["5", "1000/s", "-", "5", "set"]);
    let shown = &ok(&server, &["show", "act_by_twos", "--json"]).json()[0];
    assert_eq!(
        (&shown["at_once"], &shown["rate"], &shown["is_set"], &shown["running"]),
        (&5.into(), &"1000/s".into(), &true.into(), &5.into())
    );

    let key = ["act_of_key", "--key", "b c"];
    assert_eq!(call(&server, &[&["limits", "show"], &key[..]].concat()).code, 3);
    ok(&server, &[&["set"], &key[..], &["--at-once", "3"]].concat());
    server.eventually("one more of the key", SOON, || server.begun("b c") == 3);
    assert_eq!(server.begun("a"), 2);
    let shown = ok(&server, &[&["show"], &key[..]].concat());
    assert!(shown.out.contains("act_of_key=b%20c") && shown.out.contains("of one key"));
    assert_eq!(ok(&server, &["show", "act_of_key=b%20c"]).out, shown.out, "as `ls` has it");
    assert!(ok(&server, &["show", "act_of_key"]).out.contains("of each key"));
    ok(&server, &["set", "--of-queue", "--at-once", "50", "--max-waiting", "2000"]);
    assert_eq!(row(&server, "*"), ["50", "-", "2,000", "0", "set"]);
    assert!(ok(&server, &["show", "*"]).out.contains("2,000"));
    assert!(ok(&server, &["unset", "--of-queue"]).out.contains("unset"));

    assert!(ok(&server, &["unset", "act_by_twos"]).out.contains("unset"));
    assert!(ok(&server, &["unset", "act_by_twos"]).out.contains("was not set"));
    assert_eq!(row(&server, "act_by_twos"), ["2", "-", "-", "5", ""]);
    ok(&server, &["set", "act_by_twos", "--at-once", "4"]);
    ok(&server, &["pause", "--job", "act_by_twos"]);
    assert_eq!(row(&server, "act_by_twos")[4], "set, paused");
    let refused = call(&server, &["limits", "reset"]);
    assert!(refused.code == 6 && refused.err.contains("--yes"), "{}", refused.err);
    let reset = &ok(&server, &["reset", "--yes", "--json"]).json()[0];
    assert_eq!(reset["reset"], serde_json::json!(["act_by_twos", "act_of_key=b%20c"]));
    assert_eq!(row(&server, "act_by_twos"), ["2", "-", "-", "5", ""]);
    assert!(row(&server, "act_of_key=b%20c").is_empty());
    assert!(ok(&server, &["reset"]).out.contains('0'), "there is nothing to ask");
    server.open("go");
    server.drained(SOON);

    let audit = call(&server, &["audit", "--json", "--limit", "100"]).json();
    for (action, what) in [
        ("set", "limit act_by_twos to 5 at once, 1000/s"),
        ("set", "limit act_of_key of the key b c to 3 at once"),
        ("set", "limit * to 50 at once, 2000 waiting"),
        ("unset", "limit act_by_twos"),
        ("pause", "jobs act_by_twos until it is resumed"),
        ("reset", "limits act_by_twos, act_of_key=b%20c"),
    ] {
        let is_it = |entry: &&serde_json::Value| {
            entry["action"] == action && entry["what"] == what && entry["queue"] == "default"
        };
        assert!(audit.iter().filter(is_it).count() >= 2, "{action} {what}: {audit:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ct14_a_type_is_paused_from_the_command_line() {
    // None of the type is taken, with a limit or without, others are; resume -> all run. So it is with a key, and for some time.
    // Guard: `limits::pause`.
    let server = TestServer::start();
    let _worker = worker(&server);
    ok(&server, &["pause", "--job", "act_without_context"]);
    ok(&server, &["pause", "act_of_key", "--key", "t7", "--for", "1h"]);
    assert_eq!(row(&server, "act_without_context"), ["-", "-", "-", "0", "paused"]);
    assert!(row(&server, "act_of_key=t7")[4].starts_with("paused until 20"));
    let job = act_without_context::with("plain".into(), Vec::new());
    job.on(server.client()).enqueue().await.expect("enqueued");
    for key in ["t7", "t8"] {
        let job = act_of_key::with(key.into(), Some(key.into()), Vec::new());
        job.on(server.client()).enqueue().await.expect("enqueued");
    }
    server.eventually("another key runs", SOON, || server.ended("t8") == 1);
    server.holds("none starts", Duration::from_millis(1_500), || {
        server.begun("plain") + server.begun("t7") == 0
    });
    let resume = ["resume", "--job", "act_without_context"];
    assert!(ok(&server, &resume).out.contains("resumed"));
    server.eventually("it runs", SOON, || server.ended("plain") == 1);
    assert!(ok(&server, &resume).out.contains("was not paused"));
    assert_eq!(server.begun("t7"), 0);
    let resumed = ok(&server, &["resume", "act_of_key", "--key", "t7", "--json"]).json();
    assert_eq!((&resumed[0]["resumed"], &resumed[0]["key"]), (&true.into(), &"t7".into()));
    server.drained(SOON);
    assert_eq!(server.ended("t7"), 1);
}

#[test]
fn cc8_what_is_wrong_of_a_limit_is_said() {
    // Guard: of the name `LimitControl::check`, of one that is not known `LimitControl::names` and `Target::tell_if_unknown`.
    let server = TestServer::start();
    for (code, arguments) in [
        (2, &["set", "db"][..]),
        (2, &["set", "--at-once", "3"]),
        (2, &["set", "db", "--of-queue", "--at-once", "3"]),
        (2, &["set", "db", "--at-once", "0"]),
        (2, &["set", "db", "--rate", "100"]),
        (2, &["set", "a b", "--at-once", "3"]),
        (2, &["set", "db=a=b", "--at-once", "3"]),
        (2, &["set", "db", "--key", "", "--at-once", "3"]),
        (2, &["set", "db=a", "--key", "b", "--at-once", "3"]),
        (2, &["unset", "--of-queue", "--key", "a"]),
        (2, &["pause"]),
        (2, &["pause", "db", "--job", "act"]),
        (2, &["pause", "--job", "act", "--key", "a"]),
        (2, &["pause", "db", "--for", "0s"]),
        (2, &["ls", "-q", "a b"]),
        (3, &["show", "db"]),
        (3, &["show", "--of-queue"]),
    ] {
        let said = call(&server, &[&["limits"], arguments].concat());
        assert_eq!(said.code, code, "{arguments:?}: {}", said.err);
    }
    let said = call(&server, &["limits", "set", "db", "--at-once", "3"]);
    assert!(said.code == 2 && said.err.contains("no worker of the queue default"), "{}", said.err);
    assert_eq!(ok(&server, &["ls"]).out, "", "nothing was set");
    ok(&server, &["set", "db=", "--at-once", "4"]);
    assert_eq!(row(&server, "db=")[0], "4");
    let said = call(&server, &["limits", "pause", "other"]);
    assert!(said.code == 0 && said.err.contains("no worker of default"), "{}", said.err);
    assert!(ok(&server, &["resume", "other"]).out.contains("resumed"));
}
