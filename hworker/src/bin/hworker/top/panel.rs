//! The four tables: which columns they have, and which of these fit into a terminal.

use std::cmp::Reverse;

use crate::output::Tone;

/// What the table shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Panel {
    #[default]
    Queues,
    /// Of the selected queue, as are those that follow.
    Workers,
    Running,
    /// Groups of failures.
    Failed,
}

/// A column of a table.
pub(super) struct Column {
    pub(super) title: &'static str,
    /// So wide it is at least; a text is cut to this where there is no more room.
    least: u16,
    /// Of the columns that do not fit the one with the highest rank goes first; 0 always stays.
    rank: u8,
    is_text: bool,
}

const fn number(title: &'static str, least: u16, rank: u8) -> Column {
    Column { title, least, rank, is_text: false }
}

const fn text(title: &'static str, least: u16, rank: u8) -> Column {
    Column { title, least, rank, is_text: true }
}

const QUEUES: [Column; 11] = [
    text("QUEUE", 10, 0),
    number("WAIT", 6, 1),
    number("OLDEST", 6, 5),
    number("RUN", 4, 4),
    number("SCHED", 5, 10),
    number("FAILED", 6, 2),
    number("WORKERS", 7, 7),
    number("DONE/MIN", 8, 6),
    number("WAIT P95", 8, 8),
    number("EMPTY IN", 8, 9),
    text("STATE", 10, 3),
];

const WORKERS: [Column; 7] = [
    text("WORKER", 14, 0),
    text("HOST", 8, 5),
    number("RUN", 3, 1),
    number("SLOTS", 5, 1),
    number("HEARD", 5, 2),
    text("LONGEST", 14, 4),
    text("STATE", 8, 3),
];

const RUNNING: [Column; 5] = [
    number("FOR", 5, 0),
    text("JOB", 14, 0),
    number("ATTEMPT", 7, 3),
    text("ID", 12, 1),
    text("WORKER", 10, 2),
];

const FAILED: [Column; 6] = [
    number("GROUP", 12, 4),
    number("COUNT", 5, 0),
    text("JOB", 12, 1),
    number("FIRST", 5, 5),
    number("LAST", 5, 3),
    text("MESSAGE", 16, 2),
];

impl Panel {
    pub(super) const ALL: [Self; 4] = [Self::Queues, Self::Workers, Self::Running, Self::Failed];

    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Self::Queues => &QUEUES,
            Self::Workers => &WORKERS,
            Self::Running => &RUNNING,
            Self::Failed => &FAILED,
        }
    }

    /// The place of the column by which it is sorted at first: running jobs by how long they run, failures by their number, the rest by name.
    pub(super) fn sorted_at_first(self) -> usize {
        usize::from(self == Self::Failed)
    }

    pub(super) fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }
}

/// A line of a table.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// By which it is found again in the next look.
    pub(super) name: String,
    pub(super) cells: Vec<Cell>,
    /// Of its state.
    pub(super) tone: Tone,
}

/// A field of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: String,
    /// By which lines are sorted, the highest first; equal ones by the text.
    rank: u64,
}

impl Cell {
    pub(super) fn new(text: String, rank: u64) -> Self {
        Self { text, rank }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, rank: 0 }
    }
}

/// Sorts lines by a column.
pub(super) fn sort(lines: &mut [&Line], column: usize) {
    fn key(line: &Line, column: usize) -> Option<(Reverse<u64>, &str)> {
        line.cells.get(column).map(|cell| (Reverse(cell.rank), cell.text.as_str()))
    }
    lines.sort_by(|one, other| key(one, column).cmp(&key(other, column)));
}

/// The columns that fit into a width, by their places, with the width of each.
pub(super) fn fit(columns: &[Column], lines: &[&Line], gap: u16, width: u16) -> Vec<(usize, u16)> {
    let longest = |at: usize| {
        let lengths =
            lines.iter().filter_map(|line| Some(line.cells.get(at)?.text.chars().count()));
        let title = columns[at].title.chars().count();
        u16::try_from(lengths.max().unwrap_or(0).max(title)).unwrap_or(u16::MAX)
    };
    let wanted: Vec<u16> = (0..columns.len()).map(longest).collect();
    let at_least = |at: usize| match &columns[at] {
        column if column.is_text => wanted[at].min(column.least),
        column => wanted[at].max(column.least),
    };
    let mut fitted: Vec<(usize, u16)> = (0..columns.len()).map(|at| (at, at_least(at))).collect();
    let needed = |fitted: &[(usize, u16)]| {
        let all: u32 = fitted.iter().map(|(_, width)| u32::from(*width) + u32::from(gap)).sum();
        all.saturating_sub(u32::from(gap))
    };
    while needed(&fitted) > u32::from(width)
        && let Some(last) =
            fitted.iter().map(|(at, _)| columns[*at].rank).max().filter(|rank| *rank > 0)
    {
        fitted.retain(|(at, _)| columns[*at].rank != last);
    }
    let mut spare = u32::from(width).saturating_sub(needed(&fitted)) as u16;
    for (at, width) in fitted.iter_mut().filter(|(at, _)| columns[*at].is_text) {
        let more = (wanted[*at] - *width).min(spare);
        *width += more;
        spare -= more;
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(cells: &[(&str, u64)]) -> Line {
        let cells: Vec<_> =
            cells.iter().map(|(text, rank)| Cell::new((*text).to_owned(), *rank)).collect();
        Line { name: cells[0].text.clone(), cells, tone: Tone::Plain }
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_by_their_rank() {
        let titles = |width| {
            let fitted = fit(&QUEUES, &[], 2, width);
            let all: u16 = fitted.iter().map(|(_, width)| width + 2).sum();
            assert!(all <= width + 2, "{fitted:?} in {width}");
            fitted.iter().map(|(at, _)| QUEUES[*at].title).collect::<Vec<_>>()
        };
        assert_eq!(titles(200).len(), QUEUES.len());
        assert_eq!(titles(41), ["QUEUE", "WAIT", "RUN", "FAILED", "STATE"]);
        assert_eq!(titles(20), ["QUEUE", "WAIT"]);
        for panel in Panel::ALL {
            for width in 0..300 {
                let fitted = fit(panel.columns(), &[], 2, width);
                assert!(fitted.iter().any(|(at, _)| panel.columns()[*at].rank == 0), "{width}");
            }
        }
    }

    #[test]
    fn a_text_gets_the_room_that_is_left() {
        let long = "x".repeat(100);
        let long = line(&[("1h", 1), (&long, 0), ("1", 1), ("id", 0), ("worker", 0)]);
        let narrow = fit(&RUNNING, &[&long], 2, 60);
        let wide = fit(&RUNNING, &[&long], 2, 200);
        assert_eq!((narrow[1].1, wide[1].1), (60 - (5 + 2) - (7 + 2) - (2 + 2) - (6 + 2), 100));
    }

    #[test]
    fn numbers_are_sorted_from_the_highest_and_texts_from_a() {
        let lines = [[("b", 0), ("9", 9)], [("c", 0), ("1,000", 1000)], [("a", 0), ("9", 9)]];
        let lines = lines.map(|cells| line(&cells));
        let sorted = |column| {
            let mut lines: Vec<&Line> = lines.iter().collect();
            sort(&mut lines, column);
            lines.iter().map(|line| line.name.as_str()).collect::<String>()
        };
        assert_eq!([sorted(0), sorted(1), sorted(7)], ["abc", "cba", "bca"]);
    }
}
