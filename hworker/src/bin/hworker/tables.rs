//! What programs declare in their code, and which of it is in force.

use serde_json::json;

use crate::Context;
use crate::args::Tables;
use crate::rows::from_now;
use crate::stop::Stop;

pub(crate) async fn run(context: &Context, command: Tables) -> Result<(), Stop> {
    match command {
        Tables::Ls { queue } => ls(context, queue.name()).await,
        Tables::Pin { queue, app, hash, newest: _ } => {
            pin(context, queue.name(), &app, hash.as_deref()).await
        }
    }
}

async fn ls(context: &Context, queue: &str) -> Result<(), Stop> {
    let tables = context.client.control(queue).tables().await?;
    let titles = ["PROGRAM", "TABLE", "FIRST SEEN", "LAST SEEN", "STATE"];
    context.output.rows(&titles, &tables, |table| {
        let states = [
            (table.in_force, "in force"),
            (table.is_pinned, "pinned"),
            (!table.is_live, "no worker has it"),
        ];
        let states = states.into_iter().filter_map(|(is_so, word)| is_so.then_some(word));
        vec![
            table.app.clone(),
            table.hash.clone(),
            from_now(Some(table.first_seen)),
            from_now(Some(table.last_seen)),
            states.collect::<Vec<_>>().join(", "),
        ]
    })
}

async fn pin(context: &Context, queue: &str, app: &str, hash: Option<&str>) -> Result<(), Stop> {
    let control = context.client.control(queue);
    let state = hash.map_or_else(|| "the newest".to_owned(), |hash| format!("pinned at {hash}"));
    let verb = if hash.is_some() { "pin" } else { "unpin" };
    context
        .audited(verb, queue, &format!("the table of {app}"), async {
            match hash {
                Some(hash) => control.pin_table(app, hash).await?,
                None => control.unpin_table(app).await.map(drop)?,
            }
            Ok(((), state.clone()))
        })
        .await?;
    let json = json!({ "queue": queue, "program": app, "pinned": hash });
    let lines = [("queue", queue.to_owned()), ("program", app.to_owned()), ("state", state)];
    context.output.one(&json, &lines)
}
