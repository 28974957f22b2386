//! The log that the server itself writes: every change of its data in order, each script and each transaction as one.
//!
//! With `appendfsync always` a change is in the file before anyone has its answer. What a killed server had written in part
//! it cuts off when it starts again; here too only what is whole is read.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Words of a command.
pub(crate) type Command = Vec<Vec<u8>>;

const FIRST_READ: usize = 1 << 20;

/// Follows the log of a server while that writes it, over rewrites and restarts.
pub(crate) struct Log {
    dir: PathBuf,
    open: Option<Open>,
}

struct Open {
    number: u64,
    /// Still readable when the server has removed it.
    file: File,
    /// What is before this was handed over.
    at: u64,
}

impl Log {
    /// Of the server whose data are in this directory. It must be there before anything is written.
    pub(crate) fn of(data: &Path) -> Self {
        Self { dir: data.join("appendonlydir"), open: None }
    }

    /// Hands over each change that was added until now: the commands of one transaction, or one command alone.
    pub(crate) fn read(&mut self, mut each: impl FnMut(&[Command])) -> io::Result<()> {
        loop {
            if self.open.is_none() {
                let Some(number) = self.next_number(0)? else { return Ok(()) };
                self.open = Some(Open::new(&self.dir, number)?);
            }
            let Some(open) = &mut self.open else { return Ok(()) };
            // Looked for first: once there is a next file, nothing more is added to this one.
            let number = open.number;
            let next = self.next_number(number)?;
            let Some(open) = &mut self.open else { return Ok(()) };
            open.read(&mut each)?;
            match next {
                Some(next) => self.open = Some(Open::new(&self.dir, next)?),
                None => return Ok(()),
            }
        }
    }

    /// The file after that number.
    fn next_number(&self, after: u64) -> io::Result<Option<u64>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            entries => entries?,
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let number =
            |name: String| name.strip_suffix(".incr.aof")?.rsplit_once('.')?.1.parse::<u64>().ok();
        Ok(names.filter_map(number).filter(|number| *number > after).min())
    }
}

impl Open {
    fn new(dir: &Path, number: u64) -> io::Result<Self> {
        let file = File::open(dir.join(format!("appendonly.aof.{number}.incr.aof")))?;
        Ok(Self { number, file, at: 0 })
    }

