//! Does what the page's forms ask for.

use axum::response::{IntoResponse, Redirect, Response};

use super::deeds::Deed;
use super::fields::Fields;
use super::link::{back, with, without};
use super::note::Note;
use super::view::View;
use super::when::when;
use super::{edit, enqueue, questions};
use crate::inspect::Action;
use crate::web::act::{self as doing, OfLimit, Values};
use crate::web::problem::Problem;

/// Does what a form asks for, or asks whether it is meant; then sends back to where the form was.
pub(super) async fn act(view: View, fields: Fields) -> Result<Response, Problem> {
    let unknown = || Problem::invalid(format!("`{}` is no action", fields.action()));
    let deed = Deed::named(fields.action()).ok_or_else(unknown)?;
    if deed.name == "enqueue" {
        return enqueue::enqueue(&view, deed, &fields).await;
    }
    view.site.check_may(&view.asked, deed.verb, fields.one("queue"))?;
    if deed.asks_for(fields.jobs().len()) {
        let is_sure = fields.one("sure") == "1";
        // What is asked of jobs has no name to be written, and may take a look at them.
        let needs_no_name = !matches!(deed.name, "clear" | "destroy");
        if !(is_sure && needs_no_name) {
            let question = questions::of(&view, deed, &fields).await?;
            if !question.is_answered(&fields) {
                return Ok(question.page(&view, deed, &fields).into_response());
            }
        }
    }
    let note = done(&view, deed, &fields).await?;
    Ok(go_back(&view.base, fields.one("back"), &note))
}

/// Sends a browser back, with a note of what came of it.
pub(super) fn go_back(base: &str, wanted: &str, note: &Note) -> Response {
    let back = without(back(base, wanted), "done");
    Redirect::to(&with(&back, &[("done", &note.text())])).into_response()
}

async fn done(view: &View, deed: &Deed, fields: &Fields) -> Result<Note, Problem> {
    match deed.name {
        "pause" | "resume" | "clear" | "destroy" => of_queue(view, deed, fields).await,
        "quiet" | "wake" | "stop" => of_worker(view, deed, fields).await,
        "cron-run" | "cron-pause" | "cron-resume" | "cron-remove" => {
            of_cron(view, deed, fields).await
        }
        "limit-set" | "limit-unset" | "limit-pause" | "limit-resume" | "unlock" => {
            of_limit(view, deed, fields).await
        }
        "broadcast-cancel" => {
            let (queue, id) = (fields.one("queue"), fields.one("id"));
            doing::broadcasts::cancel(&view.site, &view.asked, queue, id).await?;
            Ok(Note::new(deed, &[]))
        }
        "broken-requeue" | "broken-delete" => of_broken(view, deed, fields).await,
        _ => of_jobs(view, deed, fields).await,
    }
}

async fn of_jobs(view: &View, deed: &Deed, fields: &Fields) -> Result<Note, Problem> {
    let (queue, jobs) = (fields.one("queue"), fields.jobs());
    let action = match deed.name {
        "retry" => Action::Retry,
        "reset" => Action::Reset,
        "promote" => Action::Promote,
        "cancel" => Action::Cancel,
        "delete" => Action::Delete,
        "move" => Action::MoveTo(fields.one("to").trim().to_owned()),
        "reschedule" => Action::Reschedule(when(fields.one("when"))?),
        "priority" => {
            Action::SetPriority(fields.one("priority").parse().map_err(Problem::invalid)?)
        }
        _ => edit::action(view, queue, &jobs, fields).await?,
    };
    let report = doing::change(&view.site, &view.asked, queue, &jobs, (deed.verb, &action)).await?;
    Ok(Note::of_report(deed, report))
}

