//! The scripts of bulks of which all jobs come or none, against their own model.

use hworker_model::staged::{Action, Call, MARK, Staged};
use hworker_tests::TestServer;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{Both, config, envelope, job, key, text};

const BULK: &str = "0190a6c2f3d47b8e9a1b2c3d4e5f6071";

#[test]
fn bulks_are_as_in_the_model() {
    // Jobs are put aside, committed and moved, answers are lost, calls come late, the producer gives up or dies, a worker goes on, an hour goes by, in any
    // order -> after each step the server has put aside, and has in the queue, what the model has, and somebody is to go on where the model says so.
    let server = TestServer::start();
    proptest!(config(150), |(
        jobs in 1..=4_u8,
        picks in prop::collection::vec(any::<Index>(), 1..40)
    )| {
        let mut all = All { both: Both::new(&server), jobs };
        let model = Staged { lost: 9, late: 9, ..Staged::new(jobs) };
        let mut state = model.begin();
        for pick in &picks {
            let mut possible = Vec::new();
            model.possible(&state, &mut possible);
            // So that it comes to its end at times.
            let is_long = possible.len() > 2;
            possible.retain(|action| !is_long || !matches!(action, Action::Die | Action::GiveUp));
            if possible.is_empty() {
                break;
            }
            let action = *pick.get(&possible);
            state = model.next(&state, action);
            all.act(action);
            assert_eq!(all.at_the_server(), state.at_the_server(), "after {action:?}");
        }
    });
}

struct All {
    both: Both,
    jobs: u8,
}

impl All {
    fn staged() -> String {
        format!("{}:staged:{BULK}", key("jobs"))
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Answered(call) | Action::Lost(call) | Action::Come(_, call) => self.call(call),
            Action::GoOn => {
                // As if two seconds had gone by.
                let timers = format!("{}:timers", key("jobs"));
                let _: u64 = self.both.ask(&["ZADD", &timers, "XX", "0", &format!("%{BULK}")]);
                let keys = ["scheduled", "jobs", "token", "bell"].map(key);
                self.both.script("promote", &keys, &["1", "1000000", "0"].map(str::to_owned));
            }
            Action::GiveUp | Action::Expire => {
                _ = self.both.ask::<u64>(&["EXPIRE", &Self::staged(), "0"]);
            }
            Action::Die | Action::Delay(_) => {}
        }
    }

    fn call(&mut self, call: Call) {
        if let Call::Stage(job) = call {
            let args = [BULK.to_owned(), job.to_string(), envelope(job)];
            let said = text(&self.both.script("stage", &[key("jobs")], &args));
            assert!(["ok", "gone"].contains(&&*said), "{said}");
            return;
        }
        let keys = ["jobs", "scheduled", "token", "bell"].map(key);
        let want = if call == Call::Move { "1" } else { "0" };
        let args = [BULK, &self.jobs.to_string(), want, "1000000"].map(str::to_owned);
        self.both.script("commit", &keys, &args);
    }

    fn at_the_server(&mut self) -> (Vec<u8>, Vec<u8>, bool) {
        let staged: Vec<String> = self.both.ask(&["LRANGE", &Self::staged(), "0", "-1"]);
        let queue: Vec<String> = self.both.ask(&["LRANGE", &key("jobs"), "0", "-1"]);
        let timers = format!("{}:timers", key("jobs"));
        let timer: Option<f64> = self.both.ask(&["ZSCORE", &timers, &format!("%{BULK}")]);
        let of = |element: &String| if element == "!" { MARK } else { job(element) };
        let ttl: i64 = self.both.ask(&["TTL", &Self::staged()]);
        let is_open = staged.last().is_some_and(|last| last != "!");
        assert_eq!(ttl > 0, is_open || staged.len() == 1, "what is committed stays");
        let queue = queue.iter().rev().map(of).collect();
        (staged.iter().map(of).collect(), queue, timer.is_some())
    }
}
