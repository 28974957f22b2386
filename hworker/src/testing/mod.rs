//! Tests of programs that enqueue jobs, and of the jobs.
//!
//! Three tests that everybody writes:
//!
//! ```
//! use hworker::testing::{self, Kit};
//! use hworker::{BoxError, assert_enqueued};
//!
//! #[hworker::job(queue = "mail", keep_result = "1h")]
//! async fn welcome(user: u64) -> Result<String, BoxError> {
//!     Ok(format!("hello {user}"))
//! }
//!
//! async fn signup(user: u64) {
//!     welcome::enqueue(user).await.expect("enqueued");
//! }
//!
//! // It enqueues what it should. No server is needed.
//! #[hworker::test]
//! async fn signup_sends_mail(kit: Kit) {
//!     signup(7).await;
//!     assert_enqueued!(welcome { user: 7 }, queue = "mail");
//! }
//!
//! // A job does what it should.
//! #[hworker::test]
//! async fn it_greets() {
//!     let done = testing::perform(welcome::with(7)).await.expect("it can run");
//!     assert_eq!(done.value(), "hello 7");
//! }
//!
//! // All of it together, with what jobs enqueue and with retries, on a server of the test's own.
//! #[hworker::test]
//! async fn all_of_it(kit: Kit) {
//!     signup(7).await;
//!     let drained = kit.drain().await.expect("drained");
//!     assert_eq!((drained.done, drained.failed), (1, 0));
//! }
//! # fn main() {}
//! ```
//!
//! [docs/testing.md](https://github.com/hworker/hworker/blob/main/docs/testing.md) has more of them.

mod asked;
mod drain;
mod kit;
mod perform;

pub use self::asked::{Asked, Enqueued};
pub use self::drain::Drained;
pub use self::kit::{Kit, run};
pub use self::perform::{Perform, Performed, perform};
