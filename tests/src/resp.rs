//! The Redis protocol, as far as a proxy needs it: where a message ends.

use std::io::{self, BufRead};

/// A request: its bytes, and its words.
pub(crate) struct Command {
    pub(crate) bytes: Vec<u8>,
    pub(crate) words: Vec<Vec<u8>>,
}

/// Reads one request; `None` at the end of the stream.
pub(crate) fn read_command(from: &mut impl BufRead) -> io::Result<Option<Command>> {
    let mut bytes = Vec::new();
    let Some(count) = read_line(from, &mut bytes)? else { return Ok(None) };
    let mut words = Vec::new();
    for _ in 0..number(&count)? {
        let line = read_line(from, &mut bytes)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        words.push(read_bulk(from, &mut bytes, number(&line)?)?);
    }
    Ok(Some(Command { bytes, words }))
}

/// Reads one reply of RESP2 or RESP3 into `bytes`; false at the end of the stream.
pub(crate) fn read_reply(from: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let mut left = 1_i64;
    while left > 0 {
        left -= 1;
        let Some(line) = read_line(from, bytes)? else { return Ok(false) };
        match line[0] {
            b'$' | b'!' | b'=' if number(&line)? >= 0 => {
                read_bulk(from, bytes, number(&line)?)?;
            }
            b'*' | b'~' | b'>' => left += number(&line)?.max(0),
            b'%' => left += 2 * number(&line)?,
            // Attributes stand before the value that they belong to.
            b'|' => left += 2 * number(&line)? + 1,
            _ => {}
        }
    }
    Ok(true)
}

/// Reads a line to its end, which is left out of what is given.
fn read_line(from: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let start = bytes.len();
    from.read_until(b'\n', bytes)?;
    match bytes[start..].strip_suffix(b"\r\n") {
        Some([]) | None => Ok(None),
        Some(line) => Ok(Some(line.to_vec())),
    }
}

fn read_bulk(from: &mut impl BufRead, bytes: &mut Vec<u8>, length: i64) -> io::Result<Vec<u8>> {
    let start = bytes.len();
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidData)?;
    bytes.resize(start + length + 2, 0);
    from.read_exact(&mut bytes[start..])?;
    Ok(bytes[start..start + length].to_vec())
}

fn number(line: &[u8]) -> io::Result<i64> {
    let text = std::str::from_utf8(&line[1..]).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_where_they_end() {
        let replies: &[&[u8]] = &[
            b"+OK\r\n",
            b"$-1\r\n",
            b"$4\r\na\r\nb\r\n",
            b"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n",
            b"*-1\r\n",
            b"%1\r\n+a\r\n*0\r\n",
            b">2\r\n+invalidate\r\n_\r\n",
            b"|1\r\n+a\r\n:1\r\n+after\r\n",
        ];
        let all = replies.concat();
        let mut from = all.as_slice();
        for reply in replies {
            let mut bytes = Vec::new();
            assert!(read_reply(&mut from, &mut bytes).expect("a reply"));
            assert_eq!(bytes, *reply);
        }
        assert!(!read_reply(&mut from, &mut Vec::new()).expect("the end"));

        let mut from = &b"*2\r\n$4\r\nLLEN\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n"[..];
        let words = |from: &mut &[u8]| read_command(from).expect("a command").map(|c| c.words);
        assert_eq!(words(&mut from), Some(vec![b"LLEN".to_vec(), b"k".to_vec()]));
        assert_eq!(words(&mut from), Some(vec![b"PING".to_vec()]));
        assert_eq!(words(&mut from), None);
    }
}
