//! What a body has reported of its job and is not written yet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The log of a job has so many lines, and what is not written yet as well.
pub(crate) const MOST_LINES: usize = 1_000;

/// And so many bytes.
pub(crate) const MOST_BYTES: usize = 256 * 1024;

/// What a body reports. Nothing is allocated for one that reports nothing.
#[derive(Debug, Default)]
pub(crate) struct Report {
    unwritten: Mutex<Unwritten>,
    /// Held while something is written, so that nothing overtakes what is newer.
    pub(crate) order: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
pub(crate) struct Unwritten {
    /// By the names of the fields: progress, checkpoint, how far a loop has come.
    pub(crate) fields: BTreeMap<String, Vec<u8>>,
    pub(crate) lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// A task writes what comes.
    pub(crate) has_writer: bool,
    /// The attempt has ended: what comes later is not written.
    pub(crate) is_closed: bool,
    /// The body says how far it is, so its loops need not.
    pub(crate) body_tells: bool,
    /// The loops that have begun, and how many of them run.
    pub(crate) loops: BTreeSet<String>,
    pub(crate) running_loops: usize,
    /// The first progress of the attempt, and when that was.
    pub(crate) first: Option<(u64, u64)>,
}

impl Report {
    pub(crate) fn unwritten(&self) -> MutexGuard<'_, Unwritten> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unwritten {
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.lines.is_empty()
    }

    pub(crate) fn set(&mut self, field: &str, value: Vec<u8>) {
        match self.fields.get_mut(field) {
            Some(old) => *old = value,
            None => drop(self.fields.insert(field.to_owned(), value)),
        }
    }

    pub(crate) fn add_line(&mut self, line: Vec<u8>) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.lines.len() > MOST_LINES || self.bytes > MOST_BYTES {
            let oldest = self.lines.pop_front();
            self.bytes -= oldest.map_or(self.bytes, |line| line.len());
        }
    }

    /// Takes what is to be written.
    pub(crate) fn take(&mut self) -> (BTreeMap<String, Vec<u8>>, VecDeque<Vec<u8>>) {
        self.bytes = 0;
        (std::mem::take(&mut self.fields), std::mem::take(&mut self.lines))
    }

    /// Puts back what could not be written; what came since is newer.
    pub(crate) fn put_back(&mut self, fields: BTreeMap<String, Vec<u8>>, lines: VecDeque<Vec<u8>>) {
        for (name, value) in fields {
            self.fields.entry(name).or_insert(value);
        }
        let newer = std::mem::take(&mut self.lines);
        self.bytes = 0;
        lines.into_iter().chain(newer).for_each(|line| self.add_line(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_written_is_older_than_what_came_since() {
        let report = Report::default();
        let mut unwritten = report.unwritten();
        let put = |unwritten: &mut Unwritten, value: &str| {
            unwritten.fields.insert("progress".into(), value.into());
            unwritten.add_line(value.into());
        };
        put(&mut unwritten, "old");
        let (fields, lines) = unwritten.take();
        assert!(unwritten.is_empty());
        put(&mut unwritten, "new");
        unwritten.put_back(fields, lines);
        let (fields, lines) = unwritten.take();
        assert_eq!(fields["progress"], b"new");
        assert_eq!(lines, [b"old", b"new"]);
    }

    #[test]
    fn the_oldest_lines_go() {
        let mut unwritten = Unwritten::default();
        for number in 0..=MOST_LINES {
            unwritten.add_line(number.to_string().into_bytes());
        }
        assert_eq!((unwritten.lines.len(), &*unwritten.lines[0]), (MOST_LINES, &b"1"[..]));
        unwritten.add_line(vec![0; MOST_BYTES - 3]);
        assert!(unwritten.lines.len() < 3 && unwritten.bytes <= MOST_BYTES);
    }
}
