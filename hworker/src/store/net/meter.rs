//! What passes over a line to a server.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use redis::io::tcp::socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// After so long without a byte a line is looked at before it is written to: the server may have ended it, which tokio hears only when
/// its runtime goes round.
const QUIET: Duration = Duration::from_micros(200);

/// What is read from and written to.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// What a line consists of.
pub(super) trait Socket: Stream {
    /// Whether there is something to read, if only that the line has ended, which a write would not tell.
    fn has_unread(&self) -> bool {
        false
    }
}

impl Socket for TcpStream {
    fn has_unread(&self) -> bool {
        let peeked = SockRef::from(self).peek(&mut [MaybeUninit::uninit()]);
        peeked.map_or_else(|error| error.kind() != io::ErrorKind::WouldBlock, |_| true)
    }
}

// A write to one that the other side has closed fails.
#[cfg(unix)]
impl Socket for tokio::net::UnixStream {}

/// What passes over a line, or over those of one loop one after the other.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Counts bytes that arrived, and those that left although the line had been full before: signs of life, whatever they are. What a
    /// line takes that is not full it may only store.
    passed: AtomicU64,
    /// Counts bytes that the kernel has taken.
    written: AtomicU64,
    /// Whoever writes reads first each time, as while a connection is made nobody does.
    reads_first: AtomicBool,
}

impl Meter {
    pub(super) fn set_reads_first(&self, reads_first: bool) {
        self.reads_first.store(reads_first, Ordering::Release);
    }

    /// Grows as long as the line is not silent.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// How many bytes may have left. What was to be sent since has certainly not left where there are no more than before.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    fn count(&self, bytes: usize) {
        self.passed.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// A socket whose bytes are counted.
pub(crate) struct Metered<S> {
    socket: S,
    meter: Arc<Meter>,
    /// It took no more when it was last written to.
    full: bool,
    /// When bytes last passed.
    passed_at: Instant,
    /// There was something to read when it was last looked at: behind an answer the line may have ended.
    had_unread: bool,
}

impl<S: Socket> Metered<S> {
    pub(super) fn new(socket: S, meter: &Arc<Meter>) -> Self {
        let (meter, passed_at) = (Arc::clone(meter), Instant::now());
        Self { socket, meter, full: false, passed_at, had_unread: false }
    }

    fn write(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let now = Instant::now();
        let looks = !self.full && (self.had_unread || now - self.passed_at >= QUIET);
        self.had_unread =
            looks && self.meter.reads_first.load(Ordering::Acquire) && self.socket.has_unread();
        if self.had_unread {
            // It can be read when the runtime has gone round.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let written = write(Pin::new(&mut self.socket), context);
        if let Poll::Ready(Ok(bytes)) = &written {
            self.passed_at = now;
            self.meter.written.fetch_add(*bytes as u64, Ordering::AcqRel);
            if self.full {
                self.meter.count(*bytes);
            }
        }
        self.full = written.is_pending();
        written
    }
}

impl<S: Socket> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, buffer))?;
        let read = buffer.filled().len() - before;
        self.passed_at = Instant::now();
        self.meter.count(read);
        Poll::Ready(Ok(()))
    }
}

impl<S: Socket> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |socket, context| socket.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |socket, context| socket.poll_write_vectored(context, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A socket that brings so many bytes with each read, and takes so many with each write.
    #[derive(Default)]
    struct Scripted {
        brings: Vec<usize>,
        takes: VecDeque<usize>,
    }

    impl AsyncRead for Scripted {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let bytes = vec![0; self.brings.pop().unwrap_or(0)];
            buffer.put_slice(&bytes);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Scripted {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.takes.pop_front().map_or(Poll::Pending, |bytes| Poll::Ready(Ok(bytes)))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl Socket for Scripted {}

    fn metered(meter: &Arc<Meter>) -> Metered<Scripted> {
        Metered::new(Scripted::default(), meter)
    }

    #[test]
    fn what_leaves_is_a_sign_of_life_only_where_the_line_was_full() {
        let meter = Arc::new(Meter::default());
        let mut line = metered(&meter);
        let mut writes = |takes: &[usize]| {
            line.socket.takes.extend(takes);
            let mut context = Context::from_waker(std::task::Waker::noop());
            while Pin::new(&mut line).poll_write(&mut context, &[0; 100]).is_ready() {}
            meter.passed()
        };
        assert_eq!(writes(&[100, 100]), 0, "it may have stored them");
        assert_eq!(writes(&[]), 0);
        assert_eq!(writes(&[30, 100]), 30, "there is room for 30 since others have left");
    }
}
