//! The line to a server, over TCP, TLS or a unix socket, and how it is made.

use std::io;
use std::sync::Arc;

use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::SockRef;
use redis::{ConnectionAddr, ConnectionInfo};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;

use super::meter::{Meter, Metered, Stream};
use super::tls::Certificates;

/// So many bytes at most wait in the kernel until the network takes them: what waits there does not show whether it is under way.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNSENT_BYTES: u32 = 64 * 1024;

/// One server, and how it is spoken to.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) info: ConnectionInfo,
    pub(super) certificates: Option<Certificates>,
}

impl Endpoint {
    /// Another server, spoken to as this one.
    pub(super) fn at(&self, host: String, port: u16) -> Self {
        let address = match self.info.addr() {
            ConnectionAddr::TcpTls { .. } => encrypted(host, port),
            _ => ConnectionAddr::Tcp(host, port),
        };
        Self { info: self.info.clone().set_addr(address), ..self.clone() }
    }

    /// Makes a line, on which this meter counts.
    pub(super) async fn connect(&self, meter: &Arc<Meter>) -> io::Result<Box<dyn Stream>> {
        let settings = self.info.tcp_settings();
        Ok(match (self.info.addr(), &self.certificates) {
            (ConnectionAddr::Tcp(host, port), _) => {
                Box::new(Metered::new(tcp(host, *port, settings).await?, meter))
            }
            #[cfg(unix)]
            (ConnectionAddr::Unix(path), _) => {
                Box::new(Metered::new(tokio::net::UnixStream::connect(path).await?, meter))
            }
            (ConnectionAddr::TcpTls { host, port, .. }, Some(certificates)) => {
                // What passes shows before a whole record of TLS is there.
                let tcp = Metered::new(tcp(host, *port, settings).await?, meter);
                Box::new(super::tls::connect(certificates, host, tcp).await?)
            }
            _ => return Err(io::Error::other("this kind of address is not supported here")),
        })
    }
}

/// The address of an encrypted port.
pub(super) fn encrypted(host: String, port: u16) -> ConnectionAddr {
    ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
}

/// Connects to whichever address of a host answers first: one that is silent holds up no other.
async fn tcp(host: &str, port: u16, settings: &TcpSettings) -> io::Result<TcpStream> {
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
    // Where it cannot be set, a slow line may look silent for longer.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES);
    Ok(stream)
}
