//! What is printed: tables in a terminal, lines of tabs elsewhere, or JSON. Nothing from the server reaches a terminal as it is: control
//! characters are shown as symbols.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use serde_json::Value;

use crate::args::{Args, Color};
use crate::stop::Stop;

/// So many characters a cell of a table has at most: to lay out a text takes the longer the longer it is.
const CELL: usize = 500;

/// In which form rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Table,
    Plain,
    Json,
}

/// The colour in which a row begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Doubtful,
    Bad,
}

impl Tone {
    /// As terminals are told it (ECMA-48, SGR).
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Good => "32",
            Self::Doubtful => "33",
            Self::Bad => "1;31",
        }
    }
}

pub(crate) struct Output {
    pub(crate) form: Form,
    pub(crate) colors: bool,
}

impl Output {
    pub(crate) fn new(args: &Args) -> Self {
        let form = match () {
            () if args.json => Form::Json,
            () if args.plain || !io::stdout().is_terminal() => Form::Plain,
            () => Form::Table,
        };
        let colors = match args.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                io::stdout().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        };
        Self { form, colors }
    }

    /// Begins a terminal's screen anew, for what is printed again and again.
    pub(crate) fn clear(&self) -> Result<(), Stop> {
        if self.form == Form::Table { print("\x1b[H\x1b[2J") } else { Ok(()) }
    }

    /// Prints rows: as a table with a head, as lines of tabs, or each as JSON on a line of its own.
    pub(crate) fn rows<T: Serialize>(
        &self,
        head: &[&str],
        rows: &[T],
        cells: impl Fn(&T) -> Vec<String>,
    ) -> Result<(), Stop> {
        self.toned_rows(head, rows, |_| Tone::Plain, cells)
    }

    /// The same; in a table each row begins in a colour.
    pub(crate) fn toned_rows<T: Serialize>(
        &self,
        head: &[&str],
        rows: &[T],
        tone: impl Fn(&T) -> Tone,
        cells: impl Fn(&T) -> Vec<String>,
    ) -> Result<(), Stop> {
        let mut out = String::new();
        match self.form {
            Form::Json => {
                for row in rows {
                    out.push_str(&json(row)?);
                    out.push('\n');
                }
            }
            Form::Plain => {
                for row in rows {
                    let cells: Vec<_> = cells(row).iter().map(|cell| shown(cell)).collect();
                    out.push_str(&cells.join("\t"));
                    out.push('\n');
                }
            }
            Form::Table => {
                let mut table = Table::new();
                table.load_style(NOTHING).set_header(head);
                for row in rows {
                    table.add_row(cells(row).iter().map(|cell| shown(&cut(cell, CELL))));
                }
                for (at, column) in table.column_iter_mut().enumerate() {
                    let first = u16::from(at > 0);
                    column.set_padding((first, 1));
                    column.set_cell_alignment(CellAlignment::Left);
                }
                // No cell has a line end, so each row is a line.
                let mut tones = rows.iter().map(tone);
                for (at, line) in table.to_string().lines().enumerate() {
                    let line = line.trim_end();
                    let (start, code) = if at == 0 {
                        (line.len(), "1")
                    } else {
                        let code = tones.next().unwrap_or(Tone::Plain).code();
                        (line.find(' ').unwrap_or(line.len()), code)
                    };
                    let (start, rest) = line.split_at(start);
                    // Into a text it cannot fail.
                    let _ = if self.colors && code != "0" {
                        writeln!(out, "\x1b[{code}m{start}\x1b[0m{rest}")
                    } else {
                        writeln!(out, "{line}")
                    };
                }
            }
        }
        print(&out)
    }

    /// Prints one thing: as JSON, or as lines of a name and a value.
    pub(crate) fn one<T: Serialize>(
        &self,
        value: &T,
        lines: &[(&str, String)],
    ) -> Result<(), Stop> {
        if self.form == Form::Json {
            return print(&format!("{}\n", json(value)?));
        }
        let lines = lines.iter().filter(|(_, value)| !value.is_empty());
        let width = lines.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut out = String::new();
        for (name, value) in lines {
            let value = shown_lines(value).replace('\n', &format!("\n{}", " ".repeat(width + 2)));
            // Into a text it cannot fail.
            let _ = writeln!(out, "{name:width$}  {value}");
        }
        print(&out)
    }

    /// Prints one of many: a line for a person, or JSON on a line of its own.
    pub(crate) fn line<T: Serialize>(&self, value: &T, line: &str) -> Result<(), Stop> {
        let line = if self.form == Form::Json { json(value)? } else { shown_lines(line) };
        print(&format!("{line}\n"))
    }

    /// Prints a line for a person, and nothing where JSON is printed.
    pub(crate) fn say(&self, line: &str) -> Result<(), Stop> {
        if self.form == Form::Json { Ok(()) } else { print(&format!("{}\n", shown_lines(line))) }
    }
}

