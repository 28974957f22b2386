//! The scripts of jobs for each worker against their own model.

use hworker_model::broadcast::{Action, Broadcast, State};
use hworker_tests::TestServer;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{Both, config, ends, key, keys_of_settle, list, of_worker, text};

const ID: &str = "01995f3c-0000-7000-8000-000000000001";

const ENVELOPE: &str = r#"{"id":"01995f3c-0000-7000-8000-000000000001","job":"act","args":{}}"#;

const WORKERS: u8 = 3;

#[test]
fn broadcasts_are_as_in_the_model() {
    // Workers take a job for each of them, or for some, end it, fail, give it back, lose answers, stand still and die, in any order -> after each step
    // the server has of each worker what the model has, and whoever is not to have it gets none.
    let server = TestServer::start();
    proptest!(config(150), |(
        wanted in 1..=usize::from(WORKERS),
        picks in prop::collection::vec(any::<Index>(), 1..40)
    )| {
        run(&server, wanted, &picks);
    });
}

fn run(server: &TestServer, wanted: usize, picks: &[Index]) {
    let mut all = All { both: Both::new(server), leases: [const { None }; WORKERS as usize] };
    for worker in 0..WORKERS {
        all.both.reconcile(worker, true);
    }
    // All of them are as many as there are.
    let most = if wanted == usize::from(WORKERS) { 0 } else { wanted };
    let args = [ID, &most.to_string(), "600000", "100", "act", ENVELOPE].map(str::to_owned);
    let taken_in = all.both.script("broadcast", &[key("jobs")], &args);
    assert_eq!(text(&taken_in), "ok");
    let new = Broadcast::new(usize::from(WORKERS), wanted);
    let model = Broadcast { failures: 9, lost: 9, deaths: 2, stalls: 2, ..new };
    let mut state = model.begin();
    for pick in picks {
        let mut possible = Vec::new();
        model.possible(&state, &mut possible);
        if possible.is_empty() {
            break;
        }
        all.refuses_others(&possible);
        let action = *pick.get(&possible);
        all.act(action, &state);
        state = model.next(&state, action);
        assert_eq!(all.at_the_server(), state.at_the_server(), "after {action:?}");
    }
}

struct All {
    both: Both,
    /// The last that each worker knows of.
    leases: [Option<String>; WORKERS as usize],
}

impl All {
    fn take(&mut self, worker: u8) -> Vec<String> {
        let keys = [of_worker("worker", worker), of_worker("progress", worker)];
        let keys = [&keys[..], &[key("token"), key("jobs"), key("bell")]].concat();
        list(&self.both.script("take_broadcast", &keys, &["1", ID, "act"].map(str::to_owned)))
    }

    /// Who is not to have it gets none, and is told so.
    fn refuses_others(&mut self, possible: &[Action]) {
        for worker in 0..WORKERS {
            let is_open = possible.contains(&Action::Take(usize::from(worker), true));
            let (leases, _) = self.held(worker);
            // One that is dead, or stands still, asks for none.
            let lives = !possible.contains(&Action::Recover(usize::from(worker)));
            if !is_open && lives && leases.is_empty() {
                let answer = self.take(worker);
                assert!(["gone", "void"].contains(&&*answer[0]), "{worker}: {answer:?}");
            }
            let keys = [key("jobs"), of_worker("progress", worker)];
            let found = list(&self.both.script("find_broadcasts", &keys, &[]));
            assert!(!is_open || found == [ID], "{worker}: {found:?}");
        }
    }

    fn act(&mut self, action: Action, before: &State) {
        match action {
            Action::Take(worker, answered) => {
                let answer = self.take(worker as u8);
                assert_eq!((&*answer[0], &*answer[2]), ("ok", ENVELOPE));
                if answered {
                    self.leases[worker] = Some(answer[1].clone());
                }
            }
            Action::Done(worker) => {
                let lease = self.leases[worker].clone().expect("it runs");
                let claims = before.at_the_server();
                let ended = claims.iter().filter(|(claim, _)| *claim == Some('d')).count();
                // With a record, or without.
                if ended.is_multiple_of(2) {
                    self.settle(worker, &["ack", "act", "1", &lease, "0"].map(str::to_owned));
                } else {
                    let record = ["record", "failed", ID, "-", "1000", "100000", "{}", ""];
                    self.settle(worker, &ends("act", lease, &record));
                }
            }
            Action::Retry(worker) => {
                let lease = self.leases[worker].clone().expect("it runs");
                self.settle(worker, &ends("act", lease, &["retry", "0", ENVELOPE]));
            }
            Action::GiveBack(worker) => {
                let (leases, _) = self.held(worker as u8);
                let keys = ["jobs", "scheduled", "bell"].map(key);
                let progress = of_worker("progress", worker as u8);
                let keys = [&[progress], &keys[..], &[of_worker("worker", worker as u8)]].concat();
                let args = [leases[0].clone(), "0".to_owned(), String::new()];
                assert_eq!(text(&self.both.script("release", &keys, &args)), "1");
            }
            Action::Retire(worker) => {
                let own = ["worker", "progress", "inbox"].map(|kind| of_worker(kind, worker as u8));
                let keys = [&own[..], &["jobs", "timer", "workers"].map(key)].concat();
                self.both.script("retire", &keys, &[format!("w.{worker}")]);
            }
            Action::Recover(worker) => self.recover(worker as u8),
            Action::Die(_) | Action::Stall(_) => {}
        }
    }

    fn settle(&mut self, worker: usize, ends: &[String]) {
        let args = [&["1000".to_owned(), "1000".to_owned()], ends].concat();
        self.both.script("settle", &keys_of_settle(worker as u8), &args);
    }

    fn recover(&mut self, worker: u8) {
        let own = ["worker", "progress", "inbox"].map(|kind| of_worker(kind, worker));
        let of_queue = [key("jobs"), key("stat"), key("stat") + ":20260101"];
        let keys = [&[key("workers")], &own[..], &of_queue[..]].concat();
        let id = format!("w.{worker}");
        let seen: String = self.both.ask(&["ZSCORE", &key("workers"), &id]);
        let (leases, _) = self.held(worker);
        let mut args = vec![id, seen, "1000".to_owned()];
        for lease in leases {
            args.extend([lease, ENVELOPE.to_owned()]);
        }
        assert_eq!(list(&self.both.script("recover", &keys, &args))[0], "ok");
    }

    /// The leases of a worker, and what is noted of it.
    fn held(&mut self, worker: u8) -> (Vec<String>, Option<String>) {
        let progress = of_worker("progress", worker);
        let leases = self.both.ask(&["HKEYS", &progress]);
        let of_id = key("jobs") + ":broadcast:" + ID;
        (leases, self.both.ask(&["HGET", &of_id, &progress]))
    }

    fn at_the_server(&mut self) -> Vec<(Option<char>, bool)> {
        let of = |worker| {
            let (leases, claim) = self.held(worker);
            assert!(leases.len() < 2, "{leases:?}");
            (claim.and_then(|claim| claim.chars().next()), !leases.is_empty())
        };
        (0..WORKERS).map(of).collect()
    }
}
