//! A loop that goes on where it stopped.

use std::future::pending;
use std::pin::Pin;
use std::time::{Duration, Instant};

use super::read::checkpoint_of;
use super::write::changed;
use crate::context::Context;
use crate::error::Error;

/// A loop over items that goes on where it stopped; [`Context::each`] makes one.
#[must_use = "nothing is done until it is awaited"]
pub struct Each<'a, I, F> {
    context: &'a Context,
    items: I,
    body: F,
    name: Option<String>,
    max_runtime: Option<Duration>,
}

impl Context {
    /// Runs `body` for each item, one after the other, and remembers how many are done: the next attempt leaves those out. So a long job goes on
    /// where it stopped, after a crash, an error or a deploy. Where the worker stops it ends the attempt after the item that it is at, uncounted,
    /// and another worker goes on at once.
    ///
    /// The items have to come in the same order each time: a range, a sorted list, rows by their id. Where the worker dies, those of its last
    /// second are done again. Where their number is known it is told as the [progress](Self::progress), unless the body tells one.
    ///
    /// ```
    /// #[hworker::job(timeout = "8h")]
    /// async fn reindex(last: u64, context: hworker::Context) -> Result<(), hworker::BoxError> {
    ///     context
    ///         .each(1..=last, |document| async move {
    ///             println!("indexing {document}");
    ///             Ok::<_, hworker::BoxError>(())
    ///         })
    ///         .max_runtime(std::time::Duration::from_secs(600)) // then others of the queue have their turn
    ///         .await
    /// }
    /// ```
    ///
    /// A body with several loops gives each a [name](Each::named). Where the attempt ends in the loop the body is dropped there: what follows the
    /// loop runs in the attempt that comes to its end. For async bodies: one that blocks would wait for ever where the attempt ends in the loop.
    ///
    /// # Errors
    /// The first error of `body`, whose item is tried again by the next attempt; [`Error::Config`] where another loop of the body has the same name, or
    /// neither has one; and where the server cannot be asked how far the last attempt came.
    pub fn each<I, F>(&self, items: I, body: F) -> Each<'_, I, F> {
        Each { context: self, items, body, name: None, max_runtime: None }
    }
}

impl<I, F> Each<'_, I, F> {
    /// Tells this loop from others of the body, of which each needs a name of its own. It finds its place by the name, so that stays the same from
    /// attempt to attempt. One that runs inside of another, or beside it, begins anew once it has come to its end.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// After so long the job goes to the back of its queue, uncounted, and goes on when its turn comes; at least one item is done each time.
    pub fn max_runtime(self, max_runtime: Duration) -> Self {
        Self { max_runtime: Some(max_runtime), ..self }
    }
}

impl<'a, I, F, R, E> IntoFuture for Each<'a, I, F>
where
    I: IntoIterator + Send + 'a,
    I::IntoIter: Send,
    I::Item: Send,
    F: FnMut(I::Item) -> R + Send + 'a,
    R: Future<Output = Result<(), E>> + Send + 'a,
    E: From<Error> + Send + 'a,
{
    type Output = Result<(), E>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(run(self))
    }
}

async fn run<I, F, R, E>(each: Each<'_, I, F>) -> Result<(), E>
where
    I: IntoIterator,
    F: FnMut(I::Item) -> R,
    R: Future<Output = Result<(), E>>,
    E: From<Error>,
{
    let Each { context, items, mut body, name, max_runtime } = each;
    let running = Running::begin(context, name)?;
    let field = &running.field;
    let reached = checkpoint_of(context, field).await?;
    let mut done = reached.and_then(|text| str::from_utf8(&text).ok()?.parse().ok()).unwrap_or(0);
    let mut items = items.into_iter();
    if let Some(last) = usize::try_from(done).ok().and_then(|done: usize| done.checked_sub(1)) {
        items.nth(last);
    }
    let of = match items.size_hint() {
        (least, Some(most)) if least == most => Some(done + least as u64),
        _ => None,
    };
    let (began, before) = (Instant::now(), done);
    let tell = |done| of.and_then(|of| context.is_at(done, of, false));
    tell(done);
    for item in items {
        let is_long = max_runtime.is_some_and(|most| began.elapsed() >= most);
        if context.is_stopping() || context.is_cancelled() || is_long && done > before {
            suspend(context).await;
        }
        body(item).await?;
        done += 1;
        changed(context, |unwritten| unwritten.set(field, done.to_string().into()));
        tell(done);
    }
    if running.is_inner {
        // It begins anew with the next item of the loop around it.
        changed(context, |unwritten| unwritten.set(field, Vec::new()));
    }
    Ok(())
}

/// A loop that runs.
struct Running<'a> {
    context: &'a Context,
    /// Where its place is kept.
    field: String,
    /// It runs inside of another.
    is_inner: bool,
}

impl<'a> Running<'a> {
    fn begin(context: &'a Context, name: Option<String>) -> Result<Self, Error> {
        let is_named = name.is_some();
        let field = name.map_or_else(|| "each".to_owned(), |name| format!("each:{name}"));
        let begun = changed(context, |unwritten| {
            // The places of two without names could be taken for each other's.
            let is_alone = unwritten.loops.is_empty()
                || is_named
                    && !unwritten.loops.contains("each")
                    && !unwritten.loops.contains(&field);
            is_alone.then(|| {
                unwritten.loops.insert(field.clone());
                unwritten.running_loops += 1;
                unwritten.running_loops > 1
            })
        });
        match begun {
            Some(None) => Err(Error::config(format!(
                "a body of job {} has several loops: give each `.named(..)`, with a name of its own",
                context.job()
            ))),
            // Of an attempt that has ended nothing is kept.
            Some(Some(is_inner)) => Ok(Self { context, field, is_inner }),
            None => Ok(Self { context, field, is_inner: false }),
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        changed(self.context, |unwritten| {
            unwritten.running_loops = unwritten.running_loops.saturating_sub(1);
            if self.is_inner {
                unwritten.loops.remove(&self.field);
            }
        });
    }
}

/// Ends the attempt here; the job runs again when its turn comes.
async fn suspend(context: &Context) {
    // In a test nobody would run it again.
    if context.attempt_of().held.is_some() {
        context.suspend(Duration::ZERO);
        pending::<()>().await;
    }
}
