//! The scripts of batches against their own model.

use std::collections::HashMap;

use hworker_model::relay::{Action, Callback, Note, Relay, Shown, State};
use hworker_tests::TestServer;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{Both, config, key, keys_of_settle, list, of_worker, text};

const BATCH: &str = "0190a6c2f3d47b8e9a1b2c3d4e5f6071";

const CALLBACKS: [Callback; 3] = [Callback::Failure, Callback::Settled, Callback::Success];

#[test]
fn batches_are_as_in_the_model() {
    // Members are taken, end well or not, run again, answers are lost, workers die and stand still, notes are delivered by anyone and as often as may be
    // -> after each step the batch, the notes and the callbacks that were enqueued are those of the model.
    let server = TestServer::start();
    proptest!(config(150), |(
        members in 1..=3_usize,
        is_open in any::<bool>(),
        picks in prop::collection::vec(any::<Index>(), 1..60)
    )| {
        run(&server, members, is_open, &picks);
    });
}

fn run(server: &TestServer, members: usize, is_open: bool, picks: &[Index]) {
    let mut all = All {
        both: Both::new(server),
        leases: HashMap::new(),
        notes: HashMap::new(),
        tokens: 1_000_000,
    };
    let mut args = ["import", "", "0", "", "", ""].map(str::to_owned).to_vec();
    for callback in CALLBACKS {
        let name = callback.name();
        let envelope = format!(r#"{{"id":"{name}","job":"act","args":{{}}}}"#);
        args.extend([name, "default", "", "", &envelope].map(str::to_owned));
    }
    assert_eq!(text(&all.both.script("create_batch", &[batch("")], &args)), "ok");
    if !is_open {
        all.add("all", members);
        all.apply(&["seal", "good", "-", "-"]);
    }
    let new = Relay::new(members, 3);
    let model = Relay { is_open, failures: 2, requeues: 1, lost: 3, deaths: 1, stalls: 1, ..new };
    let mut state = model.begin();
    // A name of its own for each add.
    for (step, pick) in picks.iter().enumerate() {
        let mut possible = Vec::new();
        model.possible(&state, &mut possible);
        if possible.is_empty() {
            break;
        }
        let action = *pick.get(&possible);
        let next = model.next(&state, action);
        all.act(action, &state, &next, step);
        state = next;
        assert_eq!(all.at_the_servers(), state.at_the_servers(), "after {action:?}");
    }
}

fn batch(what: &str) -> String {
    format!("hworker-batch-{BATCH}{what}")
}

struct All {
    both: Both,
    /// Under which lease each worker runs each member.
    leases: HashMap<(usize, usize), String>,
    notes: HashMap<Note, String>,
    tokens: u64,
}

impl All {
    fn keys() -> [String; 5] {
        ["", ":done", ":bad", ":fails", ":adds"].map(batch)
    }

    /// Gives numbers to so many, which are in.
    fn add(&mut self, name: &str, count: usize) {
        let words = ["", name, &count.to_string(), "t default 0-0", "default"].map(str::to_owned);
        let answer = list(&self.both.script("add_batch", &Self::keys(), &words));
        assert_eq!(answer[0], "ok");
        let answer = self.both.script("added_batch", &Self::keys(), &[name.to_owned()]);
        assert_eq!(list(&answer)[0], "ok");
    }

    fn apply(&mut self, words: &[&str]) {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let answer = list(&self.both.script("apply_batch", &Self::keys(), &words));
        assert_eq!(answer[0], "ok");
    }

    fn push(&mut self, callback: Callback) {
        let keys = ["jobs", "token", "bell", "scheduled"].map(key);
        let envelope = format!(r#"{{"id":"{}","job":"act","args":{{}}}}"#, callback.name());
        let words = [BATCH, callback.name(), "", "", "", "LPUSH", "1", &envelope];
        let answer = self.both.script("push_once", &keys, &words.map(str::to_owned));
        let answer = list(&answer);
        assert!(["ok", "again"].contains(&&*answer[0]), "{answer:?}");
    }

    fn did(&mut self, callback: Callback) {
        self.both.script("did_batch", &Self::keys(), &[callback.name().to_owned()]);
    }

    fn act(&mut self, action: Action, before: &State, after: &State, added: usize) {
        match action {
            Action::Add => self.add(&added.to_string(), 1),
            Action::Seal => self.apply(&["seal", "good", "-", "-"]),
            Action::Mind(callback) => {
                self.push(callback);
                self.did(callback);
            }
            Action::Reserve(worker, member) => {
                self.tokens += 1;
                let lease = self.tokens.to_string();
                let progress = of_worker("progress", worker as u8);
                let _: u64 = self.both.ask(&["HSET", &progress, &lease, "{}"]);
                self.leases.insert((worker, member), lease);
            }
            Action::End(worker, member, good, _) => {
                let lease = self.leases.remove(&(worker, member)).expect("it runs");
                let word = if good { "good" } else { "bad" };
                let note = format!("{BATCH} {member} {word} ended j{member}");
                let (outcome, most) = if good { ("done", "0") } else { ("failed", "1000") };
                let duties = ["record", outcome, "j", "-", most, "100000", "{}", ""];
                let settle = ["1000", "1000", "end", "act", &lease, "2"];
                let words: Vec<_> = settle
                    .iter()
                    .chain(&duties)
                    .chain(&["note", &note])
                    .map(|w| (*w).to_owned())
                    .collect();
                self.both.script("settle", &keys_of_settle(worker as u8), &words);
                // The one that is new.
                let old = before.notes();
                for note in after.notes().into_iter().filter(|note| !old.contains(note)) {
                    self.notes.insert(note, lease.clone());
                }
            }
            Action::Apply(_, note, _) => {
                let word = if note.good { "good" } else { "bad" };
                let (member, id) = (note.member.to_string(), format!("j{}", note.member));
                self.apply(&[&member, word, "ended", &id]);
            }
            Action::Push(_, _, callback, _) => self.push(callback),
            Action::Did(_, _, callback, _) => self.did(callback),
            Action::Drop(_, note) => {
                let lease = self.notes[&note].clone();
                let _: u64 = self.both.ask(&["HDEL", &(key("jobs") + ":notes"), &lease]);
            }
            Action::Recover(worker) => {
                let _: u64 = self.both.ask(&["DEL", &of_worker("progress", worker as u8)]);
            }
            Action::Write(..)
            | Action::Requeue(_)
            | Action::Die(_)
            | Action::Stall(_)
            | Action::Look(_)
            | Action::Replicate
            | Action::FailOver => {}
        }
    }

    fn at_the_servers(&mut self) -> Shown {
        let fields = ["ended", "bad", "failure", "settled", "success"];
        let batch_key = batch("");
        let words = [&["HMGET", &*batch_key], &fields[..]].concat();
        let found: Vec<Option<String>> = self.both.ask(&words);
        let number = |at: usize| {
            found[at].as_ref().map_or(0, |text: &String| text.parse().expect("a number"))
        };
        let stands = |at: usize| match found[at].as_deref() {
            Some("waits") => "waits",
            Some("due") => "due",
            Some("pushed") => "pushed",
            other => panic!("{other:?}"),
        };
        let (ended, bad, callbacks) = (number(0), number(1), [stands(2), stands(3), stands(4)]);
        let mut done = Vec::new();
        for member in 0..3 {
            let bit: u8 = self.both.ask(&["GETBIT", &batch(":done"), &member.to_string()]);
            done.extend((bit == 1).then_some(member));
        }
        let waiting: Vec<String> = self.both.ask(&["LRANGE", &key("jobs"), "0", "-1"]);
        let enqueued = CALLBACKS.map(|callback| {
            let is_it = |job: &&String| job.contains(&format!(r#""id":"{}""#, callback.name()));
            waiting.iter().filter(is_it).count() as u8
        });
        let notes: usize = self.both.ask(&["HLEN", &(key("jobs") + ":notes")]);
        Shown { ended, bad, done, callbacks, enqueued, notes }
    }
}
