//! The program `hworker` in a terminal, as a person drives it: by tmux, whose screen a test reads.

use std::path::PathBuf;
use std::process::Command;

use hworker_tests::{Act, InProcess, TestServer, act, binary};
use tempfile::TempDir;

use crate::SOON;

/// A terminal of 120 columns with a shell in it.
struct Terminal<'a> {
    server: &'a TestServer,
    dir: TempDir,
}

impl<'a> Terminal<'a> {
    /// `None`, with a word, where there is no tmux.
    fn open(server: &'a TestServer) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            let required = std::env::var("HWORKER_MATRIX").is_ok_and(|matrix| matrix == "required");
            assert!(!required, "tmux is missing (script/setup --matrix installs it)");
            eprintln!("skipped: tmux is missing (script/setup --matrix installs it)");
            return None;
        }
        let this = Self { server, dir: TempDir::new().expect("a directory") };
        let programs = binary("hworker");
        let programs = programs.parent().expect("a directory").display();
        let path = std::env::var("PATH").unwrap_or_default();
        let shell = format!(
            "env -u HWORKER_PREFIX HWORKER_REDIS_URL='{}' PATH='{programs}:{path}' USER=ada PS1='$ ' ENV= sh",
            server.url()
        );
        this.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "30", &shell]);
        this.shows("a shell", |screen| screen.starts_with('$'));
        Some(this)
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("tmux")
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.env("LC_ALL", "C.UTF-8").env_remove("TMUX").arg("-u").arg("-S").arg(self.socket());
        let output = command.args(arguments).output().expect("tmux runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen shows it, and gives that screen.
    #[track_caller]
    fn shows(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let shown = || {
            last = self.screen();
            holds(&last)
        };
        self.server.eventually(what, SOON, shown);
        last
    }

    /// Types keys, as tmux names them; a text is typed as it is.
    fn press(&self, keys: &str) {
        self.tmux(&["send-keys", keys]);
    }

    /// Clears the screen, types a line, and waits until the last line of the screen ends so.
    #[track_caller]
    fn type_until(&self, line: &str, end: &str) -> String {
        // The shell takes its time, and what the screen showed before may end so too.
        self.tmux(&["send-keys", "-R"]);
        self.tmux(&["send-keys", "-l", "clear; "]);
        self.tmux(&["send-keys", "-l", line]);
        self.press("Enter");
        self.shows(&format!("{end:?} after {line}"), |screen| ends(screen, end))
    }

    /// Waits until the screen, which no longer shows what was typed, ends so.
    #[track_caller]
    fn answer_until(&self, end: &str) -> String {
        self.shows(&format!("{end:?} at the end"), |screen| ends(screen, end))
    }

    /// A command that ends by itself: its screen.
    #[track_caller]
    fn run(&self, line: &str) -> String {
        self.type_until(&format!("{line}; echo code $?"), "\n$")
    }
}

