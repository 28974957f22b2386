//! Runs the examples as a person would.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use hworker::embedded::Server;
use rustix::process::{Pid, Signal, kill_process};

fn run(program: &str, args: &[&str]) -> String {
    let Output { status, stdout, stderr } =
        Command::new(program).args(args).output().expect("the program starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

#[test]
fn the_mailing_reaches_everybody_although_its_worker_is_killed() {
    let output = run(env!("CARGO_BIN_EXE_mailing"), &["demo", "--recipients", "2000"]);
    for line in ["killed with SIGKILL after", "  2000 recipients in", "     0 got no mail"] {
        assert!(output.contains(line), "{output}");
    }
}

#[test]
fn the_ledger_books_once_and_refuses_what_is_written_late() {
    let output = run(env!("CARGO_BIN_EXE_ledger"), &[]);
    for line in [
        "killed with SIGKILL",
        "300 cents from Ada to Bob: was booked by an earlier run",
        "stopped with SIGSTOP",
        "statement of Ada: 600 cents, written",
        "statement of Ada: 700 cents, refused: a younger lease has written it",
        "Ada has 600 cents, Bob 400; 2 transfers are booked",
        "the statement of Ada says Some(600)",
    ] {
        assert!(output.contains(line), "{output}");
    }
}

#[test]
fn the_shop_keeps_to_its_limits() {
    let output = run(env!("CARGO_BIN_EXE_control"), &[]);
    for line in [
        "order 99 came last and was charged when",
        "8 pictures were resized, 2 at once",
        "had [1, 1, 1] exports at once",
        "account 7: open > account 7: deposit > account 7: deposit > account 7: withdraw",
        "6 products were indexed and 6 reports written, 3 at once",
        "  20 of 20 pages, 13 of them by attempt 2; 2 lines in its log",
        "  20 pages were translated in all",
        "  paid back: order 7: nobody delivers to the moon",
        "control.limit(\"db\").set(6): 6 at once",
        "control.limit(\"db\").unset(): 3 at once",
        "30 parcels took 31 calls to the carrier",
        "no call was made for half a second",
        "Bob came after 100 jobs of Ada",
        "drawn: home, version 1 > home, version 6; 4 were cancelled",
        "10 times this week and next",
        "8 of 8 pictures were resized when the report began",
        "from the release before and from this one: 500 cents for Ada, 700 cents for Bob",
        "a parcel to New Zealand: 2890 cents",
        "one to the south pole: nobody carries parcels to AQ",
        "counted: shelf 3, shelf 3; removed",
        "held up: 0 of 3 mails sent, 1 order packed",
        "resumed: 3 of 3 mails sent",
    ] {
        assert!(output.contains(line), "{line}\n{output}");
    }
}

#[test]
fn the_fleet_runs_jobs_where_they_belong() {
    let output = run(env!("CARGO_BIN_EXE_fleet"), &[]);
    for line in [
        "scene 1 was rendered by cellar",
        "scene 4 was rendered by cellar",
        "the logs of day 30 were collected by attic",
        "attic has dropped its prices",
        "cellar has dropped its prices",
        r#"{"picture":3}: killed: the process of the body has died: it was ended by signal 6, SIGABRT"#,
        r#"{"picture":4}: timeout: ran longer than its timeout of 2s"#,
        "4 pictures are decoded, and 2 workers live",
    ] {
        assert!(output.contains(line), "{line}\n{output}");
    }
}

#[test]
fn the_shop_goes_on_in_its_page() {
    // Its page is there before the first scene, and jobs come in until it is closed.
    let mut program = Command::new(env!("CARGO_BIN_EXE_control"))
        .arg("--web")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines =
        BufReader::new(program.stdout.take().expect("its output")).lines().map_while(Result::ok);
    let page = lines.find_map(|line| Some(line.strip_prefix("the page is at ")?.to_owned()));
    let page = page.expect("the address of its page");
    assert!(lines.any(|line| line.starts_with("the shop is open")), "all scenes are shown");
    let get = |path: &str| {
        let mut answer = ureq::get(format!("{page}{path}")).call().expect("an answer");
        answer.body_mut().read_to_string().expect("a text")
    };
    assert!(get("").contains("<h1>Overview</h1>"), "{}", get(""));
    let failed = (0..600).any(|_| {
        thread::sleep(Duration::from_millis(100));
        get("api/v1/queues/default/jobs?state=failed").contains("the account is closed")
    });
    assert!(failed, "no refund has failed");
    kill_process(Pid::from_child(&program), Signal::INT).expect("it can be signalled");
    assert!(program.wait().expect("it ends").success());
}

#[test]
fn a_wrong_command_is_told_the_right_ones() {
    let output = Command::new(env!("CARGO_BIN_EXE_mailing")).arg("post").output();
    let output = output.expect("the program starts");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("usage: mailing demo"));
}

#[test]
fn a_web_server_and_its_worker_stop_together() {
    let redis = Server::start().expect("a server");
    let mut program = Command::new(env!("CARGO_BIN_EXE_web-and-worker"))
        .arg("127.0.0.1:0")
        .env("HWORKER_REDIS_URL", redis.url())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let output = BufReader::new(program.stdout.take().expect("its output"));
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        output.lines().map_while(Result::ok).try_for_each(|line| send.send(line))
    });
    let line = || lines.recv_timeout(Duration::from_secs(20)).expect("a line in time");
    let url = line();
    ureq::post(format!("{url}/greet/Ada")).send_empty().expect("it is enqueued");
    assert_eq!(line(), "hello, Ada");
    kill_process(Pid::from_child(&program), Signal::TERM).expect("it can be signalled");
    assert_eq!(line(), "the server and the worker have stopped");
    assert!(program.wait().expect("it ends").success());
}
