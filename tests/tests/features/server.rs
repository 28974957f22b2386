//! Rows HA: the server, and what is asked of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hworker::{Registry, State};
use hworker_tests::{Act, InProcess, Proxy, TestServer, act, act_once, servers};

use crate::SOON;

/// What the worker processes of a test logged.
fn log(server: &TestServer) -> String {
    std::fs::read_to_string(server.dir().join("process-0.log")).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn ha5_dangerous_settings_of_the_server() {
    // A server that deletes keys when its memory is full: the worker says so at its start, and what to set; it works all the
    // same. One that does not, or that does not let itself be asked, is no reason for a word.
    let start = |policy: &str| TestServer::builder().arg("--maxmemory-policy", policy).start();
    for policy in ["allkeys-lru", "volatile-ttl"] {
        let server = start(policy);
        let _worker = server.worker_process(&[("HWORKER_LOG", "warn")]);
        server.enqueue("works", Vec::new()).await;
        server.eventually("the job runs", SOON, || server.ended("works") == 1);
        let log = log(&server);
        let warnings: Vec<_> = log.lines().filter(|line| line.contains("WARN")).collect();
        assert_eq!(warnings.len(), 1, "{log}");
        let what = format!("maxmemory-policy is {policy}");
        assert!(warnings[0].contains(&what), "{log}");
        assert!(warnings[0].contains("set it to noeviction"), "{log}");
    }
    let quiet = [start("noeviction"), TestServer::start()];
    let forbidden = ["ACL", "SETUSER", "default", "-info", "-config"];
    let _: String = quiet[1].redis().ask(&forbidden);
    for server in quiet {
        let _worker = server.worker_process(&[("HWORKER_LOG", "warn")]);
        server.enqueue("works", Vec::new()).await;
        server.eventually("the job runs", SOON, || server.ended("works") == 1);
        assert_eq!(log(&server), "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ha6_redis_and_valkey() {
    // The life of a job on each server of the matrix: now, later, again, failed, broken, given back by a worker that was killed.
    for program in servers() {
        let server = TestServer::builder().program(program.as_deref()).start();
        let info: String = server.redis().ask(&["INFO", "server"]);
        let field = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name));
            value.unwrap_or_default().trim().to_owned()
        };
        let valkey = field("valkey_version:");
        println!("on Redis {} {}", field("redis_version:"), valkey);
        if let Some(program) = program {
            let name = program.file_name().expect("a name").to_string_lossy().into_owned();
            assert_eq!(name.contains("valkey"), !valkey.is_empty(), "{name}: {info}");
        }
        let mut worker = server.worker_process(&[]);
        server.enqueue("held", vec![vec![Act::Gate("never".into())], vec![]]).await;
        server.eventually("it runs", SOON, || server.begun("held") == 1);
        worker.kill();
        let worker = server.worker_process(&[]);
        server.enqueue("now", Vec::new()).await;
        let later = act::with("later".into(), Vec::new()).delay(Duration::from_millis(300));
        later.on(server.client()).enqueue().await.expect("enqueued");
        server.enqueue("again", vec![vec![Act::RetryIn(200)], vec![]]).await;
        let once = act_once::with("once".into(), vec![vec![Act::Panic("p".into())]]);
        once.on(server.client()).enqueue().await.expect("enqueued");
        server.redis().ask::<u64>(&["LPUSH", "hworker-jobs-default", "{"]);
        for name in ["now", "later", "again", "held"] {
            server.eventually(name, SOON, || server.ended(name) == 1);
        }
        let failed = ("hworker-failed-default".to_owned(), 1);
        let broken = ("hworker-broken-default".to_owned(), 1);
        server.eventually("all are settled", SOON, || {
            let left = server.leftovers("default");
            left.len() == 2 && left.contains(&failed) && left.contains(&broken)
        });
        assert_eq!((server.begun("held"), server.counter("recovered")), (2, 1));
        drop(worker);
    }
}

