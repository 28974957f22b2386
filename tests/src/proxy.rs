//! A proxy before the server of a test, that loses what the test wants lost.
//!
//! TCP loses no single message: what is lost is the rest of a connection. So a lost request is one before which the
//! connection ends, and a lost reply is one after whose request it ends; where it "hangs" it does not end, but nothing
//! comes through any more, and the client has to find out.

use std::collections::{HashMap, VecDeque};
use std::io::{BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::relay::by_tcp;
use crate::resp::{Command, read_command, read_reply};
use crate::server::TestServer;

/// The script that is two in one.
const SETTLE_AND_RESERVE: &str = "settle_and_reserve";

#[path = "../../hworker/src/store/lua/mod.rs"]
#[allow(dead_code, reason = "the tests use the texts alone")]
mod lua;

/// The scripts of hworker: what each is called, and its text.
pub const SCRIPTS: &[(&str, &str)] = lua::SCRIPTS;

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It does not reach the server: the connection ends.
    LoseRequest,
    /// It reaches the server, and instead of the reply the connection ends.
    LoseReply,
    /// It does not reach the server, and nothing comes through the connection any more.
    HangRequest,
    /// It reaches the server, and nothing comes through the connection any more.
    HangReply,
    /// It waits in the network until [`Proxy::release`], even if the client has given up by then.
    HoldRequest,
    /// It reaches the server, and its reply waits in the network until [`Proxy::release`].
    HoldReply,
    /// The server refuses it, since it arrives without its arguments.
    Refuse,
    /// The server refuses it so, and the connection ends when the client knows that.
    RefuseAndEnd,
    /// Its reply comes later.
    Delay(Duration),
    /// Its reply comes in parts, the last of them after this time, as one that is large for the network.
    Trickle(Duration),
}

/// A proxy with a unix socket of its own.
pub struct Proxy {
    shared: Arc<Shared>,
    socket: PathBuf,
    url: String,
}

struct Shared {
    upstream: PathBuf,
    up: Pace,
    down: Pace,
    state: Mutex<State>,
    changed: Condvar,
}

#[allow(clippy::struct_excessive_bools)] // each is a fault of its own
#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    /// Both ends of each, by the number of the link.
    connections: HashMap<u64, [UnixStream; 2]>,
    links: u64,
    /// How many requests of each name came.
    seen: HashMap<String, usize>,
    /// How many waits passed, each with the reserve that is sent along.
    waits: usize,
    /// The bytes of the largest reply.
    largest: usize,
    unreachable: bool,
    /// What the server says unasked does not come through.
    swallows_pushes: bool,
    /// How many requests and replies were held.
    held: usize,
    released: bool,
    closed: bool,
}

struct Rule {
    request: String,
    /// Requests that pass before it.
    skip: u32,
    fault: Fault,
    done: bool,
}

/// One connection through the proxy; the two directions share it.
struct Link {
    shared: Arc<Shared>,
    number: u64,
    /// What becomes of the replies that are outstanding, the next first.
    replies: Mutex<VecDeque<Option<Fault>>>,
    hangs: Mutex<bool>,
    client: UnixStream,
    server: UnixStream,
}

/// Bytes pass a slow line so often, a few at once.
const PACKETS_A_SECOND: u32 = 50;

/// What a thread that was woken late has missed, it makes up for.
const LATE: Duration = Duration::from_millis(500);

/// How quickly bytes pass in one direction.
#[derive(Default)]
struct Pace {
    /// Bytes a second, and when the last of them will have passed.
    state: Mutex<(u32, Option<Instant>)>,
}

