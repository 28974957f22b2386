//! The page in a browser: what stands in `tests/browser`, one group of checks in each test. Row I14.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hworker::web::{Access, Operator, Role, Web};
use hworker_tests::{Proxy, TestServer, act, program};

use crate::SOON;
use crate::living::Living;
use crate::site::Site;

/// Where the checks are.
const CHECKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/browser");

/// Node and Chromium.
struct Browser {
    node: PathBuf,
    chromium: PathBuf,
}

impl Browser {
    /// `None`, with a word, where they are not here.
    fn find() -> Option<Self> {
        let (node, chromium) = (program("node")?, program("chromium")?);
        if !Path::new(CHECKS).join("node_modules/playwright-core").exists() {
            let required = std::env::var("HWORKER_MATRIX").is_ok_and(|matrix| matrix == "required");
            assert!(!required, "playwright-core is missing (script/setup --matrix installs it)");
            eprintln!("skipped: playwright-core is missing (script/setup --matrix installs it)");
            return None;
        }
        Some(Self { node, chromium })
    }

    fn command(&self, group: &str, site: &Site, more: &[&str]) -> Command {
        let mut command = Command::new(&self.node);
        command.current_dir(CHECKS).env("CHROMIUM", &self.chromium).arg(format!("{group}.mjs"));
        command.arg(format!("http://{}", site.address)).args(more);
        command
    }

    /// Runs a group of checks.
    #[track_caller]
    fn check(&self, group: &str, site: &Site, more: &[&str]) {
        let output = self.command(group, site, more).output().expect("node runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{group} {more:?}:\n{said}");
    }
}

/// Whoever asks is an admin, unless a header says otherwise.
async fn living() -> Living {
    let access = Access::custom(|request| {
        let name = request.headers.get("x-user").and_then(|name| name.to_str().ok());
        Some(match name.unwrap_or("admin") {
            "viewer" => Operator::new("viewer", Role::Viewer).hide_args(),
            name => Operator::new(name, Role::Admin),
        })
    });
    Living::start(|web| web.access(access).router()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn i14_each_page_is_whole_whatever_it_shows() {
    // Fault 31: every page, narrow and wide, dark and light, with hostile texts in every field -> nothing of them runs, the policy of the page has
    // nothing to tell, axe-core finds nothing, nothing is too wide; a viewer has no action, and sees no argument.
    // Guard: maud escapes, and what others wrote passes through `text`; `View::may`; the widths of `app.css`.
    let Some(browser) = Browser::find() else { return };
    let living = living().await;
    living.fill_with_hostile().await;
    browser.check("pages", &living.site, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn i14_each_action_with_the_mouse() {
    // Row RL10 too: every action that there is, from its button over its question to its note and the audit -> it has come true.
    // Guard: `act::act`; `ask` of the script, which shows questions as dialogs.
    let Some(browser) = Browser::find() else { return };
    browser.check("actions", &living().await.site, &["mouse"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn i14_each_action_with_the_keyboard() {
    // The same by Tab, Enter and Space alone, with the focus in sight.
    // Guard: buttons and links are such elements; `outline` of `app.css`; `show` gives the focus to the dialog.
    let Some(browser) = Browser::find() else { return };
    browser.check("actions", &living().await.site, &["keys"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn i14_each_action_without_script() {
    // The same in a browser that runs no script.
    // Guard: `Question::page` is a whole page; menus are `details`.
    let Some(browser) = Browser::find() else { return };
    browser.check("actions", &living().await.site, &["no-script"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn is9_a_live_update_takes_nothing_from_the_hand() {
    // Fault 50: a hundred updates beside a focus, a selection, an open menu, a text half written -> all stay, and the rest of the page goes on.
    // Guard: `isInUse` and `chosen` of the script.
    let Some(browser) = Browser::find() else { return };
    browser.check("live", &living().await.site, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ob6_charts_are_drawn_as_things_were() {
    // Faults 27 and 43: an outage is a gap at its place, and no spike stands behind it; when the clocks change, labels follow the reader's zone,
    // and nothing else does.
    // Guard: `History::sum` has a point for each minute; `data-at` is in UTC, and `localize` writes labels alone.
    let Some(browser) = Browser::find() else { return };
    let server = TestServer::alone();
    let site = Site::serve(Web::new(server.client().clone()).access(Access::local()).router());
    server.enqueue("waits", vec![]).await;
    let minute = server.redis().time_us() / 60_000_000 * 60;
    // Ten jobs a minute, but for the twenty minutes of an outage.
    for ago in (5..55).filter(|ago| !(20..40).contains(ago)) {
        let key = format!("hworker-chart-default:1:{}", minute - ago * 60);
        let _: u64 = server.redis().ask(&["HSET", &key, "act", "10 0 2 1000 1000|6:12|6:12"]);
    }
    browser.check("charts", &site, &[&(minute * 1_000).to_string()]);
}

#[test]
fn is9_a_closed_tab_asks_for_nothing() {
    // Fault 20: a search in a tab, with its live numbers, and the tab is closed while the browser goes on -> the server is asked for nothing more.
    // Guard: a stream of events ends with its connection, and nobody looks without one.
    let Some(browser) = Browser::find() else { return };
    let server = TestServer::alone();
    let proxy = Proxy::before(&server);
    for number in 0..2_000 {
        act::with(format!("{number}"), vec![])
            .on(server.client())
            .enqueue_blocking()
            .expect("enqueued");
    }
    let site = Site::serve(Web::new(proxy.client()).access(Access::local()).router());
    let mut command = browser.command("closed", &site, &[]);
    let mut node = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("node runs");
    let said = BufReader::new(node.stdout.take().expect("its output")).lines().next();
    assert!(said.is_some_and(|line| line.is_ok_and(|line| line == "closed")));
    let mut last = (proxy.requests(), Instant::now());
    server.eventually("nobody asks any more", SOON, || {
        if proxy.requests() != last.0 {
            last = (proxy.requests(), Instant::now());
        }
        last.1.elapsed() > Duration::from_secs(5)
    });
    drop(node.stdin.take());
    assert!(node.wait().expect("it ends").success());
}
