//! Checks the protocol with as many jobs and faults as is asked for: `hworker-check [jobs [faults [fault..]]]`;
//! with `slots` there is one process with two of them, with `edit` an operator changes a job, with two of them two.

use hworker_check::check;
use hworker_model::{Allowed, Model};

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number =
        |default: u8| words.next().map_or(default, |word| word.parse().expect("a number"));
    let (jobs, faults) = (number(2), number(1));
    let mut allowed = Allowed::NONE;
    let (mut any, mut two_slots, mut edits) = (false, false, 0);
    for word in words {
        let any_before = any;
        any = true;
        match word.as_str() {
            "kill" => allowed.kill = true,
            "stop" => allowed.stop = true,
            "terminate" => allowed.terminate = true,
            "cut" => allowed.cut = true,
            "silence" => allowed.silence = true,
            "refuse" => allowed.refuse = true,
            "jump" => allowed.jump = true,
            "bury" => allowed.bury = true,
            "overdue" => allowed.overdue = true,
            "edit" => (edits, any) = (edits + 1, any_before),
            "slots" => (two_slots, any) = (true, any_before),
            _ => panic!("no such fault: {word}"),
        }
    }
    let allowed = if any { allowed } else { Allowed::ALL };
    let model = Model::new(jobs, faults, allowed).edits(edits);
    let model = if two_slots { model.two_slots() } else { model };
    let checked = check(model, 2);
    println!("{jobs} jobs, {faults} faults: {checked}");
    std::process::exit(i32::from(checked.broken.is_some()));
}
