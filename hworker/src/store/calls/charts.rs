//! What workers did, by the minute, ten minutes and hour.

use std::time::Duration;

use crate::charts::{Gauges, Portion, Window};
use crate::store::Script;
use crate::store::net::{Call, Connection, Fault, server_time};
use crate::store::queue::Queue;
use crate::store::reply::Reply;

/// So many points are read at once.
const AT_ONCE: usize = 144;

impl Queue {
    /// Adds what a worker did, once however often it is told, and what there is on the queue.
    pub(crate) async fn chart(
        &self,
        on: &Connection,
        record: &str,
        portion: Option<&Portion>,
        gauges: Option<Gauges>,
        within: Duration,
    ) -> Result<(), Fault> {
        let mut call = Call::new(Script::Chart, &[&self.keys.chart, record]);
        call.number(portion.map_or(0, |portion| portion.number));
        call.number(portion.map_or(0, |portion| portion.at.elapsed().as_millis() as u64));
        call.arg(gauges.map_or_else(String::new, |gauges| gauges.text()));
        for (job, tally) in portion.iter().flat_map(|portion| &portion.jobs) {
            call.arg(job).arg(tally.text());
        }
        on.run(&call, within).await.map(drop)
    }

    /// The points of a chart, with when each begins in ms and the fields of its hash.
    pub(crate) async fn chart_points(
        &self,
        on: &Connection,
        window: Window,
    ) -> Result<Vec<(u64, Vec<(String, String)>)>, Fault> {
        let begins: Vec<u64> = window.begins(server_time(on).await?).collect();
        let minutes = window.step().as_secs() / 60;
        let mut points = Vec::with_capacity(begins.len());
        for some in begins.chunks(AT_ONCE) {
            let mut ask = redis::Pipeline::new();
            for begin in some {
                let key = format!("{}:{minutes}:{}", self.keys.chart, begin / 1_000);
                ask.cmd("HGETALL").arg(key);
            }
            for (begin, reply) in some.iter().zip(on.ask_all(&ask).await?) {
                let fields = match reply {
                    // Somebody made it another type.
                    Err(fault) if fault.is_of_another_type() => Vec::new(),
                    reply => reply?.rest(Reply::pair)?,
                };
                points.push((*begin, fields));
            }
        }
        Ok(points)
    }
}
