//! A port before the socket of a proxy: sentinels and clusters know servers by their ports.

use std::io::{BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use crate::resp::read_reply;

/// Leads to the socket of a proxy from a port, and gives that. Whoever asks there for the servers of a cluster hears of it
/// in the place of the one on the port `named`, before which the proxy is.
pub(crate) fn by_tcp(socket: &Path, named: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port for the proxy");
    let port = listener.local_addr().expect("its number").port();
    let socket = socket.to_owned();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            // The proxy is gone, and with it the test.
            let Ok(proxy) = UnixStream::connect(&socket) else { return };
            let _ = pass_on(client, proxy, named, port);
        }
    });
    port
}

fn pass_on(client: TcpStream, proxy: UnixStream, named: u16, port: u16) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let (mut from_client, mut to_proxy) = (client.try_clone()?, proxy.try_clone()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_proxy);
        let _ = to_proxy.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let (named, port) = (format!(":{named}\r\n"), format!(":{port}\r\n"));
        let (mut proxy, mut reply) = (BufReader::new(proxy), Vec::new());
        while read_reply(&mut proxy, &mut reply).unwrap_or(false) {
            if reply[0] == b'*' {
                reply = replaced(&reply, named.as_bytes(), port.as_bytes());
            }
            if (&client).write_all(&reply).is_err() {
                break;
            }
            reply.clear();
        }
        let _ = client.shutdown(Shutdown::Both);
    });
    Ok(())
}

fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut result = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(old) {
            result.extend(new);
            rest = after;
        } else {
            result.push(rest[0]);
            rest = &rest[1..];
        }
    }
    result
}