/// Where a job says that it ran.
#[derive(Clone, Default)]
struct Ran(Arc<AtomicUsize>);

impl Ran {
    fn one_more(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[hworker::job(queue = "ha8-0")]
async fn on_a_queue(State(ran): State<Ran>) {
    ran.one_more();
}

macro_rules! queues {
    ($($name:ident $queue:literal)*) => {
        $(
            #[hworker::job(queue = $queue)]
            async fn $name(State(ran): State<Ran>) {
                ran.one_more();
            }
        )*

        fn other_queues(registry: Registry) -> Registry {
            registry$(.with::<$name>())*
        }

        /// Enqueues a job on each of the other queues.
        async fn one_on_each(server: &TestServer) {
            $($name::with().on(server.client()).enqueue().await.expect("enqueued");)*
        }
    };
}

queues! {
    ha8_1 "ha8-1" ha8_2 "ha8-2" ha8_3 "ha8-3" ha8_4 "ha8-4" ha8_5 "ha8-5" ha8_6 "ha8-6" ha8_7 "ha8-7"
    ha8_8 "ha8-8" ha8_9 "ha8-9" ha8_10 "ha8-10" ha8_11 "ha8-11" ha8_12 "ha8-12" ha8_13 "ha8-13" ha8_14 "ha8-14"
    ha8_15 "ha8-15"
}

/// A worker behind a proxy that counts its requests.
struct Counted {
    server: TestServer,
    proxy: Proxy,
    ran: Ran,
    _worker: InProcess,
}

impl Counted {
    fn start(registry: Registry, slots: usize) -> Self {
        let server = TestServer::start();
        let proxy = Proxy::before(&server);
        let ran = Ran::default();
        let worker = server.worker().registry(registry).client(&proxy.client());
        let worker = InProcess::run(worker.state(ran.clone()).concurrency(slots));
        Self { server, proxy, ran, _worker: worker }
    }

    /// What it sent that is not a heartbeat's.
    fn requests(&self) -> usize {
        ["reserve", "settle", "release", "BLMOVE"].map(|name| self.proxy.count(name)).iter().sum()
    }

    /// Runs jobs that come one after the other on one queue, and gives how many requests each takes.
    async fn requests_for_each_of(&self, jobs: usize) -> f64 {
        let before = self.requests();
        let ran = self.ran.count();
        for number in 1..=jobs {
            on_a_queue::with().on(self.server.client()).enqueue().await.expect("enqueued");
            self.server.eventually("it runs", SOON, || self.ran.count() == ran + number);
            self.server
                .eventually("it is settled", SOON, || self.server.leftovers("ha8-0").is_empty());
        }
        (self.requests() - before) as f64 / jobs as f64
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ha8_many_queues_cost_no_more_commands() {
    // What a worker asks for a job does not grow with the number of queues that it serves, have it more slots than queues or
    // fewer; and it waits on all of them.
    let one_queue = || Registry::new().with::<on_a_queue>();
    for slots in [1, 10, 20] {
        let one = Counted::start(one_queue(), slots);
        let sixteen = Counted::start(other_queues(one_queue()), slots);
        let waits = || sixteen.proxy.count("BLMOVE");
        sixteen.server.eventually("each queue has its wait", SOON, || waits() >= 16);
        one.requests_for_each_of(1).await;
        let one = one.requests_for_each_of(50).await;
        let many = sixteen.requests_for_each_of(50).await;
        println!("with {slots} slots: {one} requests a job on one queue, {many} on one of sixteen");
        assert!(many <= one + 0.5, "{one} requests a job, {many} with sixteen queues");

        let ran = sixteen.ran.count();
        one_on_each(&sixteen.server).await;
        let all = || sixteen.ran.count() == ran + 15;
        sixteen.server.eventually("the jobs of the other queues run", SOON, all);
    }
}