    fn read(&mut self, each: &mut impl FnMut(&[Command])) -> io::Result<()> {
        let end = self.file.metadata()?.len();
        let mut read_at_once = FIRST_READ;
        while self.at < end {
            let mut buffer = vec![0; read_at_once];
            let length = self.file.read_at(&mut buffer, self.at)?;
            let done = changes(&buffer[..length], each)?;
            self.at += done as u64;
            if done == 0 && length == buffer.len() {
                // One change is larger than all of this.
                read_at_once *= 2;
            } else if done == 0 {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Hands over the whole changes at the beginning of these bytes; says how many bytes they are.
fn changes(bytes: &[u8], each: &mut impl FnMut(&[Command])) -> io::Result<usize> {
    let (mut at, mut done) = (0, 0);
    let mut transaction: Option<Vec<Command>> = None;
    while let Some((command, length)) = command(&bytes[at..])? {
        at += length;
        let name = command.first().map(|word| word.to_ascii_uppercase()).unwrap_or_default();
        match (name.as_slice(), &mut transaction) {
            (b"MULTI", _) => transaction = Some(Vec::new()),
            (b"EXEC", _) => {
                each(&transaction.take().unwrap_or_default());
                done = at;
            }
            (_, Some(commands)) => commands.push(command),
            (_, None) => {
                each(&[command]);
                done = at;
            }
        }
    }
    Ok(done)
}

/// The command at the beginning, and how many bytes it takes; none where it is not whole.
fn command(bytes: &[u8]) -> io::Result<Option<(Command, usize)>> {
    let Some((line, mut at)) = line(bytes, 0) else { return Ok(None) };
    if line.starts_with(b"#") {
        // A remark, such as the time.
        return Ok(Some((Vec::new(), at)));
    }
    let mut words = Vec::new();
    for _ in 0..number(line, b'*')? {
        let Some((length, start)) = self::line(bytes, at) else { return Ok(None) };
        let end = start + number(length, b'$')?;
        let Some(word) = bytes.get(start..end).filter(|_| bytes.len() >= end + 2) else {
            return Ok(None);
        };
        words.push(word.to_vec());
        at = end + 2;
    }
    Ok(Some((words, at)))
}

/// The line that begins there, and where the next one does.
fn line(bytes: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(from..)?;
    let length = rest.iter().take(64).position(|byte| *byte == b'\n')?;
    Some((rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]), from + length + 1))
}

fn number(line: &[u8], begins: u8) -> io::Result<usize> {
    let digits = line.strip_prefix(&[begins]).and_then(|digits| str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        let line = String::from_utf8_lossy(line).into_owned();
        io::Error::new(io::ErrorKind::InvalidData, format!("`{line}` in the log of the server"))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn text(changes: &[Vec<String>]) -> Vec<&str> {
        changes.iter().flatten().map(String::as_str).collect()
    }

    fn read(bytes: &[u8]) -> (Vec<Vec<String>>, usize) {
        let mut all = Vec::new();
        let done = changes(bytes, &mut |commands| {
            let words = |command: &Command| String::from_utf8_lossy(&command.join(&b' ')).into();
            all.push(commands.iter().map(words).collect());
        });
        (all, done.expect("it is a log"))
    }

    #[test]
    fn only_what_is_whole_is_read() {
        let alone = b"*2\r\n$3\r\nDEL\r\n$1\r\na\r\n";
        let both = b"*1\r\n$5\r\nMULTI\r\n*1\r\n$1\r\nx\r\n*1\r\n$1\r\ny\r\n*1\r\n$4\r\nEXEC\r\n";
        let all = [&alone[..], b"#TS:1700000000\r\n", both].concat();
        for length in 0..=all.len() {
            let (changes, done) = read(&all[..length]);
            assert!(done <= length);
            let expected: &[&str] = match length {
                0..20 => &[],
                20..36 => &["DEL a"],
                _ if length < all.len() => &["DEL a", ""],
                _ => &["DEL a", "", "x", "y"],
            };
            assert_eq!(text(&changes), expected, "{length}");
        }
        assert!(changes(b"what is this\r\n", &mut |_| {}).is_err());
    }

    #[test]
    fn a_log_goes_on_in_the_next_file() {
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().join("appendonlydir");
        fs::create_dir(&dir).expect("a directory");
        let write = |number: u64, text: &str| {
            let name = format!("appendonly.aof.{number}.incr.aof");
            fs::write(dir.join(name), text).expect("it is written");
        };
        let mut log = Log::of(home.path());
        let mut seen = Vec::new();
        let mut read = |log: &mut Log| {
            log.read(|change| seen.push(change[0][0][0])).expect("a log");
            seen.clone()
        };
        write(1, "*1\r\n$1\r\na\r\n*1\r\n$1\r\nb");
        assert_eq!(read(&mut log), b"a");
        write(1, "*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n");
        write(2, "*1\r\n$1\r\nc\r\n");
        assert_eq!(read(&mut log), b"abc");
    }

    #[test]
    fn what_is_added_while_it_is_read_is_for_the_next_time() {
        // Else a checker that is slower than the server would keep what it follows to itself for ever.
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().join("appendonlydir");
        fs::create_dir(&dir).expect("a directory");
        let file = dir.join("appendonly.aof.1.incr.aof");
        let mut written = File::create(&file).expect("a file");
        let mut add = || written.write_all(b"*1\r\n$1\r\na\r\n").expect("it is written");
        let mut log = Log::of(home.path());
        add();
        for _ in 0..3 {
            let mut seen = 0;
            log.read(|_| {
                seen += 1;
                assert!(seen < 2, "it goes on for as long as more comes");
                add();
            })
            .expect("a log");
            assert_eq!(seen, 1);
        }
    }
}
