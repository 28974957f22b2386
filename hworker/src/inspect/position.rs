//! Where a page ended, so that the next one goes on behind it, whatever came and went meanwhile.

use std::fmt;

/// The last row that was shown of one place: of a shard, or of a list in it. As text it is part of a cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Position {
    #[default]
    Start,
    /// In a list: its place, counted from the end at which the page began, a hash of its bytes, its time, and a hash of the one behind it.
    List { place: u64, hash: u64, at: u64, next: u64 },
    /// In a sorted set: its score, how many of this score were before it, a hash of its bytes, and with what they begin, as far as that
    /// orders them and may be shown to anybody.
    Sorted { score: u64, before: u64, hash: u64, name: String },
    /// In a hash: the cursor of `HSCAN`, how many of its reply were shown, and a hash of the last one's bytes.
    Hash { cursor: u64, shown: u64, hash: u64 },
    /// In one of several lists, by its name.
    In { list: String, position: Box<Self> },
    /// There are no more.
    End,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("b"),
            Self::List { place, hash, at, next } => {
                write!(f, "l.{place:x}.{hash:x}.{at:x}.{next:x}")
            }
            Self::Sorted { score, before, hash, name } => {
                write!(f, "s.{score:x}.{before:x}.{hash:x}.")?;
                name.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Hash { cursor, shown, hash } => write!(f, "h.{cursor:x}.{shown:x}.{hash:x}"),
            Self::In { list, position } => {
                f.write_str("w.")?;
                list.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                write!(f, ".{position}")
            }
            Self::End => f.write_str("e"),
        }
    }
}

impl Position {
    /// Reads the part of a cursor for one place. `None` for anything else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some((list, position)) =
            text.strip_prefix("w.").and_then(|rest| rest.split_once('.'))
        {
            // A list has no lists in it; and a text from outside does not say how deep this goes.
            let position = (!position.starts_with("w.")).then(|| Self::parse(position))??;
            return Some(Self::In { list: from_hex(list)?, position: Box::new(position) });
        }
        let mut parts = text.split('.');
        let kind = parts.next()?;
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        // No list is as long as that, and one more can be counted.
        let is_place = |place: &u64| *place < (1 << 53);
        let position = match kind {
            "b" => Self::Start,
            "e" => Self::End,
            "l" => Self::List {
                place: number().filter(is_place)?,
                hash: number()?,
                at: number()?,
                next: number()?,
            },
            "h" => {
                Self::Hash { cursor: number()?, shown: number().filter(is_place)?, hash: number()? }
            }
            "s" => {
                let (score, before) = (number()?, number().filter(is_place)?);
                let hash = number()?;
                Self::Sorted { score, before, hash, name: from_hex(parts.next()?)? }
            }
            _ => return None,
        };
        parts.next().is_none().then_some(position)
    }

    /// A cursor: the positions in all places.
    pub(super) fn cursor(of_places: &[Self]) -> String {
        let parts: Vec<_> = of_places.iter().map(ToString::to_string).collect();
        parts.join("~")
    }

    /// The positions in a cursor for so many places.
    pub(super) fn of_places(cursor: &str, places: usize) -> Option<Vec<Self>> {
        let parts: Option<Vec<_>> = cursor.split('~').map(Self::parse).collect();
        parts.filter(|parts| parts.len() == places)
    }
}

fn from_hex(text: &str) -> Option<String> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    String::from_utf8(bytes?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is() {
        let positions = vec![
            Position::Start,
            Position::List { place: 17, hash: u64::MAX, at: 1_795_261_234_567, next: 1 },
            Position::Sorted { score: 9, before: 0, hash: 3, name: "3fa9 mail größe".into() },
            Position::Sorted { score: 9, before: 0, hash: 3, name: String::new() },
            Position::Hash { cursor: 1 << 60, shown: 4, hash: 5 },
            Position::In { list: "+a=größe".into(), position: Box::new(Position::Start) },
            Position::End,
        ];
        let cursor = Position::cursor(&positions);
        assert_eq!(Position::of_places(&cursor, 7), Some(positions));
        assert_eq!(Position::of_places(&cursor, 5), None);
        for wrong in [
            "",
            "x",
            "l.1.2.3",
            "l.1.2.3.4.5",
            "l.g.2.3.4",
            "l.20000000000000.2.3.4",
            "s.1.ffffffffffffffff.3.",
            "s.1.2.3.f",
            "s.1.2.3.ff",
            "h..",
            "h.1.2",
            "b.1",
            "w.61",
            "w.61.w.61.b",
            "s.1.2.3.ééé",
        ] {
            assert_eq!(Position::of_places(wrong, 1), None, "{wrong}");
        }
        // As long as an address may be: nothing is read so deep that the stack ends.
        assert_eq!(Position::of_places(&"w..".repeat(20_000), 1), None);
    }
}
