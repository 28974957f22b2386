//! The connections of a client: one for each runtime, server and purpose, made when it is first needed and again when it has ended.
//!
//! A task makes each connection, not the first caller: a caller that stops polling its future, as in a `select!` that takes another
//! branch, would hold up all later callers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, Id};
use tokio::sync::watch;

use crate::durability::Durability;
use crate::store::{Address, Connection, Fault, Home};

/// The connections of a client.
#[derive(Default)]
pub(super) struct Connections(Mutex<HashMap<Whose, Arc<Shared>>>);

/// The runtime and the server of a connection, and what it is for.
type Whose = (Id, Home, Purpose);

/// What a connection is for. Calls that wait for replicas or read much have connections of their own and hold up no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// To write, so that it is so safe.
    Write(Option<Durability>),
    /// To look into queues.
    Inspect,
    /// To wait for keys.
    Await,
}

/// The connection of one runtime to one server.
#[derive(Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    /// While a task makes one.
    making: Option<Making>,
}

/// The result of the task that makes a connection.
type Making = watch::Receiver<Option<Result<Connection, Fault>>>;

impl Connections {
    /// The connection to this server, driven by this runtime.
    ///
    /// # Cancel safety
    /// Cancel safe: a connection that is being made serves the next callers.
    pub(super) async fn get(
        &self,
        runtime: &Handle,
        address: &Address,
        home: Home,
        purpose: Purpose,
    ) -> Result<Connection, Fault> {
        let shared = self.of((runtime.id(), home.clone(), purpose));
        let mut making = {
            let mut state = shared.state();
            if let Some(connection) = state.alive() {
                return Ok(connection.clone());
            }
            if let Some(making) = state.under_way() {
                making.clone()
            } else {
                let making = make(runtime, Arc::clone(&shared), address.clone(), home, purpose);
                state.making.insert(making).clone()
            }
        };
        let made = making.wait_for(Option::is_some).await.ok().and_then(|made| made.clone());
        made.unwrap_or_else(|| Err(Fault::not_sent("the runtime of the connection has ended")))
    }

    fn of(&self, whose: Whose) -> Arc<Shared> {
        let mut connections = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !connections.contains_key(&whose) {
            // Runtimes come and go, with each test for instance; those that went took their connection along.
            connections.retain(|_, shared| shared.state().is_of_use());
        }
        Arc::clone(connections.entry(whose).or_default())
    }
}

/// Starts the task that makes a connection.
fn make(
    runtime: &Handle,
    shared: Arc<Shared>,
    address: Address,
    home: Home,
    purpose: Purpose,
) -> Making {
    let (tell, making) = watch::channel(None);
    runtime.spawn(async move {
        let made = connect(&address, &home, purpose).await;
        let mut state = shared.state();
        state.connection = made.as_ref().ok().cloned();
        state.making = None;
        drop(state);
        tell.send_replace(Some(made));
    });
    making
}

async fn connect(address: &Address, home: &Home, purpose: Purpose) -> Result<Connection, Fault> {
    let connection = address.connect_to(home, None).await?;
    let Purpose::Write(Some(asked)) = purpose else { return Ok(connection) };
    let connection = connection.confirming(asked);
    connection.can_confirm().await.inspect_err(|_| connection.end())?;
    Ok(connection)
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn alive(&self) -> Option<&Connection> {
        self.connection.as_ref().filter(|connection| connection.is_alive())
    }

    /// The connection that is being made, unless its task has ended without a result.
    fn under_way(&self) -> Option<&Making> {
        self.making.as_ref().filter(|making| making.has_changed().is_ok())
    }

    /// Whether it is there, or under way.
    fn is_of_use(&self) -> bool {
        self.alive().is_some() || self.under_way().is_some()
    }
}
