//! What a worker says of an outage, from the first of its connections that misses the server to the last that has it back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::consumer::Lane;
use super::outages::{News, Side};
use super::session::Incarnation;
use crate::log::say;
use crate::store::Fault;

/// The server cannot be used there.
pub(super) fn lost(incarnation: &Incarnation, lane: &Lane, side: Side, fault: &Fault) {
    let core = &incarnation.core;
    let who = (side, Arc::clone(&lane.queue.label));
    let (worker, queue) = (incarnation.id.clone(), lane.queue.name.clone());
    let (server, fault) = (core.client.address().to_string(), fault.clone());
    match core.outages.lost(who, lane.pulse.age(), Instant::now()) {
        Some(News::Lost) => {
            let running = running(incarnation);
            let dead_after = core.config.dead_after;
            let fate = if core.config.cancel_on_disconnect {
                "async bodies that run are stopped before other workers can have their jobs"
            } else {
                "bodies that run go on and their results are kept"
            };
            say!(WARN, %worker, %server, %queue, running, "the server cannot be used, trying again: {fault}; no job starts, {fate}; other workers that it answers get the jobs {dead_after:?} after the last heartbeat");
        }
        Some(News::Away(away)) => {
            let running = running(incarnation);
            say!(WARN, %worker, %server, %queue, running, away = %rounded(away), "the server still cannot be used, trying again: {fault}");
        }
        Some(News::Back(_)) | None => {}
    }
}

/// The server answers there.
pub(super) fn back(incarnation: &Incarnation, lane: &Lane, side: Side) {
    let core = &incarnation.core;
    let who = (side, Arc::clone(&lane.queue.label));
    if let Some(News::Back(away)) = core.outages.back(&who, Instant::now()) {
        let results: usize = incarnation.lanes().iter().map(|lane| lane.outbox.count()).sum();
        let (worker, server) = (incarnation.id.clone(), core.client.address().to_string());
        let running = running(incarnation);
        say!(INFO, %worker, %server, running, results, away = %rounded(away), "the server is back: jobs start again, results that were kept are sent");
    }
}

fn rounded(away: Duration) -> String {
    format!("{away:.1?}")
}

fn running(incarnation: &Incarnation) -> usize {
    incarnation.lanes().iter().map(|lane| lane.leases.running().len()).sum()
}
