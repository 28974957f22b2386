//! What processes write down of what they do: a file for each, a record of 32 bytes for each line.
//!
//! Each record is one write to a file opened for appending, so a process that is killed loses nothing of what it wrote,
//! and times are those of `CLOCK_MONOTONIC`, which all processes of a machine share and nobody can set.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

/// Bytes of a record.
const RECORD: usize = 32;

/// How many are read at once.
const CHUNK: usize = 4096;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum What {
    /// The process runs; `count` is its number in the system.
    Up = 1,
    /// A producer is about to enqueue `count` jobs from `n` on.
    Trying,
    /// They are in, as hworker says.
    Accepted,
    /// They are not in, as hworker says.
    Refused,
    /// Nobody knows.
    Uncertain,
    /// A body of the job `n` begins under the lease `token`; 0 where it does not know that, and `count` is then the number of the
    /// run in its process.
    Begin,
    /// It ends; `outcome` says how.
    End,
    /// The process did not run for `count` ms, though nobody had stopped it.
    Stalled,
    /// The process ends as it should.
    Done,
}

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Outcome {
    None,
    Success,
    /// Returned an error that asks for another attempt, in whatever way.
    Error,
    /// Panics.
    Panic,
    /// Returned `hworker::fail`.
    Fail,
    /// Returned `hworker::snooze`.
    Snooze,
    /// Ends its process.
    Abort,
    /// Was dropped before its end.
    Dropped,
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) what: What,
    pub(crate) outcome: Outcome,
    /// Index of the queue.
    pub(crate) queue: u8,
    pub(crate) n: u32,
    pub(crate) count: u32,
    pub(crate) token: u64,
    pub(crate) at: u64,
}

/// Nanoseconds of the clock that all processes share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Note {
    /// Of jobs `n` to `n + count`, now.
    pub(crate) fn of(what: What, n: u32, count: u32) -> Self {
        Self { what, outcome: Outcome::None, queue: 0, n, count, token: 0, at: now() }
    }

    fn to_bytes(self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[0] = self.what as u8;
        bytes[1] = self.outcome as u8;
        bytes[2] = self.queue;
        bytes[4..8].copy_from_slice(&self.n.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.token.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.at.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        const WHAT: [What; 9] = [
            What::Up,
            What::Trying,
            What::Accepted,
            What::Refused,
            What::Uncertain,
            What::Begin,
            What::End,
            What::Stalled,
            What::Done,
        ];
        const OUTCOME: [Outcome; 8] = [
            Outcome::None,
            Outcome::Success,
            Outcome::Error,
            Outcome::Panic,
            Outcome::Fail,
            Outcome::Snooze,
            Outcome::Abort,
            Outcome::Dropped,
        ];
        let short = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        Some(Self {
            what: *WHAT.get(usize::from(*bytes.first()?).checked_sub(1)?)?,
            outcome: *OUTCOME.get(usize::from(bytes[1]))?,
            queue: bytes[2],
            n: short(4)?,
            count: short(8)?,
            token: long(16)?,
            at: long(24)?,
        })
    }
}

/// The diary of this process.
pub(crate) struct Diary(File);

impl Diary {
    /// Goes on with the file, or begins it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().create(true).append(true).open(path)?))
    }

    /// Adds a record.
    ///
    /// # Panics
    /// Where it cannot: a run whose history has gaps shows nothing.
    pub(crate) fn note(&self, note: Note) {
        (&self.0).write_all(&note.to_bytes()).expect("the diary can be written");
    }
}

/// Reads the diary of another process while that writes it.
pub(crate) struct Reader {
    file: File,
    at: u64,
}

impl Reader {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // The process may not have begun it.
        let file = OpenOptions::new().create(true).append(true).read(true).open(path)?;
        Ok(Self { file, at: 0 })
    }

    /// What was added since, or an error where it is none of ours.
    pub(crate) fn read(&mut self, mut each: impl FnMut(Note)) -> io::Result<()> {
        let mut buffer = vec![0; RECORD * CHUNK];
        loop {
            let length = self.file.read_at(&mut buffer, self.at)?;
            let (records, _) = buffer[..length].as_chunks::<RECORD>();
            for record in records {
                each(Note::from_bytes(record).ok_or(io::ErrorKind::InvalidData)?);
            }
            self.at += (records.len() * RECORD) as u64;
            if records.is_empty() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("diary");
        let mut reader = Reader::open(&path).expect("it opens");
        let diary = Diary::open(&path).expect("it opens");
        let mut begin = Note::of(What::Begin, 7, 1);
        (begin.token, begin.queue) = (1 << 53, 1);
        let end = Note { what: What::End, outcome: Outcome::Dropped, ..begin };
        let mut read = Vec::new();
        diary.note(begin);
        reader.read(|note| read.push(note)).expect("it is read");
        diary.note(end);
        reader.read(|note| read.push(note)).expect("it is read");
        assert_eq!(read, [begin, end]);
        std::fs::write(&path, [99; 96]).expect("it is written");
        assert!(reader.read(|_| {}).is_err());
    }
}
