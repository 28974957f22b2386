//! Text that others wrote: names, errors, arguments, tags, hosts. It passes through here on its way into the page, and is escaped by maud behind.

use maud::{Markup, html};

use crate::manifest::HIDDEN;

/// A name longer than this gives way in its middle.
const LONG: usize = 30;

/// So much of its end stays, as names differ there.
const END: usize = 12;

/// No more of a name is in the page.
const NAME: usize = 300;

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Plain(&'a str),
    /// A character that is not seen, or changes the order of others.
    Control(char),
    /// What stands in place of what is not shown.
    Hidden,
}

/// A text in one line.
pub(super) fn foreign(text: &str) -> Markup {
    html! { bdi { (marked(text, false)) } }
}

/// A text in one line, of which no more than so many characters are shown.
pub(super) fn cut(text: &str, most: usize) -> Markup {
    let (shown, is_whole) = begin(text, most);
    html! { bdi { (marked(shown, false)) @if !is_whole { "…" } } }
}

/// A text in lines, of which no more than so many characters are shown.
pub(super) fn lines(text: &str, most: usize) -> Markup {
    let (shown, is_whole) = begin(text, most);
    html! { bdi { (marked(shown, true)) @if !is_whole { "\n…" } } }
}

/// A name; a long one gives way in its middle.
pub(super) fn name(text: &str) -> Markup {
    let (shown, _) = begin(text, NAME);
    let length = shown.chars().count();
    if length <= LONG {
        return foreign(shown);
    }
    let (head, tail) = shown.split_at(place(shown, length - END));
    html! {
        span.mid title=(plain(shown)) {
            span { bdi { (marked(head, false)) } }
            span { bdi { (marked(tail, false)) } }
        }
    }
}

/// For an attribute: characters that are not seen are named, and no more than a name's length is given.
pub(super) fn plain(text: &str) -> String {
    let (shown, is_whole) = begin(text, NAME);
    let mut plain = String::with_capacity(shown.len());
    for part in parts(shown, false) {
        match part {
            Part::Plain(text) => plain.push_str(text),
            Part::Control(c) => plain.extend(["⟨", &label(c), "⟩"]),
            Part::Hidden => plain.push_str(HIDDEN),
        }
    }
    if !is_whole {
        plain.push('…');
    }
    plain
}

/// A part of a text, without the element that keeps its direction from what stands around.
pub(super) fn marked(text: &str, keeps_lines: bool) -> Markup {
    html! {
        @for part in parts(text, keeps_lines) {
            @match part {
                Part::Plain(text) => (text),
                Part::Control(c) => span.ctl title=(code(c)) { (label(c)) },
                Part::Hidden => span.veil { (HIDDEN) },
            }
        }
    }
}

/// The first so many characters, and whether these are all.
pub(super) fn begin(text: &str, most: usize) -> (&str, bool) {
    let end = place(text, most);
    (&text[..end], end == text.len())
}

/// Where the character of this number stands.
fn place(text: &str, number: usize) -> usize {
    text.char_indices().nth(number).map_or(text.len(), |(at, _)| at)
}

fn parts(text: &str, keeps_lines: bool) -> Vec<Part<'_>> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let is_hidden = rest.starts_with(HIDDEN);
        let first = rest.chars().next().filter(|c| is_control(*c, keeps_lines));
        let ends = |(at, c): &(usize, char)| {
            is_control(*c, keeps_lines) || HIDDEN.starts_with(*c) && rest[*at..].starts_with(HIDDEN)
        };
        let length = match first {
            _ if is_hidden => HIDDEN.len(),
            Some(c) => c.len_utf8(),
            None => rest.char_indices().find(ends).map_or(rest.len(), |(at, _)| at),
        };
        parts.push(match first {
            _ if is_hidden => Part::Hidden,
            Some(c) => Part::Control(c),
            None => Part::Plain(&rest[..length]),
        });
        rest = &rest[length..];
    }
    parts
}

