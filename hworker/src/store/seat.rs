//! A connection that is polled by the task which uses it, instead of by one of its own: the two wake each other so often that a
//! scheduler in between is what costs most.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2::SockRef;
use redis::{AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, RedisResult};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;

/// The part of a connection that reads and writes.
type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a connection is put by whoever makes it, to be polled by the task that uses it. It has room for one: the next takes its
/// place, and ends it.
#[derive(Clone, Default)]
pub(crate) struct Seat(Arc<Mutex<Seated>>);

#[derive(Default)]
struct Seated {
    driver: Option<Driver>,
    /// Who polls here, and found nobody.
    vacant: Option<Waker>,
}

impl Seat {
    fn seated(&self) -> MutexGuard<'_, Seated> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, driver: Driver) {
        let mut seated = self.seated();
        let before = seated.driver.replace(driver);
        let vacant = seated.vacant.take();
        drop(seated);
        drop(before);
        if let Some(waker) = vacant {
            waker.wake();
        }
    }

    /// Drives the connection that is here; whoever polls is woken when there is more to do.
    pub(crate) fn poll(&self, context: &mut Context<'_>) {
        let mut seated = self.seated();
        if let Some(driver) = &mut seated.driver {
            match driver.as_mut().poll(context) {
                Poll::Pending => return,
                Poll::Ready(()) => seated.driver = None,
            }
        }
        seated.vacant = Some(context.waker().clone());
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
        let made = MultiplexedConnection::new_with_config(
            server.redis_settings(),
            socket?,
            config.clone(),
        );
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

/// Connects to whichever address of a host answers first: one that is silent holds up no other.
async fn tcp(host: &str, port: u16, server: &ConnectionInfo) -> io::Result<TcpStream> {
    let mut tries: JoinSet<_> = lookup_host((host, port)).await?.map(TcpStream::connect).collect();
    let mut failed = None;
    while let Some(tried) = tries.join_next().await {
        match tried {
            Ok(Ok(stream)) => {
                let settings = server.tcp_settings();
                stream.set_nodelay(settings.nodelay())?;
                if let Some(keepalive) = settings.keepalive() {
                    SockRef::from(&stream).set_tcp_keepalive(keepalive)?;
                }
                return Ok(stream);
            }
            Ok(Err(error)) => failed = Some(error),
            Err(panic) => failed = Some(panic.into()),
        }
    }
    Err(failed.unwrap_or_else(|| io::Error::other("the host has no address")))
}
