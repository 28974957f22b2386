//! A connection that is polled by the task which uses it, instead of by one of its own: the two wake each other so often that a
//! scheduler in between is what costs most.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::SockRef;
use redis::{AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, RedisResult};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;

/// The part of a connection that reads and writes.
type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a connection is put by whoever makes it, to be polled by the task that uses it. It has room for one: the next takes its
/// place, and ends it.
#[derive(Clone, Default)]
pub(crate) struct Seat {
    seated: Arc<Mutex<Seated>>,
    /// How many bytes its connections have brought.
    arrived: Arc<AtomicU64>,
    /// How many bytes the connection may bring; where there is none, as many as come.
    left: Option<Arc<AtomicUsize>>,
}

/// What a connection may bring while it is made.
const GREETING_BYTES: usize = 64 * 1024;

#[derive(Default)]
struct Seated {
    driver: Option<Driver>,
    /// Who polls here.
    waker: Option<Waker>,
}

impl Seat {
    fn seated(&self) -> MutexGuard<'_, Seated> {
        self.seated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat whose connection ends once it brings more than it is allowed to.
    pub(crate) fn bounded() -> Self {
        Self { left: Some(Arc::new(AtomicUsize::new(GREETING_BYTES))), ..Self::default() }
    }

    /// From now on the connection may bring so many bytes, where it is bounded.
    pub(crate) fn allow(&self, bytes: usize) {
        if let Some(left) = &self.left {
            left.store(bytes, Ordering::Release);
        }
    }

    /// Whether there is a connection here; one that the crate alone can make is driven elsewhere.
    pub(crate) fn is_taken(&self) -> bool {
        self.seated().driver.is_some()
    }

    /// How many bytes have arrived here so far; `None` where that is not known, since connections are driven elsewhere.
    pub(crate) fn arrived(&self) -> Option<u64> {
        let arrived = self.arrived.load(Ordering::Relaxed);
        (arrived > 0).then_some(arrived)
    }

    fn take(&self, driver: Driver) {
        let mut seated = self.seated();
        let before = seated.driver.replace(driver);
        let waker = seated.waker.take();
        drop(seated);
        drop(before);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ends the connection that is here, whatever it has not sent yet.
    pub(crate) fn clear(&self) {
        let driver = self.seated().driver.take();
        drop(driver);
    }

    /// Drives the connection that is here; whoever polls is woken when there is more to do.
    pub(crate) fn poll(&self, context: &mut Context<'_>) {
        let mut seated = self.seated();
        // For a connection that takes the place of this one too.
        if !seated.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            seated.waker = Some(context.waker().clone());
        }
        if let Some(driver) = &mut seated.driver
            && driver.as_mut().poll(context).is_ready()
        {
            seated.driver = None;
        }
    }

    /// Makes a connection that is driven here; `None` where the crate alone can make it, which is over TLS.
    pub(super) async fn connect(
        &self,
        server: &ConnectionInfo,
        config: &AsyncConnectionConfig,
    ) -> Option<RedisResult<MultiplexedConnection>> {
        match server.addr() {
            ConnectionAddr::Tcp(host, port) => {
                Some(self.greet(tcp(host, *port, server).await, server, config).await)
            }
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                let socket = tokio::net::UnixStream::connect(path).await;
                Some(self.greet(socket, server, config).await)
            }
            _ => None,
        }
    }

    async fn greet<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        &self,
        socket: io::Result<S>,
        server: &ConnectionInfo,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let (settings, config) = (server.redis_settings(), config.clone());
        self.allow(GREETING_BYTES);
        let (arrived, left) = (Arc::clone(&self.arrived), self.left.clone());
        let socket = Metered { socket: socket?, arrived, left };
        let made = MultiplexedConnection::new_with_config(settings, socket, config);
        let (connection, driver) = made.await?;
        self.take(Box::pin(driver));
        Ok(connection)
    }
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seat").finish_non_exhaustive()
    }
}

/// A socket that counts what it brings, and fails once that is more than it may.
struct Metered<S> {
    socket: S,
    arrived: Arc<AtomicU64>,
    left: Option<Arc<AtomicUsize>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, buffer))?;
        let read = buffer.filled().len() - before;
        self.arrived.fetch_add(read as u64, Ordering::Relaxed);
        let Some(left) = &self.left else { return Poll::Ready(Ok(())) };
        let take = |left: usize| left.checked_sub(read);
        let taken = left.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        Poll::Ready(
            taken
                .map(drop)
                .map_err(|_| io::Error::other("the server sends more than a job may have")),
        )
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, bytes)
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

/// Connects to whichever address of a host answers first: one that is silent holds up no other.
async fn tcp(host: &str, port: u16, server: &ConnectionInfo) -> io::Result<TcpStream> {
    let settings = server.tcp_settings();
    let mut tries: JoinSet<_> = lookup_host((host, port)).await?.map(TcpStream::connect).collect();
    let mut failed = None;
    while let Some(tried) = tries.join_next().await {
        match tried.map_err(io::Error::from).flatten().and_then(|tcp| set(tcp, settings)) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| io::Error::other("the host has no address")))
}

fn set(stream: TcpStream, settings: &TcpSettings) -> io::Result<TcpStream> {
    stream.set_nodelay(settings.nodelay())?;
    if let Some(keepalive) = settings.keepalive() {
        SockRef::from(&stream).set_tcp_keepalive(keepalive)?;
    }
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Poll, Wake};

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn whoever_polls_is_woken_for_the_next_even_if_the_one_before_never_ends() {
        let (seat, counted) = (Seat::default(), Arc::new(Wakes::default()));
        let waker = Waker::from(Arc::clone(&counted));
        let mut context = Context::from_waker(&waker);
        seat.poll(&mut context);
        // One that cannot write what it has, say.
        seat.take(Box::pin(pending()));
        assert_eq!(counted.0.load(Ordering::SeqCst), 1);
        seat.poll(&mut context);
        let polled = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&polled);
        seat.take(Box::pin(poll_fn(move |_| {
            counts.fetch_add(1, Ordering::SeqCst);
            Poll::Pending
        })));
        assert_eq!(counted.0.load(Ordering::SeqCst), 2);
        seat.poll(&mut context);
        assert_eq!(polled.load(Ordering::SeqCst), 1);
        seat.clear();
        assert_eq!(Arc::strong_count(&polled), 1, "what is cleared is dropped");
    }

    /// A socket that brings so many bytes with each read.
    struct Brings(Vec<usize>);

    impl AsyncRead for Brings {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let bytes = vec![0; self.0.pop().unwrap_or(0)];
            buffer.put_slice(&bytes);
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn a_bounded_socket_brings_what_it_may_and_fails_then() {
        let left = Arc::new(AtomicUsize::new(10));
        let arrived = Arc::default();
        let bound = Some(Arc::clone(&left));
        let socket = Brings(vec![5, 5, 6]);
        let mut socket = Metered { socket, arrived: Arc::clone(&arrived), left: bound };
        let mut reads = || {
            let mut bytes = [0; 100];
            let mut buffer = ReadBuf::new(&mut bytes);
            let mut context = Context::from_waker(Waker::noop());
            match Pin::new(&mut socket).poll_read(&mut context, &mut buffer) {
                Poll::Ready(read) => read.map(|()| buffer.filled().len()),
                Poll::Pending => panic!("it is ready"),
            }
        };
        assert_eq!(reads().expect("it may"), 6);
        assert!(reads().is_err(), "eleven are one too many");
        left.store(5, Ordering::Release);
        assert_eq!(reads().expect("it may again"), 5);
        assert_eq!(arrived.load(Ordering::Relaxed), 16);
    }
}