async fn of_queue(view: &View, deed: &Deed, fields: &Fields) -> Result<Note, Problem> {
    let (site, asked, queue) = (&view.site, &view.asked, fields.one("queue"));
    let numbers = match deed.name {
        "pause" => {
            doing::queues::pause(site, asked, queue, fields.span("duration")?).await?;
            vec![]
        }
        "resume" => {
            doing::queues::resume(site, asked, queue).await?;
            vec![]
        }
        "clear" => {
            let state = fields.one("state").parse().map_err(Problem::invalid)?;
            let cleared = doing::queues::clear(site, asked, queue, state).await?;
            vec![cleared.deleted, u64::from(cleared.more)]
        }
        _ => vec![doing::queues::destroy(site, asked, queue, fields.one("force") == "1").await?],
    };
    Ok(Note::new(deed, &numbers))
}

async fn of_worker(view: &View, deed: &Deed, fields: &Fields) -> Result<Note, Problem> {
    let (site, asked, id) = (&view.site, &view.asked, fields.one("id"));
    let told = match deed.name {
        "quiet" => doing::workers::quiet(site, asked, id).await?,
        "wake" => doing::workers::resume(site, asked, id).await?,
        _ => doing::workers::stop(site, asked, id, fields.span("grace")?).await?,
    };
    Ok(Note::new(deed, &[told as u64]))
}

async fn of_cron(view: &View, deed: &Deed, fields: &Fields) -> Result<Note, Problem> {
    let (site, asked) = (&view.site, &view.asked);
    let (queue, name) = (fields.one("queue"), fields.one("name"));
    let mut numbers = vec![];
    match deed.name {
        "cron-run" => {
            let id = doing::cron::run(site, asked, queue, name).await?;
            numbers.push(u64::from(id.is_some()));
        }
        "cron-pause" => _ = doing::cron::pause(site, asked, queue, name).await?,
        "cron-resume" => _ = doing::cron::resume(site, asked, queue, name).await?,
        _ => doing::cron::remove(site, asked, queue, name).await?,
    }
    Ok(Note::new(deed, &numbers))
}

async fn of_limit(view: &View, deed: &Deed, fields: &Fields) -> Result<Note, Problem> {
    let (site, asked, queue) = (&view.site, &view.asked, fields.one("queue"));
    // One of a key is listed as `name=key`.
    let name = fields.one("name");
    let (name, key) = match name.split_once('=').filter(|(_, key)| !key.is_empty()) {
        Some((name, key)) => (name, Some(key)),
        None => (name, None),
    };
    let of = OfLimit { queue, name, key };
    match deed.name {
        "limit-set" => {
            let values = Values {
                at_once: fields.number("at_once")?,
                rate: fields.given("rate").map(str::to_owned),
                max_waiting: fields.number("max_waiting")?,
            };
            doing::limits::set(site, asked, of, &values).await?;
        }
        "limit-unset" => _ = doing::limits::unset(site, asked, of).await?,
        "limit-pause" => doing::limits::pause(site, asked, of, None).await?,
        "limit-resume" => _ = doing::limits::resume(site, asked, of).await?,
        _ => _ = doing::limits::unlock(site, asked, queue, fields.one("key")).await?,
    }
    Ok(Note::new(deed, &[]))
}

async fn of_broken(view: &View, deed: &Deed, fields: &Fields) -> Result<Note, Problem> {
    let (queue, digest) = (fields.one("queue"), fields.one("digest"));
    match deed.name {
        "broken-requeue" => doing::broken::requeue(&view.site, &view.asked, queue, digest).await?,
        _ => doing::broken::delete(&view.site, &view.asked, queue, digest).await?,
    }
    Ok(Note::new(deed, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_sent_back_with_a_note() {
        let note = Note::new(Deed::named("resume").unwrap(), &[]);
        let to = |base: &str, wanted: &str| {
            let response = go_back(base, wanted, &note);
            let location = response.headers().get("location").and_then(|to| to.to_str().ok());
            (response.status().as_u16(), location.unwrap_or_default().to_owned())
        };
        assert_eq!(
            to("/a", "/a/queues/b?x=1&done=pause"),
            (303, "/a/queues/b?x=1&done=resume".into())
        );
        assert_eq!(to("/a", "https://evil.example"), (303, "/a?done=resume".into()));
        assert_eq!(to("", ""), (303, "/?done=resume".into()));
    }
}
