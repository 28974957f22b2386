//! Asks of many queues at once, as one page shows them together.

use tokio::task::JoinSet;

use super::problem::Problem;
use crate::client::Client;
use crate::error::Error;

/// So many queues are shown on a page, and asked for it.
pub(super) const QUEUES: usize = 100;

/// Asks the same of these queues, of all at once; the answers are in the order of the names. Nothing is asked any more when it is dropped.
pub(super) async fn each<T, F>(
    client: &Client,
    names: impl IntoIterator<Item = String>,
    ask: impl Fn(Client, String) -> F,
) -> Result<Vec<(String, T)>, Problem>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let mut asked = JoinSet::new();
    for (at, name) in names.into_iter().enumerate() {
        let answer = ask(client.clone(), name.clone());
        asked.spawn(async move { (at, name, answer.await) });
    }
    let mut answers = Vec::with_capacity(asked.len());
    while let Some(ended) = asked.join_next().await {
        let failed = |_| Problem::unreachable("a look at a queue broke off: try again");
        let (at, name, answer) = ended.map_err(failed)?;
        answers.push((at, name, answer?));
    }
    answers.sort_unstable_by_key(|(at, ..)| *at);
    Ok(answers.into_iter().map(|(_, name, answer)| (name, answer)).collect())
}

/// What a look gave; nothing where the server refused it, as where another program wrote to that key: the doctor says more.
pub(super) fn readable<T: Default>(answer: Result<T, Error>) -> Result<T, Error> {
    match answer {
        Err(Error::Refused { .. }) => Ok(T::default()),
        answer => answer,
    }
}
