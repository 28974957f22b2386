//! What is looked at: the table, the selected line, the order, and what a key changes of that.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::look::{Detail, Overview, Queue};
use super::panel::{Line, Panel, sort};

/// What a key leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing but another picture.
    Draw,
    /// Another queue, or more of it, is to be looked at.
    Look,
    Change(Change),
    Quit,
}

/// A queue that is to be paused or resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) queue: String,
    pub(super) pause: bool,
}

impl Change {
    pub(super) fn verb(&self) -> &'static str {
        if self.pause { "pause" } else { "resume" }
    }
}

/// What keys mean.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Tables,
    /// It was asked whether this is to be done.
    Question(Change),
    Help,
}

pub(super) struct State {
    /// The server and the prefix.
    pub(super) place: String,
    pub(super) colors: bool,
    /// Answers every question with yes.
    yes: bool,
    pub(super) mode: Mode,
    pub(super) panel: Panel,
    /// What the last look that succeeded found, and when that was, in ms since 1970.
    pub(super) overview: Option<Overview>,
    pub(super) looked_at: u64,
    detail: Option<Detail>,
    /// Why the look after that failed.
    pub(super) lost: Option<String>,
    /// What came of a change.
    pub(super) note: Option<String>,
    /// The name of a queue. None: the first one.
    selected: Option<String>,
    /// The selected line of the other tables.
    line: usize,
    /// The column by which each table is sorted.
    sorted: [usize; 4],
}

impl State {
    pub(super) fn new(place: String, colors: bool, yes: bool) -> Self {
        Self {
            place,
            colors,
            yes,
            mode: Mode::default(),
            panel: Panel::default(),
            overview: None,
            looked_at: 0,
            detail: None,
            lost: None,
            note: None,
            selected: None,
            line: 0,
            sorted: Panel::ALL.map(Panel::sorted_at_first),
        }
    }

    /// A look at all queues has ended at this time.
    pub(super) fn take(&mut self, overview: Result<Overview, String>, now: u64) {
        match overview {
            Ok(overview) => {
                self.overview = Some(overview);
                self.looked_at = now;
                self.lost = None;
            }
            Err(why) => self.lost = Some(why),
        }
    }

    /// A look at one queue has ended.
    pub(super) fn take_detail(&mut self, mut detail: Detail) {
        let before = self.detail.take().filter(|before| before.queue == detail.queue);
        // What this look does not know is as it was.
        let before = before.unwrap_or_default();
        detail.workers = detail.workers.or(before.workers);
        detail.running = detail.running.or(before.running);
        detail.failed = detail.failed.or(before.failed);
        self.detail = Some(detail);
    }

    /// Of the selected queue, once it has been looked at.
    pub(super) fn detail(&self) -> Option<&Detail> {
        let selected = self.selected()?;
        self.detail.as_ref().filter(|detail| detail.queue == selected.line.name)
    }

    /// The lines of a table, as they are sorted. None where they have not been looked at.
    pub(super) fn lines(&self, panel: Panel) -> Option<Vec<&Line>> {
        let mut lines: Vec<&Line> = match panel {
            Panel::Queues => {
                self.overview.as_ref()?.queues.iter().map(|queue| &queue.line).collect()
            }
            Panel::Workers => self.detail()?.workers.as_ref()?.iter().collect(),
            Panel::Running => self.detail()?.running.as_ref()?.iter().collect(),
            Panel::Failed => self.detail()?.failed.as_ref()?.iter().collect(),
        };
        sort(&mut lines, self.sorted_by(panel));
        Some(lines)
    }

    pub(super) fn sorted_by(&self, panel: Panel) -> usize {
        self.sorted[panel as usize]
    }

    /// The selected queue.
    pub(super) fn selected(&self) -> Option<&Queue> {
        let at = self.selected_line(Panel::Queues)?;
        let name = &self.lines(Panel::Queues)?.get(at)?.name;
        self.overview.as_ref()?.queues.iter().find(|queue| queue.line.name == *name)
    }

    /// The place of the selected line in the sorted table. None where that is empty.
    pub(super) fn selected_line(&self, panel: Panel) -> Option<usize> {
        let lines = self.lines(panel)?;
        let last = lines.len().checked_sub(1)?;
        if panel != Panel::Queues {
            return Some(self.line.min(last));
        }
        let of_name = |name: &String| lines.iter().position(|line| line.name == *name);
        // One that has gone leaves the first one selected.
        Some(self.selected.as_ref().and_then(of_name).unwrap_or(0))
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Step {
        if is_interrupt(key) {
            return Step::Quit;
        }
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return Step::Draw;
        }
        self.note = None;
        match (std::mem::take(&mut self.mode), key.code) {
            (Mode::Question(change), KeyCode::Char('y' | 'Y')) => Step::Change(change),
            (Mode::Question(_), _) => {
                self.note = Some("nothing done".to_owned());
                Step::Draw
            }
            (_, KeyCode::Char('q')) | (Mode::Tables, KeyCode::Esc) => Step::Quit,
            (Mode::Help, _) => Step::Draw,
            (Mode::Tables, code) => self.command(code),
        }
    }

    fn command(&mut self, code: KeyCode) -> Step {
        match code {
            KeyCode::Down | KeyCode::Char('j') => self.go(|at| at.saturating_add(1)),
            KeyCode::Up | KeyCode::Char('k') => self.go(|at| at.saturating_sub(1)),
            KeyCode::Tab => self.show(self.panel.next()),
            KeyCode::Char('1') => self.show(Panel::Queues),
            KeyCode::Char('2') => self.show(Panel::Workers),
            KeyCode::Char('3') => self.show(Panel::Running),
            KeyCode::Char('4') => self.show(Panel::Failed),
            KeyCode::Char('s') => {
                // The line that is selected stays so.
                self.selected = self.selected().map(|queue| queue.line.name.clone());
                let panel = self.panel as usize;
                self.sorted[panel] = (self.sorted[panel] + 1) % self.panel.columns().len();
                Step::Draw
            }
            KeyCode::Char('p') => self.ask(),
            KeyCode::Char('?') => {
                self.mode = Mode::Help;
                Step::Draw
            }
            _ => Step::Draw,
        }
    }

    fn show(&mut self, panel: Panel) -> Step {
        self.panel = panel;
        self.line = 0;
        Step::Look
    }

    fn go(&mut self, to: impl Fn(usize) -> usize) -> Step {
        let Some(lines) = self.lines(self.panel).filter(|lines| !lines.is_empty()) else {
            return Step::Draw;
        };
        let to = to(self.selected_line(self.panel).unwrap_or(0)).min(lines.len() - 1);
        if self.panel == Panel::Queues {
            self.selected = Some(lines[to].name.clone());
            return Step::Look;
        }
        self.line = to;
        Step::Draw
    }

    /// Asks whether the selected queue is to be paused, or resumed where it is.
    fn ask(&mut self) -> Step {
        let Some(queue) = self.selected() else { return Step::Draw };
        let change = Change { queue: queue.line.name.clone(), pause: !queue.is_paused };
        if self.yes {
            return Step::Change(change);
        }
        self.mode = Mode::Question(change);
        Step::Draw
    }
}

/// In a terminal that hands keys over as they are, Ctrl-C is no signal.
pub(super) fn is_interrupt(key: KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}
