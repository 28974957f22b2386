//! What is asked before each thing that is done by hand.

use maud::html;

use super::ask::{Question, input};
use super::deeds::Deed;
use super::edit;
use super::fields::Fields;
use super::figures::{clock, count, number};
use super::row::in_state;
use super::text::{cut, foreign, name, plain};
use super::view::View;
use crate::inspect::QueueInfo;
use crate::job_state::JobState;
use crate::priority::Priority;
use crate::web::problem::Problem;

/// Of so many jobs the queue's name is to be written.
const MANY: u64 = 10_000;

/// So many ids are shown.
const SAMPLES: usize = 3;

/// What is asked before this is done.
pub(super) async fn of(view: &View, deed: &Deed, fields: &Fields) -> Result<Question, Problem> {
    let queue = fields.one("queue");
    let mut question = match deed.name {
        "pause" => of_pause(&summary(view, queue).await?, deed),
        "clear" => of_clear(view, &summary(view, queue).await?, deed, fields.one("state"))?,
        "destroy" => of_destroy(&summary(view, queue).await?, deed),
        "broadcast-cancel" | "broken-delete" | "stop" | "cron-remove" | "limit-set"
        | "limit-unset" | "unlock" => of_one(deed, fields),
        _ => of_jobs(view, deed, fields).await?,
    };
    let place = view.site.client.place();
    question.facts.insert(0, ("Server", html! { (foreign(&place)) }));
    if !queue.is_empty() {
        question.facts.insert(1, ("Queue", name(queue)));
    }
    question.is_final = deed.is_final;
    Ok(question)
}

async fn summary(view: &View, queue: &str) -> Result<QueueInfo, Problem> {
    match view.queue(queue) {
        Some(known) => Ok(known.clone()),
        None => Ok(view.site.client.inspect(queue).summary().await?),
    }
}

fn of_pause(queue: &QueueInfo, deed: &Deed) -> Question {
    let running = queue.counts.running;
    Question {
        title: format!("Pause {}?", queue.name),
        text: format!(
            "{} to the end. Producers may still enqueue.",
            count(running, "job that runs goes on", "jobs that run go on")
        ),
        inputs: html! {
            div.field {
                label for="duration" { "For" }
                select id="duration" name="duration" {
                    @for (value, label) in [("", "until resumed"), ("15m", "15 min"), ("1h", "1 h"), ("1d", "1 d")] {
                        option value=(value) { (label) }
                    }
                }
            }
        },
        button: format!("{} {}", deed.label, queue.name),
        ..Question::default()
    }
}

fn of_clear(view: &View, queue: &QueueInfo, deed: &Deed, state: &str) -> Result<Question, Problem> {
    let state: JobState = state.parse().map_err(Problem::invalid)?;
    let jobs = in_state(queue, state);
    Ok(Question {
        title: format!(
            "Delete {} {state} {} of {}?",
            number(jobs),
            if jobs == 1 { "job" } else { "jobs" },
            queue.name
        ),
        text: format!(
            "They are gone for good. Counted at {} UTC. A pause, limits and cron entries stay.",
            clock(view.now)
        ),
        facts: vec![
            ("Jobs", html! { (number(jobs)) " " (state.name()) }),
            ("Takes", html! { "5 s at most; then it says whether there are more" }),
        ],
        button: format!(
            "{} {}",
            if deed.name == "clear" { "Delete" } else { deed.label },
            count(jobs, "job", "jobs")
        ),
        name: (jobs > MANY).then(|| queue.name.clone()),
        ..Question::default()
    })
}

fn of_destroy(queue: &QueueInfo, deed: &Deed) -> Question {
    let counts = queue.counts;
    Question {
        title: format!("Destroy {}?", queue.name),
        text:
            "All that belongs to it is deleted: jobs, records, statistics, limits and cron entries."
                .into(),
        facts: vec![(
            "Jobs",
            html! {
                (number(counts.waiting)) " waiting, " (number(counts.scheduled)) " scheduled, "
                (number(counts.running)) " running, " (number(counts.failed)) " failed"
            },
        )],
        inputs: html! {
            @if queue.workers > 0 {
                label.check {
                    input type="checkbox" name="force" value="1";
                    b { "Although " (count(queue.workers as u64, "worker serves", "workers serve")) " it" }
                    span { "they lose what they run" }
                }
            }
        },
        button: format!("{} {}", deed.label, queue.name),
        name: Some(queue.name.clone()),
        ..Question::default()
    }
}

