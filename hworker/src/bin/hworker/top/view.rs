//! The picture of a state. Whatever it shows goes through `shown`, so that nothing from the server rewrites the terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text;
use ratatui::widgets::{Cell, HighlightSpacing, Paragraph, Row, Sparkline, Table, TableState};

use super::look::Queue;
use super::panel::{Line, Panel, fit};
use super::state::{Mode, State};
use crate::output::{Tone, cut, shown};
use crate::rows::{number, span, utc};

/// Between two columns.
const GAP: u16 = 2;

/// Before a line that can be selected.
const MARK: &str = "> ";

const LOOKING: &str = "looking ..";

const NO_QUEUES: &str = "No queue has jobs or workers. Start a worker, or enqueue a job: `hworker enqueue NAME --args JSON`. Other queues may be \
                         at another --url or --prefix, or have other names than --name asks for.";

const KEYS: [(&str, &str); 8] = [
    ("up, down, k, j", "select a line"),
    ("1, Tab", "queues"),
    ("2, Tab", "workers of the selected queue"),
    ("3, Tab", "its running jobs"),
    ("4, Tab", "its failures in groups"),
    ("s", "sort by the next column"),
    ("p", "pause or resume the selected queue, after a question"),
    ("q, Esc, Ctrl-C", "quit"),
];

/// Draws a state as of a time, in ms since 1970.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, now: u64) {
    let width = frame.area().width;
    let (warning, tone) = warning(state, now);
    let mut warning = wrap(&warning, width);
    warning.truncate(3);
    let (foot, foot_style) = foot(state, width);
    let foot = wrap(&foot, width);
    let [place, totals, warned, body, footer] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(warning.len() as u16),
        Constraint::Min(0),
        Constraint::Length(foot.len() as u16),
    ])
    .areas(frame.area());
    head(frame, place, totals, state);
    frame.render_widget(paragraph(warning).style(style(tone, state.colors)), warned);
    frame.render_widget(paragraph(foot).style(foot_style), footer);
    match &state.overview {
        _ if state.mode == Mode::Help => help(frame, body),
        None if state.lost.is_some() => {}
        None => frame.render_widget(Paragraph::new(LOOKING), body),
        Some(overview) if overview.queues.is_empty() => {
            frame.render_widget(paragraph(wrap(NO_QUEUES, width)), body);
        }
        Some(_) if state.panel == Panel::Queues => queues(frame, body, state),
        Some(_) => table(frame, body, state, state.panel),
    }
}

/// The server and the prefix, when it was looked at, and the totals.
fn head(frame: &mut Frame<'_>, place: Rect, totals: Rect, state: &State) {
    let Some(overview) = &state.overview else {
        return frame.render_widget(line(&state.place, place.width).style(bold()), place);
    };
    let looked = format!("as of {} UTC", clock(state.looked_at));
    let width = looked.chars().count() as u16;
    let [left, right] =
        Layout::horizontal([Constraint::Min(0), Constraint::Length(width)]).areas(place);
    frame.render_widget(line(&state.place, left.width.saturating_sub(1)).style(bold()), left);
    frame.render_widget(line(&looked, width), right);
    let all = &overview.totals;
    let text = format!(
        "done/min {}  waiting {}  failed {}  queues {}",
        number(all.done_per_min),
        number(all.waiting),
        number(all.failed),
        number(overview.queues.len() as u64)
    );
    frame.render_widget(line(&text, totals.width), totals);
}

/// What is wrong with the figures.
fn warning(state: &State, now: u64) -> (String, Tone) {
    match (&state.lost, &state.overview) {
        (Some(why), Some(_)) => {
            let (at, ago) = (clock(state.looked_at), span(now.saturating_sub(state.looked_at)));
            let text = format!(
                "NO ANSWER since {at} UTC ({ago}): all figures are from then; trying again. {why}"
            );
            (text, Tone::Bad)
        }
        (Some(why), None) => (format!("NO ANSWER yet; trying again. {why}"), Tone::Bad),
        (None, Some(overview)) => {
            let refused = state.detail().and_then(|detail| detail.refused.clone());
            let text = refused.or_else(|| overview.notice.clone());
            (text.unwrap_or_default(), Tone::Doubtful)
        }
        (None, None) => (String::new(), Tone::Plain),
    }
}

