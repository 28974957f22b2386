//! Rows CC14, SC15 and SC18: what programs declare in their code, and which of it is in force. Faults 22 and 23 of control.md.

use std::time::Duration;

use hworker::{Context, Control, Error, Registry, TableInfo};
use hworker_tests::{InProcess, Runner, Runs, TestServer, act};

use crate::cli::call;
use crate::{SOON, command};

/// Until a table whose workers have gone is in force no more: 15 s, and a heartbeat.
const GONE: Duration = Duration::from_secs(30);

/// The first release.
mod first {
    use super::*;

    #[hworker::job(
        name = "report",
        cron = "0 0 1 1 *",
        timezone = "Europe/Berlin",
        concurrency = 2
    )]
    pub(super) async fn report() {}

    #[hworker::job(name = "old", every = "3650d")]
    pub(super) async fn old() {}

    pub(super) fn jobs() -> Registry {
        Registry::new().with::<report>().with::<old>()
    }
}

/// The next.
mod second {
    use super::*;

    #[hworker::job(
        name = "report",
        cron("0 0 2 1 *", name = "report", overlap = "skip"),
        every("3650d", name = "other", args = (), splay = "1d", catch_up = "one"),
        concurrency = 5
    )]
    pub(super) async fn report() {}

    #[hworker::job(cron("@reboot", args = ("boot",)))]
    pub(super) async fn at_start(name: &str, context: Context, #[inject] runs: Runs) {
        runs.note(name, "end", 0, Runner::from(&context));
    }

    pub(super) fn jobs() -> Registry {
        Registry::new().with::<report>().with::<at_start>()
    }
}

fn control(server: &TestServer) -> Control {
    server.client().control("default")
}

fn run(server: &TestServer, jobs: Registry, app: &str) -> InProcess {
    InProcess::run(server.worker().registry(jobs).app(app).concurrency(2))
}

/// The names of the entries, each with its expression, and how many reports run at once.
async fn in_force(server: &TestServer) -> (Vec<(String, Option<String>)>, Option<u64>) {
    let crons = control(server).crons().await.expect("listed");
    let entries = crons.into_iter().map(|entry| (entry.name, entry.cron)).collect();
    let limits = control(server).limits().await.expect("listed");
    let report = limits.iter().find(|limit| limit.name == "report").and_then(|limit| limit.at_once);
    (entries, report)
}

fn of_first() -> (Vec<(String, Option<String>)>, Option<u64>) {
    (vec![("old".into(), None), ("report".into(), Some("0 0 1 1 *".into()))], Some(2))
}

fn of_second() -> (Vec<(String, Option<String>)>, Option<u64>) {
    let entries = vec![
        ("at_start".into(), Some("@reboot".into())),
        ("other".into(), None),
        ("report".into(), Some("0 0 2 1 *".into())),
    ];
    (entries, Some(5))
}

async fn tables(server: &TestServer) -> Vec<TableInfo> {
    control(server).tables().await.expect("listed")
}

