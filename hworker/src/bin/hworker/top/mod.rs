//! `hworker top`: queues, their workers and what runs, live in the whole terminal.

mod look;
mod looks;
mod panel;
mod screen;
mod state;
#[cfg(test)]
mod tests;
mod view;

use std::io;
use std::pin::pin;
use std::time::Duration;

use ratatui::crossterm::event::{Event, KeyEventKind};

use self::looks::{Looked, Looks};
use self::screen::{Screen, events, interrupted, terminated};
use self::state::{Change, State, Step};
use crate::Context;
use crate::args::Top;
use crate::output::Form;
use crate::queues;
use crate::rows::now;
use crate::stop::Stop;

/// Draws until somebody quits.
pub(crate) async fn run(context: &Context, which: &Top) -> Result<(), Stop> {
    if context.output.form != Form::Table {
        return Err(Stop::usage(
            "`hworker top` draws on a terminal; without one, and for --json and --plain, there is `hworker stats --watch`",
        ));
    }
    let mut screen = Screen::open(context.output.colors)?;
    let mut events = events()?;
    let mut terminated = pin!(terminated());
    let mut state = State::new(context.place.clone(), context.output.colors, context.yes);
    let mut looks = Looks::new(context, which);
    loop {
        screen.draw(&state)?;
        let step = tokio::select! {
            event = events.recv() => pressed(&mut state, event)?,
            looked = looks.next() => take(&mut state, looked),
            // How long the server has not answered changes by itself.
            () = tokio::time::sleep(Duration::from_secs(1)) => Step::Draw,
            () = &mut terminated => return Err(Stop::interrupted()),
        };
        match step {
            Step::Draw => {}
            Step::Quit => return Ok(()),
            Step::Look => looks.begin_detail(&state),
            Step::Change(change) => {
                looks.begin_anew();
                state.note = Some(format!("{} is to be {}d ..", change.queue, change.verb()));
                screen.draw(&state)?;
                state.note = Some(tokio::select! {
                    done = carry_out(context, &change) => done,
                    () = interrupted(&mut events) => return Err(unknown(&change)),
                    () = &mut terminated => return Err(unknown(&change)),
                });
            }
        }
    }
}

/// What an event of the terminal leads to.
fn pressed(state: &mut State, event: Option<io::Result<Event>>) -> Result<Step, Stop> {
    match event {
        Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => Ok(state.press(key)),
        // As another size of the terminal.
        Some(Ok(_)) => Ok(Step::Draw),
        Some(Err(error)) => Err(Stop::failed(format!("the terminal cannot be read: {error}"))),
        None => Err(Stop::failed("the terminal cannot be read")),
    }
}

fn take(state: &mut State, looked: Looked) -> Step {
    match looked {
        Looked::Detail(detail) => {
            state.take_detail(detail);
            Step::Draw
        }
        Looked::Overview(Ok(overview)) => {
            state.take(Ok(overview), now());
            Step::Look
        }
        // Of a server that does not answer one queue need not be asked for.
        Looked::Overview(Err(stop)) => {
            state.take(Err(stop.why().to_owned()), now());
            Step::Draw
        }
    }
}

/// Pauses or resumes a queue, and gives what came of it.
async fn carry_out(context: &Context, change: &Change) -> String {
    let queue = Some(change.queue.as_str());
    let (done, warning) = if change.pause {
        let paused = queues::pause_silently(context, queue, None).await;
        (paused.done.map(|()| "paused"), paused.warning)
    } else {
        let resumed = queues::resume_silently(context, queue).await;
        let was = |count| if count > 0 { "resumed" } else { "was not paused" };
        (resumed.done.map(was), resumed.warning)
    };
    let done = match done {
        Ok(done) => format!("{} {done}", change.queue),
        Err(stop) => stop.why().to_owned(),
    };
    match warning {
        Some(warning) => format!("{done}; {warning}"),
        None => done,
    }
}

fn unknown(change: &Change) -> Stop {
    let (queue, verb) = (&change.queue, change.verb());
    Stop::unknown(format!("it is not known whether {queue} was {verb}d; look before you try again"))
}