impl Pace {
    fn set(&self, rate: u32) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = (rate, None);
    }

    /// So many bytes pass at once.
    fn packet(&self) -> usize {
        let (rate, _) = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if rate == 0 { usize::MAX } else { rate.div_ceil(PACKETS_A_SECOND) as usize }
    }

    /// Returns when so many bytes have passed.
    fn pass(&self, bytes: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (rate, free) = *state;
        if rate == 0 {
            return;
        }
        let now = Instant::now();
        let free =
            free.map_or(now, |free| now.checked_sub(LATE).map_or(free, |late| free.max(late)));
        let passed = free + Duration::from_secs_f64(bytes as f64 / f64::from(rate));
        state.1 = Some(passed);
        drop(state);
        thread::sleep(passed.saturating_duration_since(now));
    }
}

/// What is read from the end of a line.
struct Slow<'a> {
    from: UnixStream,
    pace: &'a Pace,
}

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = buffer.len().min(self.pace.packet());
        let read = self.from.read(&mut buffer[..most])?;
        self.pace.pass(read);
        Ok(read)
    }
}

/// What a request is called: a command in capitals, `"LPUSH"`, or the call of one of hworker's scripts, `"reserve"`; one that settles
/// and reserves has both names.
fn names(words: &[Vec<u8>]) -> Vec<String> {
    static BY_HASH: OnceLock<HashMap<String, &str>> = OnceLock::new();
    let by_hash = BY_HASH.get_or_init(|| {
        let hash = |text| redis::Script::new(text).get_hash().to_owned();
        SCRIPTS.iter().map(|(name, text)| (hash(text), *name)).collect()
    });
    let word = |index: usize| {
        words.get(index).map_or_else(String::new, |word| String::from_utf8_lossy(word).into())
    };
    let command = word(0).to_ascii_uppercase();
    let script = match command.as_str() {
        "EVALSHA" => by_hash.get(&word(1)).copied(),
        "EVAL" => SCRIPTS.iter().find(|(_, text)| *text == word(1)).map(|(name, _)| *name),
        _ => None,
    };
    match script {
        Some(SETTLE_AND_RESERVE) => vec!["settle".into(), "reserve".into()],
        Some(script) => vec![script.into()],
        None => vec![command],
    }
}

