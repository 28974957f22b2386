//! A type that serde cannot store is one error, which says which it is and what to do.

use hworker::__private::serde;

struct Neither;

#[derive(serde::Serialize)]
#[serde(crate = "hworker::__private::serde")]
struct WriteOnly;

#[hworker::job]
async fn neither(good: u8, bad: Neither, also_good: String) {
    let _ = (good, bad, also_good);
}

#[hworker::job]
async fn only_written(list: Vec<WriteOnly>) {
    let _ = list;
}

#[hworker::job]
async fn lent(slice: &[Neither], single: &Neither) {
    let _ = (slice, single);
}

fn main() {
    let _ = neither::enqueue(1, Neither, String::new());
    let _ = only_written::with(vec![WriteOnly]);
}
