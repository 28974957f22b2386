//! Several futures awaited as one, without a task for each.

use std::future::poll_fn;
use std::task::Poll;

/// Awaits all of them, side by side; each time they are polled in their order, so that what they send is sent in it.
pub(crate) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        let mut all = Poll::Ready(());
        for (future, output) in futures.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(value) => *output = Some(value),
                Poll::Pending => all = Poll::Pending,
            }
        }
        all
    })
    .await;
    futures.into_iter().filter_map(|(_, output)| output).collect()
}

#[cfg(test)]
mod tests {
    use super::join_all;

    #[tokio::test]
    async fn outputs_come_in_the_order_of_the_futures() {
        let (first, second) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
        let wait = async |number| {
            match number {
                0 => first.notified().await,
                1 => second.notified().await,
                _ => first.notify_one(),
            }
            second.notify_one();
            number
        };
        assert_eq!(join_all([0, 1, 2].map(wait)).await, [0, 1, 2]);
        assert!(join_all(Vec::<std::future::Ready<()>>::new()).await.is_empty());
    }
}