/// A question, what came of it, or the keys.
fn foot(state: &State, width: u16) -> (String, Style) {
    if let Mode::Question(change) = &state.mode {
        let text = format!("{} the queue {}, {}? [y/N]", change.verb(), change.queue, state.place);
        return (text, bold());
    }
    if let Some(note) = &state.note {
        return (note.clone(), Style::new());
    }
    let all = "q quit | j/k select | 1 queues | 2 workers | 3 running | 4 failed | p pause | s sort | ? help";
    let short = "q quit | 1-4 tables | p pause | s sort | ? help";
    let keys = if all.len() <= usize::from(width) { all } else { short };
    (keys.to_owned(), Style::new().add_modifier(Modifier::DIM))
}

/// The queues, and below them what the selected one does.
fn queues(frame: &mut Frame<'_>, area: Rect, state: &State) {
    // Less has no room for what stands below.
    if area.height < 14 {
        return table(frame, area, state, Panel::Queues);
    }
    // A title, a head, and each line.
    let wanted = |panel| state.lines(panel).map_or(0, |lines| lines.len().min(999) as u16) + 2;
    let upper = wanted(Panel::Queues).clamp(4, area.height * 2 / 5);
    let rest = area.height - upper - 3;
    let serving = wanted(Panel::Workers).clamp(3, rest / 2);
    let heights = [upper, 3, serving, rest - serving].map(Constraint::Length);
    let [upper, chart, serving, running] = Layout::vertical(heights).areas(area);
    table(frame, upper, state, Panel::Queues);
    if let Some(queue) = state.selected() {
        ended(frame, chart, queue);
    }
    table(frame, serving, state, Panel::Workers);
    table(frame, running, state, Panel::Running);
}

/// What ended on a queue within the last hour, minute by minute.
fn ended(frame: &mut Frame<'_>, area: Rect, queue: &Queue) {
    let [title, bars] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let ended = &queue.ended;
    let text = format!(
        "ended on {} by the minute, in the last hour: {}, at most {}",
        queue.line.name,
        number(ended.iter().sum()),
        number(ended.iter().copied().max().unwrap_or(0))
    );
    frame.render_widget(line(&text, title.width).style(bold()), title);
    let last = ended.len().saturating_sub(usize::from(bars.width));
    frame.render_widget(Sparkline::default().data(&ended[last..]), bars);
}

/// A table with its title; that of the state's panel has a selected line.
fn table(frame: &mut Frame<'_>, area: Rect, state: &State, panel: Panel) {
    let [above, area] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let lines = state.lines(panel);
    let count = lines.as_ref().map_or(0, Vec::len);
    frame.render_widget(line(&title(state, panel, count), above.width).style(bold()), above);
    let lines = match lines {
        None => {
            let is_refused = state.detail().is_some_and(|detail| detail.refused.is_some());
            let text = if is_refused { "not known" } else { LOOKING };
            return frame.render_widget(Paragraph::new(text), area);
        }
        Some(lines) if lines.is_empty() => {
            return frame.render_widget(paragraph(wrap(&empty(state, panel), area.width)), area);
        }
        Some(lines) => lines,
    };
    let is_selectable = state.panel == panel;
    let mark = if is_selectable { MARK.len() as u16 } else { 0 };
    let columns = panel.columns();
    let fitted = fit(columns, &lines, GAP, area.width.saturating_sub(mark));
    let head = Row::new(fitted.iter().map(|(at, _)| columns[*at].title)).style(bold());
    let rows = lines.iter().map(|line| row(line, panel, &fitted, state.colors));
    let (spacing, selected) = if is_selectable {
        (HighlightSpacing::Always, state.selected_line(panel))
    } else {
        (HighlightSpacing::Never, None)
    };
    let table = Table::new(rows, fitted.iter().map(|(_, width)| *width))
        .header(head)
        .column_spacing(GAP)
        .highlight_symbol(MARK)
        .highlight_spacing(spacing)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut selected = TableState::new().with_selected(selected);
    frame.render_stateful_widget(table, area, &mut selected);
}

