//! The page for operators and the REST API, for the program's own web server, a worker, or alone: `docs/web.md` and `docs/rest.md`.

mod access;
mod act;
mod api;
mod asset;
mod each;
mod guard;
#[cfg(feature = "metrics")]
mod metrics;
mod names;
mod page;
mod problem;
mod schema;
mod serve;
mod shown;
mod site;

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::response::Redirect;
use axum::routing::get;
use tokio_util::sync::CancellationToken;

use crate::client::Client;

pub use access::{Access, Operator, Role};

pub use api::openapi;
pub(crate) use serve::of_worker;

use self::guard::{Asked, Gate, guard};
use self::site::Site;

/// A body may have so many bytes; that of an enqueue as many as a payload.
const BODY: usize = 1 << 20;

/// The page for operators and the REST API below `/api/v1`, as a router for an axum app.
///
/// Nothing is served before a rule of access is chosen: without one there is no `router`.
///
/// ```no_run
/// use hworker::web::{Access, Web};
///
/// # async fn demo(client: hworker::Client, token: String) -> std::io::Result<()> {
/// let jobs = Web::new(client).access(Access::token(token)).router();
/// let app = axum::Router::new().nest("/admin/jobs", jobs);
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
/// axum::serve(listener, app).await
/// # }
/// ```
#[derive(Clone)]
pub struct Web<A = ()> {
    servers: Vec<(String, Client)>,
    access: A,
    mount: Option<String>,
    read_only: bool,
    stop: CancellationToken,
}

impl<A: fmt::Debug> fmt::Debug for Web<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Web").field("access", &self.access).finish_non_exhaustive()
    }
}

impl Web {
    /// The page of the jobs of this client's server.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let servers = vec![(String::new(), client)];
        let stop = CancellationToken::new();
        Self { servers, access: (), mount: None, read_only: false, stop }
    }

    /// The pages of several servers, by short names: each is at `/i/<name>/`, and the first one's where none is named.
    #[must_use]
    pub fn of_servers<N: Into<String>>(servers: impl IntoIterator<Item = (N, Client)>) -> Self {
        let servers = servers.into_iter().map(|(name, client)| (name.into(), client)).collect();
        let stop = CancellationToken::new();
        Self { servers, access: (), mount: None, read_only: false, stop }
    }

    /// Lets in whom this rule lets in, and nobody else: to pages, files, the REST API and paths that are none.
    #[must_use]
    pub fn access(self, access: Access) -> Web<Access> {
        let Self { servers, access: (), mount, read_only, stop } = self;
        Web { servers, access, mount, read_only, stop }
    }
}

impl<A> Web<A> {
    /// The path under which browsers see it, where a proxy in front takes that off: `"/jobs"`. A path at which an axum app nests the router is
    /// found without.
    #[must_use]
    pub fn mount(mut self, path: &str) -> Self {
        self.mount = Some(path.trim_end_matches('/').to_owned());
        self
    }

    /// Shows, and changes nothing, whoever asks.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Ends the streams of open pages when this is cancelled, so that a server that shuts down need not wait for them.
    #[must_use]
    pub fn stop_on(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }
}

impl Web<Access> {
    /// The router. It may be nested under any path. Give it the addresses of clients (`into_make_service_with_connect_info::<SocketAddr>()`), so
    /// that five wrong logins in a minute shut out the address that they came from.
    pub fn router(self) -> Router {
        let names: Vec<String> = self.servers.iter().map(|(name, _)| name.clone()).collect();
        let several = names.len() > 1;
        let mut router = Router::new();
        for (at, (name, client)) in self.servers.into_iter().enumerate() {
            let prefix = if several { format!("/i/{name}") } else { String::new() };
            let site = Site::new(client, name, prefix.clone(), &names, self.read_only, &self.stop);
            let pages = page::router().merge(api::router(&site));
            #[cfg(feature = "metrics")]
            let pages = pages.merge(metrics::router());
            let pages = pages.with_state(Arc::new(site));
            router = if several { router.nest(&prefix, pages) } else { router.merge(pages) };
            if several && at == 0 {
                // A path of its own: what is relative leads elsewhere where an app nests the router.
                let first = format!("/i/{}", names[0]);
                let to_first = move |asked: Asked| async move {
                    Redirect::temporary(&format!("{}{first}", asked.mount))
                };
                router = router.route("/", get(to_first));
            }
        }
        let gate = Arc::new(Gate::new(self.access, self.mount, self.read_only));
        router
            .merge(asset::router())
            .fallback(api::no_such_path)
            .method_not_allowed_fallback(api::no_such_method)
            .layer(DefaultBodyLimit::max(BODY))
            .layer(from_fn_with_state(gate, guard))
    }
}
