//! Jobs inside of functions, blocks, traits' methods and closures.
#![deny(warnings)]

use std::error::Error;
use std::time::Duration;

use hworker::{OnFault, State};

trait Method {
    fn method() -> &'static str;
}

struct Type;

impl Method for Type {
    fn method() -> &'static str {
        #[hworker::job]
        async fn in_method(n: u8) {
            let _ = n;
        }
        in_method::NAME
    }
}

fn main() {
    #[derive(Clone)]
    struct Local;

    fn decide(_: &(dyn Error + Send + Sync + 'static)) -> OnFault {
        OnFault::Fail
    }
    fn wait(attempt: u32, _: &(dyn Error + Send + Sync + 'static)) -> Duration {
        Duration::from_secs(attempt.into())
    }

    let in_body = 1;
    {
        #[hworker::job(on_error = decide, backoff = wait)]
        async fn in_body(n: u8, local: State<Local>) -> Result<(), String> {
            let (_, State(Local)) = (n, local);
            Ok(())
        }
        drop(in_body::enqueue(in_body as fn(_, _) -> _ as usize as u8));
    }
    let closure = || {
        #[hworker::job]
        fn in_closure() {}
        in_closure();
        in_closure::NAME
    };
    assert_eq!((in_body, closure(), Type::method()), (1, "in_closure", "in_method"));
}