fn row(line: &Line, panel: Panel, fitted: &[(usize, u16)], colors: bool) -> Row<'static> {
    Row::new(fitted.iter().map(|(at, width)| {
        let text = line.cells.get(*at).map_or("", |cell| &cell.text);
        let tone = if panel.columns()[*at].title == "STATE" { line.tone } else { Tone::Plain };
        Cell::new(one_line(text, *width)).style(style(tone, colors))
    }))
}

fn title(state: &State, panel: Panel, count: usize) -> String {
    let queue = state.selected().map_or("-", |queue| &queue.line.name);
    let what = match panel {
        Panel::Queues => "queues".to_owned(),
        Panel::Workers => format!("workers of {queue}"),
        Panel::Running => format!("running on {queue}"),
        Panel::Failed => format!("failures of {queue} in groups"),
    };
    let sorted = panel.columns()[state.sorted_by(panel)].title;
    format!("{what}: {}, by {sorted}", number(count as u64))
}

/// What an empty table says.
fn empty(state: &State, panel: Panel) -> String {
    let queue = state.selected().map_or("-", |queue| &queue.line.name);
    match panel {
        Panel::Queues => String::new(),
        Panel::Workers => {
            format!("No worker serves {queue}: start one with HWORKER_QUEUES={queue}.")
        }
        Panel::Running => "Nothing runs.".to_owned(),
        Panel::Failed => "No job has failed.".to_owned(),
    }
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let width = KEYS.iter().map(|(key, _)| key.len()).max().unwrap_or(0) as u16;
    let rows = KEYS.map(|(key, what)| Row::new([key, what]));
    let table = Table::new(rows, [Constraint::Length(width), Constraint::Min(0)])
        .header(Row::new(["KEY", "DOES"]).style(bold()))
        .column_spacing(GAP);
    frame.render_widget(table, area);
}

/// A text in lines that fit. Words that are too long for one are broken.
fn wrap(text: &str, width: u16) -> Vec<String> {
    // Errors may be longer.
    const LONGEST: usize = 1000;
    let (text, width) = (shown(&cut(text, LONGEST)), usize::from(width.max(1)));
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let length = |text: &str| text.chars().count();
        if !line.is_empty() {
            if length(&line) + 1 + length(word) > width {
                lines.push(std::mem::take(&mut line));
            } else {
                line.push(' ');
            }
        }
        for c in word.chars() {
            if length(&line) == width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

fn paragraph(lines: Vec<String>) -> Paragraph<'static> {
    Paragraph::new(lines.into_iter().map(text::Line::from).collect::<Vec<_>>())
}

fn line(text: &str, width: u16) -> Paragraph<'static> {
    Paragraph::new(one_line(text, width))
}

/// A text as far as there is room, with a word that there is more.
fn one_line(text: &str, width: u16) -> String {
    let text = shown(text);
    let width = usize::from(width);
    if text.chars().count() <= width { text } else { cut(&text, width.saturating_sub(1)) }
}

fn clock(ms: u64) -> String {
    utc(ms).split(' ').next_back().unwrap_or_default().to_owned()
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Colours are never alone: what has one is a word too.
fn style(tone: Tone, colors: bool) -> Style {
    match (tone, colors) {
        (Tone::Good, true) => Style::new().fg(Color::Green),
        (Tone::Doubtful, true) => Style::new().fg(Color::Yellow),
        (Tone::Bad, true) => bold().fg(Color::Red),
        (Tone::Bad, false) => bold(),
        _ => Style::new(),
    }
}
