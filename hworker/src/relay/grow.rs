//! How batches grow: jobs get numbers from their batch, are pushed once, and are in. What is pushed by nobody any more is given up.

use super::tell::{connection, create, follow, repeated};
use crate::client::Client;
use crate::fresh_uuid;
use crate::store::{
    Begun, Fault, Given, NewBatch, NumbersFor, Queue, add_batch, added_batch, order_batch,
};
use crate::time::since_1970;

/// Where those go that are added together, as the batch keeps it until they are in: `<token> <label> <places> <label> <places> ..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Says {
    /// What is in is noted under it.
    token: String,
    pub(crate) parts: Vec<Where>,
}

/// Those that are pushed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Where {
    /// Of the queue, or of its shard.
    pub(crate) label: String,
    /// The first and the last of each row, counted from the first that is added with them.
    pub(crate) rows: Vec<(u64, u64)>,
}

impl Where {
    /// Places in rows.
    pub(crate) fn of(label: &str, places: impl IntoIterator<Item = u64>) -> Self {
        let mut rows: Vec<(u64, u64)> = Vec::new();
        for place in places {
            match rows.last_mut() {
                Some((_, last)) if *last + 1 == place => *last = place,
                _ => rows.push((place, place)),
            }
        }
        Self { label: label.to_owned(), rows }
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = u64> + '_ {
        self.rows.iter().flat_map(|(first, last)| *first..=*last)
    }
}

impl Says {
    /// Under a token of their own.
    pub(crate) fn new(parts: Vec<Where>) -> Self {
        let token = fresh_uuid::v7(since_1970(std::time::SystemTime::now())).simple().to_string();
        Self { token, parts }
    }

    /// Under what a part of them is noted.
    pub(crate) fn field(&self, part: usize) -> String {
        format!("{}.{part}", self.token)
    }

    pub(crate) fn text(&self) -> String {
        let mut text = self.token.clone();
        for Where { label, rows } in &self.parts {
            text = format!("{text} {label} {}", spelled(rows, ","));
        }
        text
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let token = words.next()?.to_owned();
        let mut parts = Vec::new();
        while let Some(label) = words.next() {
            parts.push(Where { label: label.to_owned(), rows: rows(words.next()?, ',')? });
        }
        Some(Self { token, parts })
    }
}

fn spelled(rows: &[(u64, u64)], between: &str) -> String {
    let rows: Vec<_> = rows.iter().map(|(first, last)| format!("{first}-{last}")).collect();
    rows.join(between)
}

/// Rows of numbers as a text has them.
fn rows(text: &str, between: char) -> Option<Vec<(u64, u64)>> {
    let row = |text: &str| {
        let (first, last) = text.split_once('-')?;
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last && last < 10_000_000).then_some((first, last))
    };
    text.split(between).filter(|row| !row.is_empty()).map(row).collect()
}

/// The numbers that were given up, as a batch says it of what is in.
pub(crate) fn given_up(says: &str) -> Vec<u64> {
    let rows = rows(says, ' ').unwrap_or_default();
    rows.into_iter().flat_map(|(first, last)| first..=last).collect()
}

/// Asks a batch for numbers. Under one name it gives the same again.
pub(crate) async fn numbers(
    client: &Client,
    batch: &str,
    add: &NumbersFor<'_>,
) -> Result<Given, Fault> {
    repeated(async || {
        let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
        add_batch(&on, &keys, add).await
    })
    .await
}

/// Notes that what was added is in.
pub(crate) async fn added(client: &Client, batch: &str, name: &str) -> Result<(), Fault> {
    settle_add(client, batch, name, &[]).await
}

async fn settle_add(
    client: &Client,
    batch: &str,
    name: &str,
    given_up: &[(u64, u64)],
) -> Result<(), Fault> {
    let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
    let due = added_batch(&on, &keys, name, given_up).await?;
    follow(client, batch, due).await
}

/// Gives up what was to be added under this name, as far as it is not in: from now on it cannot come in any more.
pub(crate) async fn give_up(
    client: &Client,
    batch: &str,
    name: &str,
    first: u64,
    says: &str,
) -> Result<(), Fault> {
    let mut never = Vec::new();
    if name.starts_with("batch:") {
        // It can be begun no more, unless it was.
        if create(client, says, &NewBatch::default()).await? != Begun::Exists {
            never.push((first, first));
        }
    } else if let Some(says) = Says::parse(says) {
        for (place, part) in says.parts.iter().enumerate() {
            let queue = Queue::of_label(client.key_space(), &part.label, client.limits());
            let on = client.connection(&queue).await?;
            if queue.give_up(&on, batch, &says.field(place)).await? {
                never.extend(part.rows.iter().map(|(from, to)| (first + from, first + to)));
            }
        }
    }
    settle_add(client, batch, name, &never).await
}

/// A batch that is to be a member of another.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) id: String,
    /// Its number there.
    pub(crate) number: u64,
    /// How many batches are above it.
    pub(crate) depth: u64,
    /// Under which name it is added.
    pub(crate) add: String,
}

/// Gives a number in its parent to a batch that the member `by` of that begins: it is to have this id, unless a run of the same body began one of this
/// name before. An error says why the parent takes none.
pub(crate) async fn child(
    client: &Client,
    (parent, by): (&str, &str),
    (id, name): (&str, &str),
) -> Result<Result<Child, String>, Fault> {
    let add = format!("batch:{by}:{}", if by.is_empty() { id } else { name });
    let asked = NumbersFor { by, name: &add, count: 1, says: id, labels: &[] };
    Ok(match numbers(client, parent, &asked).await? {
        Given::Gone => Err("gone".to_owned()),
        Given::Refused(why) => Err(why),
        Given::Numbers { first: number, depth, says: id, .. } => {
            Ok(Child { id, number, depth: depth + 1, add })
        }
    })
}

/// Takes a batch out that has no member.
pub(crate) async fn abandon(client: &Client, batch: &str) -> Result<(), Fault> {
    let (on, keys) = (connection(client, batch).await?, client.key_space().batch(batch));
    order_batch(&on, &keys, "drop").await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_jobs_go_is_read_as_it_was_written() {
        let parts =
            vec![Where::of("default", [0, 1, 2, 5, 7, 8]), Where::of("mail#3.x", [3, 4, 6])];
        let says = Says::new(parts);
        assert_eq!(says.parts[0].rows, [(0, 2), (5, 5), (7, 8)]);
        assert_eq!(says.parts[1].places().collect::<Vec<_>>(), [3, 4, 6]);
        assert_eq!(Says::parse(&says.text()), Some(says));
        for wrong in ["t default", "t default x", "t default 3-1", "t default 0-99999999"] {
            assert_eq!(Says::parse(wrong), None, "{wrong}");
        }
        assert_eq!(given_up("3-4 9-9"), [3, 4, 9]);
        assert_eq!(given_up(""), [0; 0]);
    }
}
