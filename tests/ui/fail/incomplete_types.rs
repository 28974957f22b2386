//! Types that no argument has. The compiler adds what it thinks of the function itself.

#[hworker::job]
async fn inferred(x: _, y: Vec<_>) {
    let _ = (x, y);
}

#[hworker::job]
async fn without_a_size(x: str, y: [u8]) {}

fn main() {
    let _ = (inferred::enqueue(1, vec![2]), without_a_size::NAME);
}
