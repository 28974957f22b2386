//! The jobs of the fleet.

use std::time::Duration;

use hworker::Context;

/// The library that decodes pictures crashes on some, and never returns on others. In a process of its own that ends this job alone.
#[hworker::job(
    isolate(memory = "500MB", cpu = "10s"),
    timeout = "2s",
    on_panic = "fail",
    on_timeout = "fail"
)]
pub fn decode(picture: u32) {
    match picture {
        3 => std::process::abort(),
        4 => loop {
            std::hint::spin_loop();
        },
        _ => std::thread::sleep(Duration::from_millis(50)),
    }
}

/// Needs a graphics card: it is enqueued with `.to("gpu")`.
#[hworker::job]
pub async fn render(scene: u32, context: Context) {
    tokio::time::sleep(Duration::from_millis(50)).await;
    println!("  scene {scene} was rendered by {}", label(&context));
}

/// Reads what is on the disk of one machine: it is enqueued with `.to(..)` and its name.
#[hworker::job]
pub async fn collect_logs(day: u32, context: Context) {
    println!("  the logs of day {day} were collected by {}", label(&context));
}

/// Each worker keeps prices: it is enqueued with `.on_each()`.
#[hworker::job]
pub async fn drop_prices(context: Context) {
    println!("  {} has dropped its prices", label(&context));
}

/// The id of a worker is its name, and what is new at every start.
fn label(context: &Context) -> &str {
    context.worker().rsplit_once('.').map_or(context.worker(), |(name, _)| name)
}
