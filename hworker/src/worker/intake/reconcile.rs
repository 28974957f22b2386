//! How a session begins and ends at the server, in one queue.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::timeout;

use crate::log::say;
use crate::reconnect::Reconnect;
use crate::store::{Connection, End, Fault, MetaKey, Reconciled, Settlement};
use crate::worker::intake::accept::report_lost;
use crate::worker::report::charts;
use crate::worker::report::log_outage;
use crate::worker::state::{Consumer, Session, Side};

/// Why the fetch loop left its connection.
pub(crate) enum Left {
    Reconnect(String),
    /// Its requests may be lost, because another connection of this worker was cut off.
    CutOff,
    Void,
    Retired,
}

/// How often the loop checks whether a wait has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Makes a connection and reconciles; `None` if the worker is void.
///
/// `first`: the server may not know this worker yet.
pub(crate) async fn connect(
    session: &Session,
    consumer: &Consumer,
    first: bool,
) -> Result<Option<(Connection, u64)>, Fault> {
    let address = session.core.client.address();
    let connection = address.connect(&consumer.queue, Some(&consumer.line)).await?;
    let connection = connection.confirming(session.core.config.settles());
    let record = record(session);
    if first {
        // Before it asks for orders: who gives one later finds the worker by its queue. A refusal only keeps the queue out of the list.
        let _ = session.core.client.register_queues(&[&consumer.queue.name], None).await;
        pause_with_all(session, consumer, &connection).await?;
        // Before the first of its jobs is taken.
        let table = &session.core.table;
        // One that declares nothing has something to say only where an older release did: the heartbeat knows.
        if !table.hash(&consumer.queue).is_empty() {
            table.declare(&consumer.queue, &connection, Duration::ZERO).await?;
        }
    }
    let believed = consumer.leases.believed();
    let reconciled = consumer
        .queue
        .reconcile(&connection, &consumer.keys, &consumer.worker, first, &record)
        .await?;
    log_outage::back(session, consumer, Side::Fetch);
    let Reconciled::Session { session: session_number, now, leases } = reconciled else {
        return Ok(None);
    };
    session.core.clock.heard(now);
    if first {
        // Who gives an order from now on finds this worker. The first heartbeat brings it back, before a job may start.
        for (field, value) in orders_of_label(session).await {
            consumer.queue.order(&connection, &consumer.worker, field, &value).await?;
        }
    }

    let comparison = consumer.leases.begin(session_number, &believed, leases);
    // After the comparison: only calls that are sent from now on bring new jobs.
    consumer.session_number.store(session_number, Ordering::Release);
    consumer.parked.look_anew();
    for settlement in comparison.revived {
        consumer.settle(Some(settlement));
    }
    if !comparison.unseen.is_empty() {
        say!(INFO, { queue = consumer.queue.name.clone(), jobs = comparison.unseen.len() },
            job.queue = %queue, jobs, "giving back jobs whose hand-over was lost");
    }
    for lease in comparison.unseen {
        consumer.leases.never_start(&lease);
        let end = End::Released { delay_ms: 0, envelope: None };
        consumer.settle(Some(Settlement { lease, end, event: None }));
    }
    for lease in comparison.lost {
        report_lost(consumer, &lease);
    }
    consumer.registered.send_replace(true);
    Ok(Some((connection, session_number)))
}

/// Pauses a queue that this worker begins to serve, if all are paused: it may have come since.
async fn pause_with_all(
    session: &Session,
    consumer: &Consumer,
    connection: &Connection,
) -> Result<(), Fault> {
    match session.core.client.all_paused().await {
        Ok(Some((left, order))) => consumer.queue.pause(connection, left, Some(order)).await,
        Ok(None) => Ok(()),
        // Jobs come before an order that may not be there.
        Err(fault) => {
            say!(DEBUG, "whether all queues are paused is not known: {fault}");
            Ok(())
        }
    }
}

/// What the workers of this label are ordered.
async fn orders_of_label(session: &Session) -> Vec<(&'static str, String)> {
    let (client, label) = (&session.core.client, &session.core.config.name);
    let mut orders = Vec::new();
    for field in ["quiet", "slots"] {
        let asked = async {
            let (meta, on) = client.meta(MetaKey::Labels).await?;
            meta.order_of_label(&on, label, field).await
        };
        match asked.await {
            Ok(order) => orders.extend(order.map(|value| (field, value))),
            Err(fault) => say!(DEBUG, "the orders of this worker's label are not known: {fault}"),
        }
    }
    orders
}

/// Leaves a server that does not know this worker. It may have forgotten the worker with all its jobs, and given it a job since, which no
/// other worker would look for.
pub(crate) async fn leave(session: &Session, consumer: &Consumer) {
    // The wait ends when the session does.
    while consumer.is_waiting() {
        let _ = timeout(LOOK_AGAIN, consumer.changed.notified()).await;
    }
    let mut reconnect = Reconnect::soon();
    loop {
        let left = async {
            let connection = session.core.client.connection(&consumer.queue).await?;
            consumer.queue.retire(&connection, &consumer.keys, &consumer.worker).await
        };
        let Err(fault) = left.await else { return };
        say!(DEBUG, { queue = consumer.queue.name.clone() }, job.queue = %queue, "leaving it failed: {fault}");
        reconnect.pause().await;
    }
}

/// Tells the server that this worker retires.
pub(crate) async fn retire(consumer: &Consumer, connection: &Connection) -> Left {
    charts::write_last(consumer, connection).await;
    match consumer.queue.retire(connection, &consumer.keys, &consumer.worker).await {
        Ok(0) => Left::Retired,
        Ok(left) => {
            say!(WARN, { queue = consumer.queue.name.clone() }, job.queue = %queue, left, "leases are left for other workers to recover");
            Left::Retired
        }
        Err(fault) => Left::Reconnect(fault.to_string()),
    }
}

/// The record of this worker at the server.
fn record(session: &Session) -> Vec<(&'static str, String)> {
    let config = &session.core.config;
    vec![
        ("name", config.name.clone()),
        ("host", crate::config::host_name()),
        ("pid", std::process::id().to_string()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("concurrency", config.concurrency.to_string()),
        ("dead_after", crate::time::millis(config.dead_after).to_string()),
        ("aging", crate::time::millis(config.aging).to_string()),
        ("queues", session.core.queue_names()),
    ]
}
