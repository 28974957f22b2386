//! Makes a connection, driven by the runtime that this is called in.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, PushKind};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::fault::Fault;
use super::line::Endpoint;
use super::meter::Meter;
use super::name;
use super::probe::refusal;
use super::tracking::Tracking;
use crate::store::bounds::CALLS_IN_FLIGHT;
use crate::time::within;

/// How long making a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// Makes a connection, driven by the current runtime; the meter counts its bytes.
pub(super) async fn open(
    server: Endpoint,
    meter: Option<&Arc<Meter>>,
) -> Result<Connection, Fault> {
    open_with(server, CancellationToken::new(), None, meter).await
}

/// As [`open`], with a token that ends it; `told` is notified of every message of a channel.
pub(super) async fn open_with(
    server: Endpoint,
    ended: CancellationToken,
    told: Option<Arc<Notify>>,
    meter: Option<&Arc<Meter>>,
) -> Result<Connection, Fault> {
    let notice = ended.clone();
    let tracking = Arc::<Tracking>::default();
    let tracked = Arc::clone(&tracking);
    let config = AsyncConnectionConfig::new()
        // The crate's own limit would also end blocking commands; every call here has its own.
        .set_response_timeout(None)
        .set_pipeline_buffer_size(CALLS_IN_FLIGHT)
        .set_push_sender(move |push: redis::PushInfo| {
            match (&push.kind, &told) {
                (PushKind::Disconnection, _) => notice.cancel(),
                (PushKind::Message, Some(told)) => told.notify_one(),
                (PushKind::Invalidate, _) => tracked.told(&push.data),
                _ => {}
            }
            Ok::<(), redis::aio::SendError>(())
        });
    let meter = meter.cloned().unwrap_or_default();
    let connecting = async {
        meter.set_reads_first(false);
        let line = server.connect(&meter).await?;
        MultiplexedConnection::new_with_config(server.info.redis_settings(), line, config).await
    };
    // Of the greeting too, which a server that stalls does not give.
    let (mut inner, driver) = match within(CONNECT_WITHIN, pin!(connecting)).await {
        Some(Ok(made)) => made,
        failed => {
            let error = failed.and_then(Result::err);
            return Err(refusal(server.info.addr(), error, CONNECT_WITHIN).await);
        }
    };
    meter.set_reads_first(true);
    let driver = tokio::spawn(driver).abort_handle();
    if within(CONNECT_WITHIN, pin!(name::tell(&mut inner))).await.is_none() {
        driver.abort();
        return Err(refusal(server.info.addr(), None, CONNECT_WITHIN).await);
    }
    let connection = Connection::new(inner, driver, ended, meter, server.info.addr().clone());
    Ok(connection.tracked(tracking))
}
