//! Ways to reach the server: TLS, users with passwords and few rights, and what is said where that is wrong.

mod advice;
mod dropped;
mod names;
mod roles;
mod runtimes;
mod secrets;
mod settings;
mod tls;
mod unusable;

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(15);

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("its address").port()
}
