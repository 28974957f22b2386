//! Jobs that macros write, whose fragments come in invisible groups.
#![deny(warnings)]
#![allow(unused_parens)]

#[derive(hworker::__private::serde::Serialize, hworker::__private::serde::Deserialize)]
#[serde(crate = "hworker::__private::serde")]
pub struct Local(u8);

macro_rules! job {
    ($vis:vis $name:ident($argument:ident: $type:ty, $state:ty) for $timeout:literal, $on_error:path) => {
        #[hworker::job(timeout = $timeout, on_error = $on_error)]
        $vis async fn $name($argument: $type, crates: $crate::Local, lent: &$type, x: u8, state: $state) {
            let x = x + 1;
            let _ = ($argument, crates, lent, state, x);
        }
    };
}

fn decide(_: &(dyn std::error::Error + Send + Sync + 'static)) -> hworker::OnFault {
    hworker::OnFault::Retry
}

// The `x` here and the `x` in the macro are two names, but the fields and arguments of one job.
job!(pub(crate) one(y: Vec<u8>, hworker::State<u8>) for "5s", decide);

macro_rules! lent {
    ($name:ident $type:ty) => {
        #[hworker::job]
        fn $name(lent: $type) {
            let _ = lent;
        }
    };
}
#[rustfmt::skip]
lent!(text &str);
#[rustfmt::skip]
lent!(slice &[u8]);
#[rustfmt::skip]
lent!(parenthesised (&u8));
lent!(context hworker::Context);

fn main() {
    drop(one::with(vec![1], Local(1), vec![2], 3));
    drop(text::with("text"));
    drop(slice::with(vec![1]));
    drop(parenthesised::with(1));
    drop(context::with());
}
