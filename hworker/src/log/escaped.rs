//! Characters that end a line or control a terminal, as they stand in the log.

/// A text of a job, as it may stand in a line: without what would end the line, or tell a terminal something.
pub(crate) fn one_line(text: &str) -> String {
    escaped(text, |_| true)
}

/// A text with those of its characters escaped that control a terminal, if they are to be.
pub(super) fn escaped(text: &str, escapes: impl Fn(char) -> bool) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if controls(c) && escapes(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// Beside control characters: separators of lines and paragraphs, and what turns the direction of a text.
pub(super) fn controls(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_line_or_controls_a_terminal_is_escaped() {
        assert_eq!(one_line("größer \\ 日本"), "größer \\ 日本");
        assert_eq!(one_line("a\r\nb\tc\0\u{7f}"), "a\\r\\nb\\tc\\u{0}\\u{7f}");
        assert_eq!(one_line("\u{1b}[31m\u{9b}1m\u{85}"), "\\u{1b}[31m\\u{9b}1m\\u{85}");
        assert_eq!(one_line("\u{2028}\u{202e}\u{2066}"), "\\u{2028}\\u{202e}\\u{2066}");
        let once = one_line("a\nb");
        assert_eq!(one_line(&once), once);
    }
}