/// JSON in which nothing rewrites a terminal either: what `serde_json` leaves as it is of control characters is escaped.
fn json<T: Serialize>(value: &T) -> Result<String, Stop> {
    let json = serde_json::to_string(value).map_err(|error| Stop::failed(error.to_string()))?;
    let escaped = |c: char| match symbol(c) {
        same if same == c => String::from(c),
        _ => format!("\\u{:04x}", u32::from(c)),
    };
    Ok(json.chars().map(escaped).collect())
}

/// Prints to stdout. A reader that went away, such as `head`, is no failure.
pub(crate) fn print(text: &str) -> Result<(), Stop> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Stop::failed(format!("could not print: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints to stderr, where it is no part of what was asked for.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{}", shown_lines(text));
}

/// A text on one line of a terminal: control characters, those that turn the direction of writing, and those that are not seen are shown as
/// symbols.
pub(crate) fn shown(text: &str) -> String {
    text.chars().map(symbol).collect()
}

/// The same with its line ends.
pub(crate) fn shown_lines(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { c } else { symbol(c) }).collect()
}

fn symbol(c: char) -> char {
    match c {
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{61c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{ad}'
        | '\u{34f}'
        | '\u{180e}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => '\u{fffd}',
        c => c,
    }
}

/// The start of a text, as a list has room for.
pub(crate) fn cut(text: &str, characters: usize) -> String {
    let mut rest = text.chars();
    let start: String = rest.by_ref().take(characters).collect();
    if rest.next().is_some() { start + "…" } else { start }
}

/// Arguments in JSON without those that are not to be shown, and at most 4 KB of them.
pub(crate) fn without(args: &str, redacted: &[String]) -> String {
    const SHOWN: usize = 4096;
    let mut text = args.to_owned();
    if !redacted.is_empty() {
        text = match serde_json::from_str::<Value>(args) {
            Ok(mut value) => {
                hide(&mut value, redacted);
                value.to_string()
            }
            // Where they cannot be told apart none is shown.
            Err(_) => "•••".to_owned(),
        };
    }
    cut(&text, SHOWN)
}

/// Hides arguments in their object.
pub(crate) fn hide(args: &mut Value, redacted: &[String]) {
    for name in redacted {
        if let Some(value) = args.get_mut(name) {
            *value = Value::String("•••".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_rewrites_a_terminal() {
        let osc = "a\u{1b}]52;c;ZXZpbA==\u{7}b\u{9b}31m\u{202e}\n\t\u{7f}";
        let shown = shown(osc);
        assert_eq!(shown, "a␛]52;c;ZXZpbA==␇b\u{fffd}31m\u{fffd}␊␉␡");
        assert_eq!(shown_lines("a\nb\r"), "a\nb␍");
        let json = json(&osc).expect("JSON");
        assert!(json.chars().all(|c| symbol(c) == c), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).expect("the same"), osc);
    }

    #[test]
    fn redacted_arguments_are_not_shown() {
        let redacted = ["card".to_owned()];
        assert_eq!(without(r#"{"card":"4111","n":1}"#, &redacted), r#"{"card":"•••","n":1}"#);
        assert_eq!(without("4111", &redacted), "4111");
        assert_eq!(without("{\"card\":4111", &redacted), "•••");
        assert_eq!(without(r#"{"card": 1}"#, &[]), r#"{"card": 1}"#);
    }
}
