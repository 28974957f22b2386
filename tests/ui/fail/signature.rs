//! What the signature of a job cannot have, each at its token. No use of these jobs is a second error.

use hworker::State;

#[hworker::job]
const fn constant() {}

#[hworker::job]
unsafe fn without_safety() {}

#[hworker::job]
extern "C" fn foreign() {}

#[hworker::job]
async fn generic<T: Send, const N: usize>(x: T, y: [u8; N]) {
    let _ = (x, y);
}

#[hworker::job]
async fn lifetime<'a>(x: &'a str) -> &'a str {
    x
}

#[hworker::job]
async fn clause(x: u8)
where
    u8: Copy,
{
    let _ = x;
}

#[hworker::job]
async fn nameless(x: impl Into<String>, state: State<impl Clone>) {
    let _ = (x.into(), state);
}

#[hworker::job]
async fn nameless_return() -> Result<impl Send, String> {
    Ok(())
}

#[hworker::job]
async fn endless() -> ! {
    loop {}
}

fn main() {
    let _ = (constant::enqueue(), without_safety::NAME, foreign::with());
    let _ = generic::enqueue(1, [2]);
    let _ = lifetime::enqueue_in(std::time::Duration::ZERO, "x");
    let _ = clause::with(1).enqueue();
    let _ = nameless::enqueue("x");
    let _ = (nameless_return::with(), endless::with());
    constant();
    foreign();
}
