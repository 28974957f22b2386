//! Serves the page: alone, or from a worker on a thread of its own, so that bodies that block hold up no page.

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Access, Web};
use crate::client::Client;
use crate::error::Error;
use crate::log::say;

/// So long open requests have when a server stops.
const LAST_WITHIN: Duration = Duration::from_secs(1);

impl Web<Access> {
    /// Serves on this listener until `stop` is ready; then open requests have a second.
    ///
    /// ```no_run
    /// use hworker::web::{Access, Web};
    ///
    /// # async fn demo(client: hworker::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:7700").await?;
    /// Web::new(client).access(Access::local()).serve(listener, std::future::pending()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] for [`Access::local`] on an address that others can reach.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let address = listener.local_addr();
        self.check(
            address.map_err(|error| Error::config(format!("the page has no address: {error}")))?,
        )?;
        self.serve_on(listener, stop).await;
        Ok(())
    }

    fn check(&self, address: SocketAddr) -> Result<(), Error> {
        if self.access.is_local() && !address.ip().is_loopback() {
            return Err(Error::config(format!(
                "the page would be open to all who reach {address}: give it a token, or a loopback address as 127.0.0.1"
            )));
        }
        Ok(())
    }

    async fn serve_on(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let ended = CancellationToken::new();
        let streams = ended.clone();
        let app = self.stop_on(streams).router();
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        let serving =
            axum::serve(listener, app).with_graceful_shutdown(ended.clone().cancelled_owned());
        let stopped = async {
            stop.await;
            ended.cancel();
            tokio::time::sleep(LAST_WITHIN).await;
        };
        tokio::select! {
            // It accepts again after each fault, so it ends when it is told to.
            _ = serving.into_future() => {}
            () = stopped => {}
        }
    }
}

/// A page that is served until this is dropped; then the address is free again.
pub(crate) struct Served {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
        // The panic hook has reported a panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Serves the page of a worker: with a token, or at a loopback address.
pub(crate) fn of_worker(
    client: Client,
    address: SocketAddr,
    token: Option<&str>,
) -> Result<Served, Error> {
    let access = token.map_or_else(Access::local, Access::token);
    let web = Web::new(client).access(access);
    web.check(address)?;
    let cannot = |error: std::io::Error| {
        Error::config(format!("the page cannot be served at {address} (HWORKER_WEB): {error}"))
    };
    let listener = std::net::TcpListener::bind(address).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    // With port 0 the system chooses the port.
    let bound = listener.local_addr().map_err(cannot)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(cannot)?;
    let listener = {
        let _runtime = runtime.enter();
        TcpListener::from_std(listener).map_err(cannot)?
    };
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let thread = move || runtime.block_on(web.serve_on(listener, stopped.cancelled_owned()));
    let thread = std::thread::Builder::new().name("hworker-web".into()).spawn(thread);
    let thread = Some(thread.map_err(cannot)?);
    say!(INFO, address = %bound, "the page of the jobs is at http://{bound}/");
    Ok(Served { stop, thread })
}
