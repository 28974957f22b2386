//! Marks of deploys.

use crate::Context;
use crate::args::Deploy;
use crate::rows::utc;
use crate::stop::Stop;

pub(crate) async fn run(context: &Context, command: Deploy) -> Result<(), Stop> {
    match command {
        Deploy::Mark { text } => mark(context, &text).await,
        Deploy::Ls => ls(context).await,
    }
}

async fn mark(context: &Context, text: &str) -> Result<(), Stop> {
    let marked = context
        .audited("mark", "", text, async {
            let marked = context.client.mark_deploy(&Context::who(), text).await?;
            Ok((marked, "marked".into()))
        })
        .await?;
    let lines = [("marked", marked.text.clone()), ("at", utc(marked.at))];
    context.output.one(&marked, &lines)
}

async fn ls(context: &Context) -> Result<(), Stop> {
    let marks = context.client.deploys().await?;
    context.output.rows(&["WHEN", "WHO", "WHAT"], &marks, |mark| {
        vec![utc(mark.at), mark.who.clone(), mark.text.clone()]
    })
}
