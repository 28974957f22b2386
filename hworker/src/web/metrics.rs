//! `GET /metrics`: what there is on the queues, for Prometheus. What workers do they tell themselves, each of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use tokio::sync::Mutex;

use super::each::{QUEUES, each, readable};
use super::problem::Problem;
use super::site::Site;
use crate::client::Client;
use crate::error::Error;
use crate::inspect::Counts;
use crate::open_metrics::{OPEN_METRICS, text_of};
use crate::time::local_unix_ms;

/// So long one look at the queues serves all who ask; ten times as long as it took where that is longer, so that scrapes never take more than a
/// tenth of the server's time.
const FOR: Duration = Duration::from_secs(5);

/// So many queues have series of their own, the first by name; the others are one. No queue can have its name.
const NAMED: usize = 500;
const OTHERS: &str = "+other";

static SECONDS: Unit = Unit::Seconds;

/// What was seen at the last look.
#[derive(Default)]
struct Seen(Option<(Instant, Duration, String)>);

pub(super) fn router() -> Router<Arc<Site>> {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let scrape = move |State(site): State<Arc<Site>>| scrape(site, Arc::clone(&seen));
    Router::new().route("/metrics", get(scrape))
}

async fn scrape(site: Arc<Site>, seen: Arc<Mutex<Seen>>) -> Result<Response, Problem> {
    // Those who ask meanwhile wait for the same look.
    let mut seen = seen.lock().await;
    let text = match &seen.0 {
        Some((at, valid, text)) if at.elapsed() < *valid => text.clone(),
        _ => {
            let began = Instant::now();
            let text = text_of(Queues(look(&site).await?));
            let valid = FOR.max(began.elapsed() * 10);
            seen.0 = Some((Instant::now(), valid, text.clone()));
            text
        }
    };
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}

/// What there is on a queue, or on several.
#[derive(Debug, Default)]
struct Figures {
    counts: Counts,
    oldest: Duration,
    /// How many of the queues are paused.
    paused: u64,
    /// With how many jobs each runs at once. One that serves several queues is one.
    workers: BTreeMap<String, usize>,
}

impl Figures {
    async fn of(client: Client, queue: String, now: u64) -> Result<Option<Self>, Error> {
        let inspect = client.inspect(&queue);
        let Some((info, workers)) = readable(inspect.summary_and_slots().await.map(Some))? else {
            return Ok(None);
        };
        let waits = info.counts.waiting > 0;
        let since = if waits { readable(inspect.oldest().await)? } else { None };
        let oldest = since.map_or(0, |since| now.saturating_sub(since));
        Ok(Some(Self {
            counts: info.counts,
            oldest: Duration::from_millis(oldest),
            paused: u64::from(info.paused.is_some()),
            workers,
        }))
    }

    fn add(&mut self, other: Self) {
        self.counts = self.counts.and(other.counts);
        self.oldest = self.oldest.max(other.oldest);
        self.paused += other.paused;
        self.workers.extend(other.workers);
    }

    fn slots(&self) -> u64 {
        self.workers.values().fold(0, |sum, slots| sum.saturating_add(*slots as u64))
    }
}

/// Asks of the queues in the registry, a hundred at a time. Lists that nobody registered are not looked for.
async fn look(site: &Site) -> Result<BTreeMap<String, Figures>, Problem> {
    let registered = site.client.registered_queues().await;
    let registered = registered.map_err(|fault| fault.into_error("list the queues"))?;
    let names: Vec<_> = registered.into_keys().collect();
    let now = local_unix_ms(SystemTime::now());
    let (mut queues, mut at) = (BTreeMap::<String, Figures>::new(), 0);
    for names in names.chunks(QUEUES) {
        let ask = |client, name| Figures::of(client, name, now);
        for (name, figures) in each(&site.client, names.iter().cloned(), ask).await? {
            let label = if at < NAMED { name } else { OTHERS.to_owned() };
            at += 1;
            // One that another program made unreadable has no series.
            if let Some(figures) = figures {
                queues.entry(label).or_default().add(figures);
            }
        }
    }
    Ok(queues)
}

#[derive(Debug)]
struct Queues(BTreeMap<String, Figures>);

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let kind = MetricType::Gauge;
        let help = "Jobs on the queue, by their states.";
        let mut jobs = encoder.encode_descriptor("queue_jobs", help, None, kind)?;
        for (queue, figures) in &self.0 {
            for (state, count) in by_state(figures.counts) {
                let labels = [("queue", queue.as_str()), ("state", state)];
                ConstGauge::new(count).encode(jobs.encode_family(&labels)?)?;
            }
        }
        let help = "How long the job that is next has waited; 0 where none waits.";
        let mut oldest = encoder.encode_descriptor("queue_oldest", help, Some(&SECONDS), kind)?;
        for (queue, figures) in &self.0 {
            let labels = [("queue", queue.as_str())];
            let seconds = figures.oldest.as_secs_f64();
            ConstGauge::new(seconds).encode(oldest.encode_family(&labels)?)?;
        }
        let paused = |figures: &Figures| figures.paused;
        self.encode_count(&mut encoder, "queue_paused", "1 where the queue is paused.", paused)?;
        let workers = |figures: &Figures| figures.workers.len() as u64;
        self.encode_count(&mut encoder, "queue_workers", "Workers that serve the queue.", workers)?;
        let help = "How many jobs these workers run at once, of this queue and of others.";
        self.encode_count(&mut encoder, "queue_slots", help, Figures::slots)
    }
}

impl Queues {
    fn encode_count(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        of: impl Fn(&Figures) -> u64,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (queue, figures) in &self.0 {
            let labels = [("queue", queue.as_str())];
            ConstGauge::new(of(figures)).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn by_state(counts: Counts) -> [(&'static str, u64); 9] {
    [
        ("waiting", counts.waiting),
        ("scheduled", counts.scheduled),
        ("parked", counts.parked),
        ("running", counts.running),
        ("failed", counts.failed),
        ("cancelled", counts.cancelled),
        ("expired", counts.expired),
        ("done", counts.done),
        ("broken", counts.broken),
    ]
}
