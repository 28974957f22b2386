//! The terminal: its whole screen, its keys, and that it is left as it was.

use std::io;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::style::force_color_output;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::state::{State, is_interrupt};
use super::view;
use crate::rows::now;
use crate::stop::Stop;

/// What the terminal says; an error is its last word.
pub(super) type Events = UnboundedReceiver<io::Result<Event>>;

/// A terminal that is drawn on, and gets back what it showed before, however that ends: where it is dropped here, at a panic by a hook that
/// [`ratatui::try_init`] sets, before the panic is told.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    pub(super) fn open(colors: bool) -> Result<Self, Stop> {
        // `Output` has decided it; crossterm would ask NO_COLOR alone.
        force_color_output(colors);
        ratatui::try_init().map(Self).map_err(|error| {
            // It may have got half-way.
            let _ = ratatui::try_restore();
            Stop::failed(format!("the terminal cannot be drawn on: {error}"))
        })
    }

    pub(super) fn draw(&mut self, state: &State) -> Result<(), Stop> {
        let drawn = self.0.draw(|frame| view::draw(frame, state, now()));
        drawn.map(drop).map_err(|error| Stop::failed(format!("could not draw: {error}")))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = ratatui::try_restore();
    }
}

/// Reads the terminal on a thread of its own, which waits there until the program ends.
pub(super) fn events() -> Result<Events, Stop> {
    let (sender, events) = unbounded_channel();
    let read = move || {
        loop {
            let event = event::read();
            let is_last = event.is_err();
            if sender.send(event).is_err() || is_last {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("hworker-keys".to_owned()).spawn(read);
    thread.map(|_| events).map_err(|error| Stop::failed(format!("no thread for keys: {error}")))
}

/// Waits for Ctrl-C; other keys mean nothing meanwhile.
pub(super) async fn interrupted(events: &mut Events) {
    while let Some(Ok(event)) = events.recv().await {
        if matches!(event, Event::Key(key) if is_interrupt(key)) {
            return;
        }
    }
}

/// Waits for SIGTERM, which would leave the terminal as it is.
#[cfg(unix)]
pub(super) async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    }
}

#[cfg(not(unix))]
pub(super) async fn terminated() {
    std::future::pending().await
}
