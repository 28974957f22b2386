//! The names of connections, as `CLIENT LIST` shows them: the worker's id, `hworker-cli` for the command line, else `hworker-` and the
//! program.

use std::cell::RefCell;
use std::env::args_os;
use std::path::Path;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;

/// A longer name is cut.
const BYTES: usize = 200;

thread_local! {
    static WORKER: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// Names the connections that this thread makes from now on after its worker.
pub(crate) fn name_connections(worker: &Arc<str>) {
    WORKER.set(Some(Arc::clone(worker)));
}

/// Tells the server the name of a connection. A server that refuses the name serves all the same. Every user may call `HELLO`, and few
/// `CLIENT SETNAME`.
///
/// Its answer is awaited: one that came beside the first call's would be taken for a sign that the server is about to answer that.
pub(super) async fn tell(connection: &mut MultiplexedConnection) {
    let name =
        WORKER.with_borrow(|worker| worker.as_deref().map_or_else(of_program, ToOwned::to_owned));
    let mut hello = redis::cmd("HELLO");
    hello.arg(3).arg("SETNAME").arg(accepted(&name));
    let _ = connection.send_packed_command(&hello).await;
}

fn of_program() -> String {
    let path = args_os().next().unwrap_or_default();
    match Path::new(&path).file_stem().map(|stem| stem.to_string_lossy()) {
        // The command line of this package.
        Some(stem) if stem == "hworker" => "hworker-cli".to_owned(),
        Some(stem) => format!("hworker-{stem}"),
        None => "hworker".to_owned(),
    }
}

/// A name that the server takes: without blanks, line ends and what is not ASCII.
fn accepted(name: &str) -> String {
    name.chars().take(BYTES).map(|c| if c.is_ascii_graphic() { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_is_what_the_server_takes() {
        assert_eq!(super::accepted("my größe\n1.x_y"), "my-gr--e-1.x_y");
        assert_eq!(super::accepted(&"x".repeat(1000)).len(), super::BYTES);
        assert!(super::of_program().starts_with("hworker-hworker-"));
    }
}
