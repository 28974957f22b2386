//! A future that cannot move between threads, at the function and where it holds what cannot.

use std::rc::Rc;

#[hworker::job]
async fn holds_an_rc(n: u8) -> Result<(), String> {
    let rc = Rc::new(n);
    std::future::ready(()).await;
    drop(rc);
    Ok(())
}

fn main() {}