/// Whether a screen, which no longer shows what was typed, ends so.
fn ends(screen: &str, end: &str) -> bool {
    !screen.contains("clear;") && screen.trim_end().ends_with(end)
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

async fn fail(server: &TestServer, name: &str, count: usize) {
    let worker = InProcess::run(server.worker().register::<act>());
    for _ in 0..count {
        let fails = act::with(name.into(), vec![vec![Act::Failure("smtp: 421".into())]]);
        fails.on(server.client()).enqueue().await.expect("enqueued");
    }
    server.eventually("they failed", SOON, || server.counter("failed") == count as u64);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ts12_a_person_looks_and_mends() {
    // Tables with a head; a question that is answered with no, yes, and Ctrl-C; what a terminal may not have.
    // Guard: `Output::toned_rows` and `Context::ask`.
    let server = TestServer::start();
    fail(&server, "fails", 3).await;
    let Some(terminal) = Terminal::open(&server) else { return };

    let screen = terminal.run("hworker stats");
    let lines: Vec<_> = screen.lines().collect();
    assert_eq!(
        lines[0],
        "QUEUE    WAIT  OLDEST  RUN  SCHED  PARKED  FAILED  BROKEN  WORKERS  DONE/MIN  RUN P95  WAIT P95  EMPTY IN  STATE"
    );
    assert!(
        lines[1]
            .starts_with("default  0     -       0    0      0       3       0       0        "),
        "{screen}"
    );
    assert_eq!(lines[2], "code 0");
    let screen = terminal.run("hworker failed groups");
    assert!(screen.contains("GROUP") && screen.contains("failure: smtp: 421"), "{screen}");

    // No, an interrupt, and yes.
    let ask = "hworker failed delete --error 421; echo code $?";
    let screen = terminal.type_until(ask, "[y/N]");
    assert!(screen.contains("delete 3 jobs on default"), "{screen}");
    assert!(screen.contains(server.url()) && screen.contains("prefix hworker"), "{screen}");
    terminal.press("n");
    terminal.press("Enter");
    assert!(terminal.answer_until("\n$").contains("code 6"));
    terminal.type_until(ask, "[y/N]");
    terminal.press("C-c");
    terminal.answer_until("\n$");
    assert_eq!(server.redis().len("hworker-failed-default"), 3);
    terminal.type_until(ask, "[y/N]");
    terminal.press("y");
    terminal.press("Enter");
    let screen = terminal.answer_until("\n$");
    assert!(screen.contains("done  3") && screen.contains("code 0"), "{screen}");
    assert_eq!(server.redis().len("hworker-failed-default"), 0);
    let screen = terminal.run("hworker audit");
    assert!(screen.contains("ada@") && screen.contains("done 3"), "{screen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operate_17_what_takes_a_whole_queue_is_asked_by_its_name() {
    // `y` is not enough to destroy a queue; and nothing that a payload says reaches the terminal.
    // Guard: `Context::ask`, `output::shown`.
    let server = TestServer::start();
    let evil = "x\u{1b}]2;owned\u{7}\u{1b}[2J";
    let _: u64 = server.redis().ask(&["HSET", "hworker-broken-default", evil, "1 1 no JSON"]);
    let _: u64 = server.redis().ask(&["HSET", "hworker-meta:queues", "default", "1"]);
    let Some(terminal) = Terminal::open(&server) else { return };
    let digest = terminal.run("hworker broken ls | cut -f 1").lines().next().map(str::to_owned);
    let digest = digest.expect("a digest");
    let screen = terminal.run(&format!("hworker broken show {digest}"));
    assert!(screen.contains("x␛]2;owned␇␛[2J"), "{screen}");
    assert_ne!(terminal.tmux(&["display-message", "-p", "#{pane_title}"]).trim(), "owned");
    let screen = terminal.run(&format!("hworker broken show {digest} --raw"));
    assert!(screen.contains("not to a terminal") && screen.contains("code 6"), "{screen}");

    let destroy = "hworker queues destroy default; echo code $?";
    for (answer, code) in [("y", "code 6"), ("other", "code 6"), ("default", "code 0")] {
        let screen = terminal.type_until(destroy, "[type default]");
        assert!(screen.contains("destroy the queue default"), "{screen}");
        assert_eq!(server.redis().len("hworker-broken-default"), 1);
        terminal.press(answer);
        terminal.press("Enter");
        let screen = terminal.answer_until("\n$");
        assert!(screen.contains(code), "{answer}: {screen}");
    }
    assert_eq!(server.redis().len("hworker-broken-default"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ts12_colours_are_for_terminals() {
    // Guard: `Output::new`.
    let server = TestServer::start();
    let Some(terminal) = Terminal::open(&server) else { return };
    let colours = |line: &str| {
        terminal.run(line);
        terminal.tmux(&["capture-pane", "-p", "-e"])
    };
    let screen = colours("hworker doctor");
    assert!(screen.contains("\u{1b}[32mok") && screen.contains("\u{1b}[33mwarn"), "{screen:?}");
    assert!(!colours("NO_COLOR=1 hworker doctor").contains("\u{1b}[32m"));
    assert!(!colours("hworker doctor --color never").contains("\u{1b}[32m"));
    assert!(!colours("hworker doctor | cat").contains("\u{1b}[32m"));
}

#[tokio::test(flavor = "multi_thread")]
async fn op_top_shows_queues_live_and_pauses_one() {
    // Queues and the tables of one; a terminal that becomes narrow; a pause after a question, in the audit; a server that goes away; and a
    // terminal that is as it was afterwards.
    // Guard: `top::run`, `Screen` and `Looks`.
    let server = TestServer::alone();
    fail(&server, "fails", 2).await;
    server.enqueue("waits", Vec::new()).await;
    let Some(terminal) = Terminal::open(&server) else { return };
    terminal.type_until("hworker top --every 100ms; echo code $?", "? help");
    let screen = terminal.shows("the queue", |screen| screen.contains("> default"));
    let lines: Vec<_> = screen.lines().collect();
    assert!(lines[0].contains(server.url()) && lines[0].ends_with(" UTC"), "{screen}");
    assert!(lines[1].ends_with("waiting 1  failed 2  queues 1"), "{screen}");
    assert!(lines[3].starts_with("  QUEUE    WAIT ") && lines[3].ends_with("STATE"), "{screen}");
    assert!(lines[4].starts_with("> default  1 ") && lines[4].ends_with("no workers"), "{screen}");
    server.enqueue("waits too", Vec::new()).await;
    terminal.shows("one more", |screen| screen.contains("waiting 2 "));

    terminal.tmux(&["resize-window", "-x", "50", "-y", "20"]);
    let is_narrow = |screen: &str| screen.contains("> default") && !screen.contains("OLDEST");
    terminal.shows("fewer columns", is_narrow);
    terminal.tmux(&["resize-window", "-x", "120", "-y", "30"]);
    // tmux tells of a second size a while after the first.
    terminal.shows("all columns", |screen| screen.contains("OLDEST"));
    terminal.press("4");
    terminal.shows("failures", |screen| screen.contains("failure: smtp: 421"));
    terminal.press("Tab");
    terminal.press("2");
    terminal.shows("its workers", |screen| screen.contains("No worker serves default"));
    terminal.press("1");

    for (answer, said) in [("n", "nothing done"), ("y", "default paused")] {
        terminal.press("p");
        let screen = terminal.shows("a question", |screen| screen.contains("[y/N]"));
        assert!(screen.contains("pause the queue default, "), "{screen}");
        assert!(screen.contains("prefix hworker?"), "{screen}");
        terminal.press(answer);
        terminal.shows("what came of it", |screen| screen.contains(said));
    }
    terminal.shows("its state", |screen| {
        screen.lines().any(|line| line.starts_with("> default") && line.ends_with("  paused"))
    });
    let audit = server.client().audit_log(10).await.expect("an audit");
    assert_eq!((audit.len(), audit[0].action.as_str()), (2, "pause"), "{audit:?}");
    assert!(audit.iter().all(|entry| entry.who.starts_with("ada@")), "{audit:?}");

    server.process().kill();
    let screen = terminal.shows("an outage", |screen| screen.contains("NO ANSWER since"));
    assert!(screen.contains("figures are from then") && screen.contains("> default"), "{screen}");
    terminal.press("q");
    assert!(terminal.answer_until("\n$").contains("code 0"));
    // Lines are read as lines again.
    let screen = terminal.run("stty -a | grep -c ' icanon'");
    assert!(screen.starts_with("1\ncode 0"), "{screen}");
}
