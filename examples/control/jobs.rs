//! The jobs of the shop, each with its limit. Their bodies only sleep.

use std::time::Duration;

use hworker::{Args, BoxError, Context, Failed, Outcome, State};

use crate::shop::Shop;

const WORK: Duration = Duration::from_millis(50);

/// A customer looks at the page while it runs, so it starts before all others that wait.
#[hworker::job(priority = "high")]
pub async fn charge(order: u64, shop: State<Shop>) {
    shop.0.works("charge", &format!("order {order}"), WORK).await;
}

#[hworker::job]
pub async fn pack(order: u64, shop: State<Shop>) {
    shop.0.works("pack", &format!("order {order}"), WORK).await;
}

/// It needs much memory: two at once, over all workers.
#[hworker::job(concurrency = 2)]
pub async fn resize(picture: u64, shop: State<Shop>) {
    shop.0.works("resize", &format!("picture {picture}"), WORK).await;
}

/// One export at a time for each customer. Those of other customers do not wait for it.
#[hworker::job(concurrency(limit = 1, key = customer))]
pub async fn export(customer: &str, shop: State<Shop>) {
    shop.0.works("export", customer, WORK).await;
}

/// The entries of an account, one after the other. One that fails is tried again before those behind it.
#[hworker::job(concurrency(key = account, order = "strict"), backoff = "200ms")]
pub async fn book(account: &str, entry: &str, shop: State<Shop>, context: Context) -> Outcome {
    shop.0.works("book", &format!("{account}: {entry}"), Duration::from_millis(5)).await;
    if entry == "deposit" && context.attempt() == 1 {
        return Outcome::Retry("the ledger is locked".into());
    }
    Outcome::Success
}

/// One synchronisation of a customer at a time, however often somebody asks for it.
#[hworker::job(unique(key = customer))]
pub async fn sync(customer: &str, shop: State<Shop>) {
    shop.0.works("sync", customer, WORK).await;
}

/// After the last of many changes of a page, and no later than two seconds after the first.
#[hworker::job(debounce(wait = "300ms", max = "2s", key = page))]
pub async fn publish(page: u64, text: &str, shop: State<Shop>) {
    shop.0.works("publish", &format!("page {page}: {text}"), WORK).await;
}

/// What a parcel to a country costs. Whoever asked waits for the answer.
#[hworker::job(keep_result = "10m", max_attempts = 1)]
pub async fn quote(country: &str, shop: State<Shop>) -> Result<u64, String> {
    shop.0.works("quote", country, WORK).await;
    match country {
        "DE" => Ok(490),
        "NZ" => Ok(2_890),
        _ => Err(format!("nobody carries parcels to {country}")),
    }
}

/// Every working day at eight, by the clock of the shop.
#[hworker::job(cron = "0 8 * * MON-FRI", timezone = "Europe/Berlin")]
pub async fn good_morning(shop: State<Shop>) {
    shop.0.works("good_morning", "the shop opens", WORK).await;
}

/// As often as somebody asks for it while the shop runs.
#[hworker::job]
pub async fn count_stock(shelf: u64, shop: State<Shop>) {
    shop.0.works("count_stock", &format!("shelf {shelf}"), Duration::from_millis(1)).await;
}

/// Counts in cents since version 2. Jobs that the release before enqueued, in euros, run too. `jobs.json` has its version, and a test compares.
#[hworker::job(version = 2, upgrade = in_cents)]
pub async fn gift(customer: &str, cents: u64, shop: State<Shop>) {
    shop.0.works("gift", &format!("{cents} cents for {customer}"), WORK).await;
}

fn in_cents(_: u32, mut args: Args) -> Result<Args, BoxError> {
    let euros: u64 = args.get("euros")?;
    args.set("cents", euros * 100)?;
    Ok(args)
}

/// Has three connections to the database, together with `report`.
#[hworker::job(concurrency(limit = 3, name = "db"))]
pub async fn index(product: u64, shop: State<Shop>) {
    shop.0.works("index", &format!("product {product}"), WORK).await;
}

/// Shares the connections of `index`.
#[hworker::job(concurrency(limit = 3, name = "db"))]
pub async fn report(day: u64, shop: State<Shop>) {
    shop.0.works("report", &format!("day {day}"), WORK).await;
}

/// The carrier takes 20 calls a second, and says so if it has too much to do.
#[hworker::job(rate_limit = "20/s")]
pub async fn order_pickup(parcel: u64, shop: State<Shop>) -> Result<(), BoxError> {
    let parcel_name = format!("parcel {parcel}");
    let is_first_try = !shop.0.begun("order_pickup").contains(&parcel_name);
    shop.0.works("order_pickup", &parcel_name, Duration::from_millis(1)).await;
    if parcel == 10 && is_first_try {
        // It answers 429 with `Retry-After`: none of these jobs starts before that time is over, and no attempt is counted.
        return Err(hworker::slow_down(Duration::from_millis(500)).into());
    }
    Ok(())
}

/// Customers take turns, however many jobs each of them has.
#[hworker::job(fair(key = customer))]
pub async fn recommend(customer: &str, shop: State<Shop>) {
    shop.0.works("recommend", customer, Duration::from_millis(20)).await;
}

/// While one of a page is drawn, only the newest other one is of interest.
#[hworker::job(concurrency(limit = 1, key = page, when_full = "keep_newest"))]
pub async fn preview(page: &str, version: u32, shop: State<Shop>) {
    shop.0.works("preview", &format!("{page}, version {version}"), 4 * WORK).await;
}

/// The bank refuses some, and does not answer others at once.
#[hworker::job(max_attempts = 3, backoff = "2s")]
pub async fn refund(order: u64, shop: State<Shop>, context: Context) -> Outcome {
    shop.0.works("refund", &format!("order {order}"), WORK).await;
    match (order % 5, context.attempt()) {
        (0, _) => Outcome::Failure("the account is closed".into()),
        (1 | 2, 1) => Outcome::Retry("the bank does not answer".into()),
        (1, _) => Outcome::Retry(format!("the bank refuses order {order}")),
        _ => Outcome::Success,
    }
}

/// Has no limit. The demo holds it up all the same.
#[hworker::job]
pub async fn send_mail(to: &str, shop: State<Shop>) {
    shop.0.works("send_mail", to, Duration::from_millis(1)).await;
}

/// Goes over a catalogue, and on where it stopped: here it stops in the middle, as a deploy or a crash might have it. It says how far it is, and logs.
#[hworker::job(timeout = "1h", backoff = "100ms")]
pub async fn translate(pages: u64, shop: State<Shop>, context: Context) -> Result<(), BoxError> {
    let attempt = context.attempt();
    context.log(format_args!("attempt {attempt}: {pages} pages"));
    let shop = &shop.0;
    context
        .each(1..=pages, |page| async move {
            if page == 8 && attempt == 1 {
                return Err::<(), BoxError>("the dictionary is closed".into());
            }
            shop.works("translate", &format!("page {page}"), Duration::from_millis(2)).await;
            Ok(())
        })
        .await
}

/// Nobody delivers to the moon. What becomes of the money is another job.
#[hworker::job(max_attempts = 2, backoff = "50ms", on_failed = pay_back)]
pub async fn deliver(order: u64) -> Result<(), BoxError> {
    Err(format!("order {order}: nobody delivers to the moon").into())
}

/// It is enqueued when a delivery has failed for good, once for each.
#[hworker::job]
pub async fn pay_back(failed: Failed, shop: State<Shop>) {
    shop.0.works("pay_back", &failed.message, WORK).await;
}