#[tokio::test(flavor = "multi_thread")]
async fn cc14_sc18_the_newest_release_that_lives_is_in_force() {
    // A new release brings what it adds and takes what it removes, at once, and old workers beside it take nothing back. When the last new one
    // has gone, the old one is in force again; pinned, the old one is while the new one lives. What somebody set holds all the while.
    // Guard: the comparison in declare.lua.
    let server = TestServer::start();
    let old = run(&server, first::jobs(), "shop");
    server
        .eventually_async("the first", SOON, async || in_force(&server).await == of_first())
        .await;
    let new = run(&server, second::jobs(), "shop");
    server
        .eventually_async("the second", SOON, async || in_force(&server).await == of_second())
        .await;
    server.eventually("once for its table", SOON, || server.ended("boot") == 1);
    // A worker of the old release starts, and others go on: it takes nothing back.
    let late = run(&server, first::jobs(), "shop");
    server
        .eventually_async("all tell", SOON, async || {
            tables(&server).await.iter().filter(|table| table.is_live).count() == 2
        })
        .await;
    server.holds("nothing is taken back", Duration::from_secs(4), || {
        let now = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(in_force(&server))
        });
        now == of_second()
    });
    let known = tables(&server).await;
    let newest = known.iter().find(|table| table.in_force).expect("one is").clone();
    let oldest = known.iter().find(|table| !table.in_force).expect("one is not").clone();
    assert!(newest.first_seen > oldest.first_seen && newest.app == "shop");
    // A canary: the fleet stays at the old one.
    control(&server).pin_table("shop", &oldest.hash).await.expect("pinned");
    server.eventually_async("pinned", SOON, async || in_force(&server).await == of_first()).await;
    assert!(tables(&server).await.iter().any(|table| table.is_pinned && table.hash == oldest.hash));
    assert!(control(&server).unpin_table("shop").await.expect("unpinned"));
    server
        .eventually_async("unpinned", SOON, async || in_force(&server).await == of_second())
        .await;
    let unknown = control(&server).pin_table("shop", "0").await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })), "{unknown:?}");
    // What somebody set wins over any release.
    control(&server).limit("report").set(9).await.expect("set");
    control(&server).cron("report").pause().await.expect("paused");
    new.stop().await;
    server
        .eventually_async("the first again", GONE, async || {
            in_force(&server).await == (of_first().0, Some(9))
        })
        .await;
    let report = control(&server).cron("report").info().await.expect("looked").expect("there");
    assert!(report.paused.is_some(), "it stays paused over deploys");
    assert_eq!(server.ended("boot"), 1);
    // What somebody removed is written again.
    command(&server, &["DEL", "hworker-jobs-default:control", "hworker-jobs-default:cron"], []);
    server
        .eventually_async("it is there again", SOON, async || in_force(&server).await == of_first())
        .await;
    let declared = control(&server).cron("old").remove().await;
    assert!(declared.is_err_and(|why| why.to_string().contains("declared in code")));
    old.stop().await;
    late.stop().await;
    // Of a program that has gone somebody removes what it left.
    server
        .eventually_async("it is removed", GONE, async || {
            control(&server).cron("old").remove().await.is_ok()
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_22_who_takes_over_and_who_may_not_says_so_in_its_log() {
    // A laptop is seen first, and production under the same name after it -> production's table is in force, and its log names program, queue, its own
    // hash and that of the laptop. Another program's table takes nothing. Production is pinned, and a third build comes -> its log says that it is
    // not in force, and which is.
    // Guard: both lines of `try_declare` in table.rs.
    let server = TestServer::start();
    let _laptop = run(&server, first::jobs(), "shop");
    server
        .eventually_async("the laptop", SOON, async || in_force(&server).await == of_first())
        .await;
    let of_app = async |app: &str| -> Option<String> {
        let tables = tables(&server).await.into_iter();
        tables.filter(|table| table.app == app && table.in_force).map(|table| table.hash).next()
    };
    let line = |process: usize, text: &str| -> Option<String> {
        let log = server.dir().join(format!("process-{process}.log"));
        let log = std::fs::read_to_string(log).unwrap_or_default();
        log.lines().find(|line| line.contains(text)).map(str::to_owned)
    };
    let (takes, stays) = ("in its code is in force now", "in its code is not in force");
    let before = of_app("shop").await.expect("one is");
    let _production = server.worker_process(&[("HWORKER_APP", "shop")]);
    server.eventually("it is logged", SOON, || line(0, takes).is_some());
    let hash = of_app("shop").await.expect("one is");
    let said = line(0, takes).expect("a line");
    let parts = [
        "INFO".to_owned(),
        "queue=default".to_owned(),
        "app=shop".to_owned(),
        format!("hash={hash}"),
        format!("before=\"{before}\""),
    ];
    assert!(hash != before && parts.iter().all(|part| said.contains(part)), "{said}");
    let _other = server.worker_process(&[("HWORKER_APP", "other")]);
    server
        .eventually_async("another program", SOON, async || of_app("other").await.is_some())
        .await;
    assert_eq!(of_app("shop").await, Some(hash.clone()));
    control(&server).pin_table("shop", &hash).await.expect("pinned");
    let mut build = server.command("test-deploy");
    build.env("HWORKER_APP", "shop");
    let _third = hworker_tests::Process::start(build);
    server.eventually("it says that it is not", SOON, || line(2, stays).is_some());
    let said = line(2, stays).expect("a line");
    assert!(said.contains(&format!("in_force=\"{hash}\"")), "{said}");
    assert_eq!((line(2, takes), of_app("shop").await), (None, Some(hash)));
    assert!(tables(&server).await.iter().any(|table| table.app == "shop" && table.is_pinned));
}

/// It declares nothing any more.
#[hworker::job(name = "report")]
async fn plain_report() {}

#[tokio::test(flavor = "multi_thread")]
async fn sc18_a_release_that_declares_nothing_takes_all_back() {
    // Guard: `is_to_declare` in heartbeat.lua, where the table is empty.
    let server = TestServer::start();
    let _old = run(&server, first::jobs(), "shop");
    server
        .eventually_async("the first", SOON, async || in_force(&server).await == of_first())
        .await;
    let _new = run(&server, Registry::new().with::<plain_report>(), "shop");
    server
        .eventually_async("nothing is declared", SOON, async || {
            in_force(&server).await == (Vec::new(), None)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_keeps_no_worker_from_its_jobs() {
    for key in ["cron", "tables", "timers"] {
        let server = TestServer::start();
        let key = format!("hworker-jobs-default:{key}");
        command(&server, &["SET", &key, "x"], []);
        let jobs = first::jobs().with::<act>();
        let _worker = run(&server, jobs, "shop");
        server.enqueue("a", Vec::new()).await;
        server.eventually("it runs", SOON, || server.ended("a") == 1);
        // Somebody mends it.
        command(&server, &["DEL", &key], []);
        server
            .eventually_async("and the rest comes", SOON, async || {
                control(&server).crons().await.is_ok_and(|crons| crons.len() == 2)
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sc18_what_is_set_at_run_time_wins_over_code_until_it_is_removed() {
    // An entry that somebody sets over one of code's holds over deploys; removed, code's is there again; one that code alone declares is
    // not removed. What another program declares goes on.
    let server = TestServer::start();
    let own = act::with("own".into(), Vec::new()).cron("0 0 3 1 *");
    control(&server).cron("report").upsert(own).await.expect("set");
    let mine = act::with("mine".into(), Vec::new()).cron("0 0 4 1 *");
    control(&server).cron("mine").upsert(mine).await.expect("set");
    let _shop = run(&server, first::jobs(), "shop");
    let _other = run(&server, hworker_tests::common_jobs(), "other");
    let names = async || -> Vec<String> {
        control(&server)
            .crons()
            .await
            .expect("listed")
            .into_iter()
            .map(|entry| entry.name)
            .collect()
    };
    server
        .eventually_async("both are there", SOON, async || {
            names().await == ["mine", "old", "report"]
        })
        .await;
    let report = control(&server).cron("report").info().await.expect("looked").expect("there");
    assert_eq!((report.cron.as_deref(), report.is_set), (Some("0 0 3 1 *"), true));
    control(&server).cron("report").remove().await.expect("removed");
    let report = control(&server).cron("report").info().await.expect("looked").expect("there");
    assert_eq!((report.cron.as_deref(), report.is_set), (Some("0 0 1 1 *"), false));
    assert!(report.next.is_some());
    let refused = control(&server).cron("report").remove().await;
    assert!(refused.is_err_and(|why| why.to_string().contains("declared in code")));
    let of_others = tables(&server).await;
    assert_eq!(of_others.iter().filter(|table| table.in_force).count(), 2, "{of_others:?}");
    let _new = run(&server, second::jobs(), "shop");
    server
        .eventually_async("the next release", SOON, async || {
            names().await == ["at_start", "mine", "other", "report"]
        })
        .await;
    let listed = call(&server, &["--json", "tables", "ls"]);
    let rows = listed.json();
    assert!(
        rows.iter().any(|row| row["app"] == "shop" && row["in_force"] == true),
        "{}",
        listed.out
    );
    let hash =
        rows.iter().find(|row| row["app"] == "shop" && row["in_force"] == true).expect("one");
    let hash = hash["hash"].as_str().expect("a text");
    assert_eq!(call(&server, &["tables", "pin", "shop", hash]).code, 0);
    assert_eq!(call(&server, &["tables", "pin", "shop", "--newest"]).code, 0);
    assert_eq!(call(&server, &["tables", "pin", "shop", "0"]).code, 3);
}