/// Whether a character has an effect, and no look of its own.
fn is_control(c: char, keeps_lines: bool) -> bool {
    match c {
        '\n' | '\t' => !keeps_lines,
        c if c.is_control() => true,
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{feff}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

fn code(c: char) -> String {
    format!("U+{:04X}", u32::from(c))
}

/// What a control character is called.
fn label(c: char) -> String {
    const C0: [&str; 32] = [
        "NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "TAB", "LF", "VT", "FF",
        "CR", "SO", "SI", "DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM",
        "SUB", "ESC", "FS", "GS", "RS", "US",
    ];
    let name = match c {
        '\u{7f}' => "DEL",
        '\u{ad}' => "SHY",
        '\u{61c}' => "ALM",
        '\u{200b}' => "ZWSP",
        '\u{200e}' => "LRM",
        '\u{200f}' => "RLM",
        '\u{2028}' => "LS",
        '\u{2029}' => "PS",
        '\u{202a}' => "LRE",
        '\u{202b}' => "RLE",
        '\u{202c}' => "PDF",
        '\u{202d}' => "LRO",
        '\u{202e}' => "RLO",
        '\u{2060}' => "WJ",
        '\u{2066}' => "LRI",
        '\u{2067}' => "RLI",
        '\u{2068}' => "FSI",
        '\u{2069}' => "PDI",
        '\u{feff}' => "BOM",
        c => match C0.get(c as usize) {
            Some(name) => name,
            None => return code(c),
        },
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_shown_as_text() {
        for (text, wanted) in [
            ("<script>alert(1)</script>", "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;</bdi>"),
            (
                "\"><img src=x onerror=alert(1)>",
                "<bdi>&quot;&gt;&lt;img src=x onerror=alert(1)&gt;</bdi>",
            ),
            ("a & b", "<bdi>a &amp; b</bdi>"),
            ("", "<bdi></bdi>"),
        ] {
            assert_eq!(foreign(text).into_string(), wanted);
        }
    }

    #[test]
    fn what_has_an_effect_is_named() {
        let shown = foreign("invoice_\u{202e}fdp.exe\u{1b}[31m\u{200b}").into_string();
        assert!(
            shown.contains(r#"invoice_<span class="ctl" title="U+202E">RLO</span>fdp.exe"#),
            "{shown}"
        );
        assert!(shown.contains(r#"<span class="ctl" title="U+001B">ESC</span>[31m"#), "{shown}");
        assert!(
            shown.ends_with(r#"<span class="ctl" title="U+200B">ZWSP</span></bdi>"#),
            "{shown}"
        );
        assert_eq!(plain("a\u{202e}b\u{85}"), "a⟨RLO⟩b⟨U+0085⟩");
        for c in
            (0..0x20).chain(0x7f..0xa0).chain([0x061c]).chain(0x200e..0x2010).chain(0x2028..0x202f)
        {
            let c = char::from_u32(c).unwrap();
            assert!(!foreign(&c.to_string()).into_string().contains(c), "{c:?}");
        }
        // What people write with is left alone.
        for text in ["שלום עולם", "مرحبا", "für Oma", "👩\u{200d}💻"] {
            assert_eq!(foreign(text).into_string(), format!("<bdi>{text}</bdi>"));
        }
    }

    #[test]
    fn lines_are_kept_where_they_may_be() {
        assert_eq!(lines("a\n\tb", 10).into_string(), "<bdi>a\n\tb</bdi>");
        assert!(foreign("a\nb").into_string().contains("LF"));
        assert!(lines("a\rb", 10).into_string().contains("CR"));
        assert_eq!(lines("abc", 2).into_string(), "<bdi>ab\n…</bdi>");
    }

    #[test]
    fn what_is_hidden_has_a_veil() {
        assert_eq!(
            foreign("a\"•••\"").into_string(),
            "<bdi>a&quot;<span class=\"veil\">•••</span>&quot;</bdi>"
        );
        assert_eq!(foreign("••").into_string(), "<bdi>••</bdi>");
    }

    #[test]
    fn a_long_name_gives_way_in_its_middle() {
        let long = "reporting::tenant::acme::rebuild_ledger_projection";
        let shown = name(long).into_string();
        assert!(shown.contains(&format!("title=\"{long}\"")), "{shown}");
        assert!(shown.contains("<span><bdi>r_projection</bdi></span>"), "{shown}");
        assert_eq!(name("send_welcome").into_string(), "<bdi>send_welcome</bdi>");
        for huge in ["a".repeat(10_000), "é\u{202e}".repeat(5_000), "<".repeat(10_000)] {
            assert!(name(&huge).into_string().len() < 30_000);
            assert!(plain(&huge).chars().count() <= NAME * 5 + 1);
        }
    }
}