/// What is asked of one thing that is no job.
fn of_one(deed: &Deed, fields: &Fields) -> Question {
    let of = |field: &str| fields.one(field).to_owned();
    let (what, text) = match deed.name {
        "broadcast-cancel" => (
            format!("the job {} for each worker", of("id")),
            "No more workers begin it or try it again; those that run it end it within a second, as its type says.",
        ),
        "stop" => (
            format!("worker {}", of("id")),
            "It takes no more jobs, lets its jobs end within the grace, and stops, as at SIGTERM.",
        ),
        "cron-remove" => (
            format!("the entry {}", of("name")),
            "An entry that code declares is again as it says there. Jobs that wait or run go on.",
        ),
        "limit-set" => (
            format!("the limit {}", of("name")),
            "It holds for all workers at once, and wins over what code declares. What is left empty stays.",
        ),
        "limit-unset" => {
            (format!("what was set of {}", of("name")), "What code declares is in force again.")
        }
        "unlock" => (
            "the key".to_owned(),
            "The job that holds it goes on; another with the same key may be enqueued beside it.",
        ),
        _ => (format!("the payload {}", of("digest")), "Its bytes are gone for good."),
    };
    let inputs = match deed.name {
        "stop" => {
            input("grace", "Grace", "how long its jobs may go on", "as its own settings say", "")
        }
        "limit-set" => html! {
            div.fields {
                (input("at_once", "At once", "jobs that run", "as it is", ""))
                (input("rate", "Rate", "starts in a time", "100/m", ""))
                (input("max_waiting", "Waiting at most", "jobs", "as it is", ""))
            }
        },
        _ => html! {},
    };
    let what = plain(&what);
    let button = format!("{} {what}", deed.label);
    Question {
        title: format!("{} {what}?", deed.label),
        text: text.into(),
        inputs,
        button,
        ..Question::default()
    }
}

/// What is asked of jobs that were chosen.
async fn of_jobs(view: &View, deed: &Deed, fields: &Fields) -> Result<Question, Problem> {
    let (queue, jobs) = (fields.one("queue"), fields.jobs());
    if jobs.is_empty() {
        return Err(Problem::invalid("no job is chosen: go back and choose some"));
    }
    let text = match deed.name {
        "retry" => "Each runs again: one attempt more than it had.",
        "reset" => "Each runs again as a new job would, from its first attempt.",
        "promote" => "They are the next to run.",
        "cancel" => {
            "They do not run. A body that runs ends within a second, as its type says. Their records stay."
        }
        "delete" => "They are gone for good, with their records.",
        "move" => "They go to the end of the other queue; what is scheduled keeps its time.",
        "reschedule" => "They run at that time, by the server’s clock.",
        "priority" => "They wait behind those that have it already.",
        _ => "What is not changed keeps its bytes. A job that has ended runs again.",
    };
    let inputs = match deed.name {
        "move" => input("to", "To the queue", "", "default", ""),
        "reschedule" => {
            input("when", "Run", "in a time, or at a time in UTC", "10m, or 2026-12-24T18:00", "")
        }
        "priority" => html! {
            div.field {
                label for="priority" { "Priority" }
                select id="priority" name="priority" {
                    @for priority in Priority::ALL {
                        option value=(priority.name()) selected[priority == Priority::Normal] { (priority.name()) }
                    }
                }
            }
        },
        "edit" => edit::inputs(view, queue, &jobs).await?,
        _ => html! {},
    };
    let jobs_text = count(jobs.len() as u64, "job", "jobs");
    Ok(Question {
        title: format!("{} {jobs_text} of {}?", deed.label, queue),
        text: text.into(),
        facts: vec![(
            "Jobs",
            html! {
                (number(jobs.len() as u64)) " chosen: "
                @for (at, which) in jobs.iter().take(SAMPLES).enumerate() { @if at > 0 { ", " } code { (cut(which.id.as_str(), 40)) } }
                @if jobs.len() > SAMPLES { " …" }
            },
        )],
        inputs,
        button: format!("{} {jobs_text}", deed.label),
        ..Question::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::Counts;

    fn fields(all: &[(&str, &str)]) -> Fields {
        Fields(all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn queue(waiting: u64) -> QueueInfo {
        let counts = Counts { waiting, ..Counts::default() };
        QueueInfo { name: "mail".into(), counts, workers: 2, paused: None }
    }

    #[test]
    fn the_name_of_a_queue_is_asked_for_before_it_is_destroyed() {
        let deed = Deed::named("destroy").unwrap();
        let question = of_destroy(&queue(3), deed);
        assert!(!question.is_answered(&fields(&[("confirm", "mail")])));
        assert!(!question.is_answered(&fields(&[("sure", "1")])));
        assert!(!question.is_answered(&fields(&[("sure", "1"), ("confirm", "mai")])));
        assert!(question.is_answered(&fields(&[("sure", "1"), ("confirm", " mail ")])));
        assert!(question.inputs.into_string().contains("2 workers serve"));
    }

    #[test]
    fn a_question_says_what_it_is_about() {
        let paused = of_pause(&queue(3), Deed::named("pause").unwrap());
        assert_eq!((paused.title.as_str(), paused.button.as_str()), ("Pause mail?", "Pause mail"));
        let told = of_one(Deed::named("stop").unwrap(), &fields(&[("id", "a\u{202e}b")]));
        assert_eq!(told.button, "Stop worker a⟨RLO⟩b");
        assert!(told.is_answered(&fields(&[("sure", "1")])) && !told.is_answered(&fields(&[])));
    }
}