/// A command of one word.
fn bare(word: &[u8]) -> Vec<u8> {
    [format!("*1\r\n${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat()
}

impl Proxy {
    /// A proxy before this server.
    pub fn before(server: &TestServer) -> Self {
        let mut proxy = Self::to(server.process().socket());
        proxy.url = server.url_through(&proxy.socket, |port| by_tcp(&proxy.socket, port));
        proxy
    }

    /// A proxy before the server that listens on this socket.
    pub fn to(server: &Path) -> Self {
        let upstream = server.to_owned();
        // Short: the path of a socket has little room.
        let socket = upstream.with_file_name(format!("proxy-{}", fresh_number()));
        let listener = UnixListener::bind(&socket).expect("a socket for the proxy");
        let shared = Arc::new(Shared {
            upstream,
            up: Pace::default(),
            down: Pace::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accepting.accept(&listener));
        let url = format!("redis+unix://{}", socket.display());
        Self { shared, socket, url }
    }

    /// Its URL, as hworker takes it.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// A client of hworker that goes through it.
    pub fn client(&self) -> hworker::Client {
        hworker::Client::new(self.url()).expect("the client of a proxy")
    }

    /// Lets a fault happen once, at the `nth` request of a name from now on, from 1. Commands are named in capitals,
    /// `"LPUSH"`, and hworker's scripts as they are, `"reserve"`.
    pub fn fault(&self, nth: u32, request: &str, fault: Fault) {
        let rule = Rule { request: request.to_owned(), skip: nth - 1, fault, done: false };
        let mut state = self.shared.state();
        state.rules.retain(|rule| !rule.done);
        state.rules.push(rule);
    }

    /// Whether every fault has happened.
    pub fn all_happened(&self) -> bool {
        self.shared.state().rules.iter().all(|rule| rule.done)
    }

    /// How many requests of a name reached the proxy so far.
    pub fn count(&self, request: &str) -> usize {
        self.shared.state().seen.get(request).copied().unwrap_or(0)
    }

    /// How many waits of workers are at the server or were, each with the reserve that is sent along: a fault that is set now is
    /// none of theirs.
    pub fn waits(&self) -> usize {
        self.shared.state().waits
    }

    /// How many requests reached the proxy so far; one that settles and reserves counts for two.
    pub fn requests(&self) -> usize {
        self.shared.state().seen.values().sum()
    }

    /// How many bytes the largest reply had since this was last asked.
    pub fn take_largest_reply(&self) -> usize {
        std::mem::take(&mut self.shared.state().largest)
    }

    /// Ends every connection.
    pub fn cut(&self) {
        for connection in self.shared.state().connections.drain().flat_map(|(_, both)| both) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// As a partition of the network: nothing comes through, no new connection is made, and none ends. With `false`
    /// it heals, and what was on its way arrives.
    pub fn unreachable(&self, yes: bool) {
        self.shared.state().unreachable = yes;
        self.shared.changed.notify_all();
    }

    /// From now on nothing comes through that the server says unasked, as with a proxy that knows of no such thing.
    pub fn swallow_pushes(&self) {
        self.shared.state().swallows_pushes = true;
    }

    /// From now on so many bytes a second pass to the server and so many to the clients, over all connections together: a slow
    /// line. Zero is no limit.
    pub fn limit_rates(&self, to_server: u32, to_clients: u32) {
        self.shared.up.set(to_server);
        self.shared.down.set(to_clients);
    }

    /// How many requests and replies were held so far: what came before them on their connections has passed.
    pub fn held(&self) -> usize {
        self.shared.state().held
    }

    /// Lets the requests and replies arrive that were held.
    pub fn release(&self) {
        self.shared.state().released = true;
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.changed.notify_all();
        self.cut();
        // Wakes the thread that accepts.
        let _ = UnixStream::connect(&self.socket);
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn fresh_number() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, condition: impl Fn(&State) -> bool) {
        let mut state = self.state();
        while condition(&state) && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn hold(&self) {
        self.state().held += 1;
        self.wait_while(|state| !state.released);
    }

    fn accept(self: Arc<Self>, listener: &UnixListener) {
        for client in listener.incoming() {
            self.wait_while(|state| state.unreachable);
            if self.state().closed {
                return;
            }
            let Ok(client) = client else { return };
            // A server that is down refuses: so does the proxy, by ending the connection.
            let Ok(server) = UnixStream::connect(&self.upstream) else { continue };
            let _ = self.link(client, server);
        }
    }

    fn link(self: &Arc<Self>, client: UnixStream, server: UnixStream) -> std::io::Result<()> {
        let both = [client.try_clone()?, server.try_clone()?];
        let mut state = self.state();
        state.links += 1;
        let number = state.links;
        state.connections.insert(number, both);
        drop(state);
        let link = Arc::new(Link {
            shared: Arc::clone(self),
            number,
            replies: Mutex::default(),
            hangs: Mutex::new(false),
            client,
            server,
        });
        let there = Arc::clone(&link);
        thread::spawn(move || there.requests());
        thread::spawn(move || {
            link.answers();
            link.shared.state().connections.remove(&link.number);
        });
        Ok(())
    }

    /// The fault that is to happen to this request.
    fn fault(&self, command: &Command) -> Option<Fault> {
        let names = names(&command.words);
        let mut state = self.state();
        let mut happens = None;
        let rules = state.rules.iter_mut();
        for rule in rules.filter(|rule| !rule.done && names.contains(&rule.request)) {
            if rule.skip > 0 {
                rule.skip -= 1;
            } else if happens.is_none() {
                rule.done = true;
                happens = Some(rule.fault);
            }
        }
        for name in names {
            *state.seen.entry(name).or_default() += 1;
        }
        happens
    }
}

impl Link {
    fn requests(&self) {
        let Ok(client) = self.client.try_clone() else { return };
        let mut client = BufReader::new(Slow { from: client, pace: &self.shared.up });
        // Whether the next one is not answered, and what is to happen to an answer that there is none of: it happens to
        // the next that there is.
        let (mut unanswered, mut owed) = (false, None);
        let mut waits = false;
        while let Ok(Some(command)) = read_command(&mut client) {
            self.shared.wait_while(|state| state.unreachable);
            if self.hanging() {
                continue;
            }
            let fault = self.shared.fault(&command);
            match fault {
                Some(Fault::LoseRequest) => return self.end(),
                Some(Fault::HangRequest) => {
                    self.hang();
                    continue;
                }
                Some(Fault::HoldRequest) => self.shared.hold(),
                _ => {}
            }
            if std::mem::take(&mut unanswered) {
                owed = fault;
            } else if command.words.iter().map(Vec::as_slice).eq([
                &b"CLIENT"[..],
                b"REPLY",
                b"SKIP",
            ]) {
                unanswered = true;
            } else {
                let fault = fault.or(owed.take());
                self.replies.lock().unwrap_or_else(PoisonError::into_inner).push_back(fault);
            }
            let is_wait = command.words[0] == b"BLMOVE";
            let bytes = match fault {
                Some(Fault::Refuse | Fault::RefuseAndEnd) => bare(&command.words[0]),
                _ => command.bytes,
            };
            if (&self.server).write_all(&bytes).is_err() {
                break;
            }
            let waited = std::mem::replace(&mut waits, is_wait);
            self.shared.state().waits += usize::from(waited);
        }
        // What was sent is answered, as far as it arrived.
        let _ = self.server.shutdown(Shutdown::Write);
    }

    fn answers(&self) {
        let Ok(server) = self.server.try_clone() else { return };
        let mut server = BufReader::new(server);
        loop {
            let mut reply = Vec::new();
            if !matches!(read_reply(&mut server, &mut reply), Ok(true)) {
                break;
            }
            self.shared.wait_while(|state| state.unreachable);
            let mut state = self.shared.state();
            state.largest = state.largest.max(reply.len());
            drop(state);
            let fault = match reply[0] {
                b'>' if self.shared.state().swallows_pushes => continue,
                // What the server says unasked.
                b'>' => None,
                _ => self
                    .replies
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .pop_front()
                    .flatten(),
            };
            match fault {
                Some(Fault::LoseReply) => return self.end(),
                Some(Fault::RefuseAndEnd) => {
                    let _ = self.reply(&reply);
                    // The client is to read the reply before the end; after a refusal it pauses for longer.
                    thread::sleep(Duration::from_millis(100));
                    return self.end();
                }
                Some(Fault::HangReply) => self.hang(),
                Some(Fault::Delay(delay)) => thread::sleep(delay),
                Some(Fault::HoldReply) => self.shared.hold(),
                Some(Fault::Trickle(time)) => match self.trickle(&reply, time) {
                    Ok(()) => continue,
                    Err(_) => break,
                },
                _ => {}
            }
            if !self.hanging() && self.reply(&reply).is_err() {
                break;
            }
        }
        if !self.hanging() {
            self.end();
        }
    }

    fn reply(&self, reply: &[u8]) -> std::io::Result<()> {
        for part in reply.chunks(self.shared.down.packet()) {
            self.shared.down.pass(part.len());
            (&self.client).write_all(part)?;
        }
        Ok(())
    }

    fn trickle(&self, mut reply: &[u8], time: Duration) -> std::io::Result<()> {
        const PARTS: u32 = 40;
        let part = reply.len().div_ceil(PARTS as usize);
        for left in (0..PARTS as usize).rev() {
            let (now, later) = reply.split_at(part.min(reply.len().saturating_sub(left)));
            (&self.client).write_all(now)?;
            reply = later;
            thread::sleep(time / PARTS);
        }
        Ok(())
    }

    fn hang(&self) {
        *self.hangs.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    fn hanging(&self) -> bool {
        *self.hangs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}
