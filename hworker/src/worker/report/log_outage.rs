//! Logs an outage, from the first connection of a worker that loses the server to the last that has it back.

use std::sync::Arc;
use std::time::Instant;

use crate::log::say;
use crate::store::Fault;
use crate::worker::state::{Consumer, News, Session, Side};

/// Logs that the server cannot be used, if that is news.
pub(crate) fn lost(session: &Session, consumer: &Consumer, side: Side, fault: &Fault) {
    let core = &session.core;
    let who = (side, Arc::clone(&consumer.queue.label));
    let (worker, queue) = (session.id.clone(), consumer.queue.name.clone());
    let (server, fault) = (core.client.address().to_string(), fault.clone());
    match core.outages.lost(who, consumer.freshness.age(), Instant::now()) {
        Some(News::Lost) => {
            let running = session.running();
            let dead_after = core.config.dead_after;
            let fate = if core.config.cancel_on_disconnect {
                "async bodies that run are stopped before other workers can have their jobs"
            } else {
                "bodies that run go on and their results are kept"
            };
            say!(WARN, worker.id = %worker, %server, job.queue = %queue, running,
                "the server cannot be used, trying again: {fault}; no job starts, {fate}; other workers that it answers get the jobs \
                 {dead_after:?} after the last heartbeat");
        }
        Some(News::Away(away)) => {
            let running = session.running();
            say!(WARN, worker.id = %worker, %server, job.queue = %queue, running, away = %format_args!("{away:.1?}"),
                "the server still cannot be used, trying again: {fault}");
        }
        None => {}
    }
}

/// Logs that the server is back, if the last connection has it.
pub(crate) fn back(session: &Session, consumer: &Consumer, side: Side) {
    let core = &session.core;
    let who = (side, Arc::clone(&consumer.queue.label));
    if let Some(away) = core.outages.back(&who, Instant::now()) {
        let results: usize =
            session.consumers().iter().map(|consumer| consumer.outbox.count()).sum();
        let (worker, server) = (session.id.clone(), core.client.address().to_string());
        let running = session.running();
        say!(INFO, worker.id = %worker, %server, running, results, away = %format_args!("{away:.1?}"),
            "the server is back: jobs start again, results that were kept are sent");
    }
}
