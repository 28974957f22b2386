//! A connection that blocks, and of the protocol what the calls of a worker need: no more than `redis-benchmark` does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

pub(crate) struct Wire {
    replies: BufReader<Box<dyn Read + Send>>,
    calls: Box<dyn Write + Send>,
    line: String,
    bulk: Vec<u8>,
}

impl Wire {
    /// To `redis://HOST:PORT/` or `redis+unix:///PATH`.
    pub(crate) fn connect(url: &str) -> Self {
        const TO_SERVER: &str = "a connection to the server";
        let (replies, calls): (Box<dyn Read + Send>, Box<dyn Write + Send>) =
            if let Some(path) = url.strip_prefix("redis+unix://") {
                let stream = UnixStream::connect(path).expect(TO_SERVER);
                (Box::new(stream.try_clone().expect(TO_SERVER)), Box::new(stream))
            } else {
                let place = url.trim_start_matches("redis://").trim_end_matches('/');
                let stream = TcpStream::connect(place).expect(TO_SERVER);
                stream.set_nodelay(true).expect(TO_SERVER);
                (Box::new(stream.try_clone().expect(TO_SERVER)), Box::new(stream))
            };
        let replies = BufReader::with_capacity(1 << 16, replies);
        Self { replies, calls, line: String::new(), bulk: Vec::new() }
    }

    /// Sends a call whose answer is one string.
    pub(crate) fn text(&mut self, call: &[u8]) -> String {
        self.send(call);
        self.bulk(|text| String::from_utf8_lossy(text).into_owned())
    }

    /// Sends a call, and says how many strings answer it.
    pub(crate) fn array(&mut self, call: &[u8]) -> usize {
        self.send(call);
        self.length('*')
    }

    /// Reads the next string.
    pub(crate) fn bulk<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> T {
        let length = self.length('$');
        self.bulk.resize(length + 2, 0);
        self.replies.read_exact(&mut self.bulk).expect("the server answers");
        read(&self.bulk[..length])
    }

    fn send(&mut self, call: &[u8]) {
        self.calls.write_all(call).expect("the server reads");
    }

    fn length(&mut self, kind: char) -> usize {
        self.line.clear();
        self.replies.read_line(&mut self.line).expect("the server answers");
        let length = self.line.strip_prefix(kind).and_then(|length| length.trim_end().parse().ok());
        length.unwrap_or_else(|| panic!("the server answers {:?}", self.line))
    }
}
