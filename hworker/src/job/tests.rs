//! What `#[hworker::job]` writes does what it says: each attempt here goes through the generated code, from JSON to what
//! the body returned.

// Jobs that show every form of a job are not all good style.
#![allow(clippy::unused_async, clippy::too_many_arguments, clippy::ref_option)]

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use tokio_util::sync::CancellationToken;

use super::{
    Backoff, Body, Definition, Inject, Invocation, Job, Needs, OnError, OnFault, Policy,
    Registration, StartError, missing_states,
};
use crate::context::{Attempt, Context, End, Scope, State, States};
use crate::envelope::JobId;
use crate::error::{BoxError, Error};
use crate::outcome::{Outcome, Returned, Verdict, fail};

fn context(states: States) -> Context {
    Context::new(Attempt {
        id: "some-id".into(),
        job: "some_job",
        number: 2,
        max_attempts: 25,
        token: 1,
        deadline: Instant::now() + Duration::from_secs(60),
        scope: Arc::new(Scope {
            queue: "some-queue".into(),
            shard: "some-queue".into(),
            worker: "some-worker".into(),
            states: Arc::new(states),
            stopping: CancellationToken::new(),
            runtime: None,
        }),
        end: End::default(),
        held: None,
        report: OnceLock::new(),
    })
}

async fn run_with<J: Job>(args: &str, states: States) -> Result<Returned, StartError> {
    let body = (J::DEFINITION.start)(Invocation { args, context: &context(states) })?;
    assert_eq!(matches!(body, Body::Blocking(_)), J::DEFINITION.blocking, "{}", J::NAME);
    Ok(match body {
        Body::Async(future) => future.await,
        Body::Blocking(body) => body(),
    })
}

async fn run<J: Job>(args: &str) -> Returned {
    run_with::<J>(args, States::default()).await.expect("it starts")
}

/// Defines a job for each return type, whose argument says how it ends.
macro_rules! returning {
    ($($name:ident -> $returned:ty, $good:expr, $bad:expr;)*) => { $(
        #[hworker::job]
        async fn $name(good: bool) -> $returned {
            if good { $good } else { $bad }
        }
    )* };
}

type Hidden = Result<(), std::io::Error>;
type HiddenOutcome = Result<Outcome, std::io::Error>;
type Nested = Result<Result<u8, String>, std::io::Error>;

fn io() -> std::io::Error {
    std::io::Error::other("bad")
}

returning! {
    unit -> (), (), ();
    number -> u64, 1, 2;
    result -> Result<u64, std::io::Error>, Ok(1), Err(io());
    text -> Result<(), String>, Ok(()), Err("bad".into());
    hidden -> Hidden, Ok(()), Err(io());
    outcome -> Outcome, Outcome::Success, Outcome::Retry("bad".into());
    outcome_result -> Result<Outcome, String>, Ok(Outcome::Failure("bad".into())), Err("bad".into());
    hidden_outcome -> HiddenOutcome, Ok(Outcome::Retry("bad".into())), Err(io());
    verdict -> Result<(), Verdict>, Ok(()), Err(fail("bad"));
    nested -> Result<Result<u8, std::io::Error>, String>, Ok(Ok(1)), Err("bad".into());
    nested_inside -> Nested, Ok(Ok(1)), Ok(Err("bad".into()));
    nested_outcome -> Result<HiddenOutcome, String>, Ok(Ok(Outcome::Retry("bad".into()))), Err("bad".into());
    nested_outcome_inside -> Result<HiddenOutcome, String>, Ok(Ok(Outcome::Success)), Ok(Err(io()));
}

#[tokio::test]
async fn the_form_of_what_is_returned_is_that_of_its_type() {
    const GOOD: &str = r#"{"good":true}"#;
    const BAD: &str = r#"{"good":false}"#;
    assert!(matches!(run::<unit>(BAD).await, Returned::Success));
    assert!(matches!(run::<number>(BAD).await, Returned::Success));
    assert!(matches!(run::<result>(GOOD).await, Returned::Success));
    assert!(matches!(run::<result>(BAD).await, Returned::Error(_)));
    assert!(matches!(run::<text>(GOOD).await, Returned::Success));
    assert!(matches!(run::<text>(BAD).await, Returned::Error(_)));
    assert!(matches!(run::<hidden>(GOOD).await, Returned::Success));
    assert!(matches!(run::<hidden>(BAD).await, Returned::Error(_)));
    assert!(matches!(run::<outcome>(GOOD).await, Returned::Success));
    assert!(matches!(run::<outcome>(BAD).await, Returned::Retry(text) if text == "bad"));
    assert!(matches!(run::<outcome_result>(GOOD).await, Returned::Failure(text) if text == "bad"));
    assert!(matches!(run::<outcome_result>(BAD).await, Returned::Error(_)));
    assert!(matches!(run::<hidden_outcome>(GOOD).await, Returned::Retry(text) if text == "bad"));
    assert!(matches!(run::<hidden_outcome>(BAD).await, Returned::Error(_)));
    assert!(matches!(run::<verdict>(GOOD).await, Returned::Success));
    assert!(matches!(run::<verdict>(BAD).await, Returned::Error(_)));
    assert!(matches!(run::<nested>(GOOD).await, Returned::Success));
    assert!(matches!(run::<nested>(BAD).await, Returned::Error(_)));
    assert!(matches!(run::<nested_inside>(GOOD).await, Returned::Success));
    assert!(
        matches!(run::<nested_inside>(BAD).await, Returned::Error(error) if error.to_string() == "bad")
    );
    assert!(matches!(run::<nested_outcome>(GOOD).await, Returned::Retry(text) if text == "bad"));
    assert!(matches!(run::<nested_outcome>(BAD).await, Returned::Error(_)));
    assert!(matches!(run::<nested_outcome_inside>(GOOD).await, Returned::Success));
    assert!(matches!(run::<nested_outcome_inside>(BAD).await, Returned::Error(_)));
}

/// What jobs saw, given to them as a state.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

/// Injected by a type of the user's.
struct Tenant(String);

impl Inject for Tenant {
    fn needs(needs: &mut Needs) {
        State::<u32>::needs(needs);
    }

    fn inject(context: &Context) -> Result<Self, BoxError> {
        let State(number) = State::<u32>::inject(context)?;
        Ok(Self(format!("tenant {number} of {}", context.id())))
    }
}

#[hworker::job]
async fn every_way(
    own: String,
    lent: &str,
    list: &[u64],
    single: &Option<bool>,
    State(seen): State<Seen>,
    #[serde(default, rename = "more")] mut counted: u8,
    r#type: char,
    context: &Context,
    #[inject] tenant: Tenant,
) {
    counted += 1;
    let attempt = context.attempt();
    let text = format!(
        "{own} {lent} {list:?} {single:?} {counted} {type} {attempt} {}",
        tenant.0,
        r#type = r#type
    );
    seen.0.lock().unwrap().push(text);
}

#[tokio::test]
async fn parameters_are_written_by_name_and_passed_as_they_are_taken() {
    let args = every_way {
        own: "own".into(),
        lent: "lent".into(),
        list: vec![1, 2],
        single: None,
        counted: 4,
        r#type: 'x',
    };
    let json = serde_json::to_value(&args).unwrap();
    let expected = serde_json::json!({
        "own": "own", "lent": "lent", "list": [1, 2], "single": null, "more": 4, "type": "x",
    });
    assert_eq!(json, expected);

    let seen = Seen::default();
    let mut states = States::default();
    states.insert(seen.clone());
    states.insert(7_u32);
    run_with::<every_way>(&json.to_string(), states.clone()).await.unwrap();
    let without_defaults = r#"{"own":"a","lent":"b","list":[],"type":"y","unknown":1}"#;
    run_with::<every_way>(without_defaults, states).await.unwrap();
    let texts =
        ["own lent [1, 2] None 5 x 2 tenant 7 of some-id", "a b [] None 1 y 2 tenant 7 of some-id"];
    assert_eq!(*seen.0.lock().unwrap(), texts);
}

#[tokio::test]
async fn what_is_missing_is_known_before_the_body_runs() {
    let mut needs = Needs::default();
    (every_way::DEFINITION.needs)(&mut needs);
    let mut states = States::default();
    assert_eq!(missing_states(&needs, &states).len(), 2);
    states.insert(7_u32);
    let missing = missing_states(&needs, &states);
    assert!(matches!(missing.as_slice(), [name] if name.ends_with("Seen")), "{missing:?}");

    let args = r#"{"own":"a","lent":"b","list":[],"type":"y"}"#;
    assert!(matches!(run_with::<every_way>(args, states).await, Err(StartError::Inject(_))));
    let wrong = run_with::<every_way>(r#"{"own":1}"#, States::default()).await;
    assert!(matches!(wrong, Err(StartError::Args(_))), "arguments are looked at first");
}

#[tokio::test]
async fn a_test_makes_its_own_context() {
    let (first, second) = (Context::for_test(1), Context::for_test(2));
    assert_eq!((first.attempt(), second.attempt(), second.max_attempts()), (1, 2, 25));
    assert!(first.id() != second.id() && !first.is_cancelled());
    assert!(first.remaining() > Duration::from_secs(100));
}

#[hworker::job]
fn blocks(text: &str) -> Result<u8, std::num::ParseIntError> {
    text.parse()
}

#[hworker::job]
fn nothing() {}

#[tokio::test]
async fn a_function_that_is_not_async_blocks() {
    assert!(matches!(run::<blocks>(r#"{"text":"1"}"#).await, Returned::Success));
    assert!(matches!(run::<blocks>(r#"{"text":"x"}"#).await, Returned::Error(_)));
}

#[tokio::test]
async fn no_arguments_are_an_empty_object() {
    assert_eq!(serde_json::to_string(&nothing {}).unwrap(), "{}");
    assert!(matches!(run::<nothing>("{}").await, Returned::Success));
}

#[hworker::job]
async fn greet(name: &str) {
    let _ = name;
}

#[test]
fn the_future_of_an_enqueue_does_not_hold_what_it_was_given() {
    // Guard: `'static` in `expand::ending`; without it this does not compile.
    fn spawned(future: impl Future<Output = Result<JobId, Error>> + Send + 'static) {
        drop(future);
    }
    let name = String::from("ada");
    spawned(greet::enqueue(name.as_str()));
    spawned(greet::enqueue_in(Duration::ZERO, name.as_str()));
    spawned(greet::enqueue_at(SystemTime::now(), name.as_str()));
}

fn decide(_: &(dyn std::error::Error + Send + Sync + 'static)) -> OnFault {
    OnFault::Fail
}

fn wait(attempt: u32, _: &(dyn std::error::Error + Send + Sync + 'static)) -> Duration {
    Duration::from_secs(attempt.into())
}

#[hworker::job(
    name = "full.name", aliases = ["old", "older"], type = Full, queue = "slow", timeout = "1h30m",
    max_attempts = 3, backoff = "1s, 1m", on_panic = "fail", on_error = "fail", on_timeout = "fail",
    on_crash = "fail"
)]
async fn full() {}

#[hworker::job(backoff = wait, on_error = decide)]
async fn with_functions() {}

#[hworker::job(backoff = "exp(1s, 1m)")]
async fn exponential() {}

#[hworker::job(backoff = "0s")]
async fn at_once() {}

#[test]
fn the_definition_says_what_the_attribute_does() {
    let definition: &Definition = Full::DEFINITION;
    assert_eq!((Full::NAME, definition.name), ("full.name", "full.name"));
    assert_eq!(definition.aliases, ["old", "older"]);
    assert_eq!(definition.queue, "slow");
    assert_eq!(definition.place.module, module_path!());
    assert_eq!(definition.place.file, file!());
    let policy = &definition.policy;
    assert_eq!((policy.timeout_ms, policy.max_attempts), (5_400_000, 3));
    assert!(matches!(policy.backoff, Backoff::List([1000, 60_000])));
    let faults = [policy.on_panic, policy.on_timeout, policy.on_crash];
    assert_eq!(faults, [OnFault::Fail; 3]);
    assert!(matches!(policy.on_error, OnError::Always(OnFault::Fail)));

    let policy = &with_functions::DEFINITION.policy;
    assert!(matches!(policy.on_error, OnError::Decide(decide) if decide(&io()) == OnFault::Fail));
    let three = Duration::from_secs(3);
    assert!(matches!(policy.backoff, Backoff::Custom(wait) if wait(3, &io()) == three));
    let backoff = &exponential::DEFINITION.policy.backoff;
    assert!(matches!(backoff, Backoff::Exponential { first_ms: 1000, cap_ms: 60_000 }));
    assert!(matches!(at_once::DEFINITION.policy.backoff, Backoff::Fixed(0)));
}

#[test]
fn what_the_attribute_leaves_out_has_the_default() {
    let definition = nothing::DEFINITION;
    assert_eq!((definition.name, definition.queue), ("nothing", "default"));
    assert!(definition.aliases.is_empty());
    assert_eq!(format!("{:?}", definition.policy), format!("{:?}", Policy::DEFAULT));
}

#[test]
fn every_job_registers_itself_once() {
    let named = |name: &'static str| {
        inventory::iter::<Registration>().filter(move |job| job.0.name == name).count()
    };
    for job in ["full.name", "nothing", "every_way", "unit"] {
        assert_eq!(named(job), 1, "{job}");
    }
}

#[test]
fn an_end_is_noticed_whenever_it_comes() {
    // Guard: `Context::cancelled` registers before it looks, and `Context::end` says so before it notifies.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    let noticed = |context: &Context| {
        let waits =
            async { tokio::time::timeout(Duration::from_secs(30), context.cancelled()).await };
        runtime.block_on(waits).expect("it is noticed");
    };
    let before = context(States::default());
    before.end();
    noticed(&before);
    // After it was asked for, or at the same time.
    let round = std::sync::Barrier::new(2);
    let contexts: Vec<_> = (0..2_000).map(|_| context(States::default())).collect();
    std::thread::scope(|both| {
        both.spawn(|| {
            for (number, context) in contexts.iter().enumerate() {
                round.wait();
                if number % 10 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                context.end();
            }
        });
        for context in &contexts {
            round.wait();
            noticed(context);
        }
    });
}

/// How often it was woken.
#[derive(Default)]
struct Wakes(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

#[test]
fn a_runner_is_told_of_the_end_of_its_body_by_others_alone() {
    // Guard: `Context::end` wakes no task, which would be polled once more for each attempt.
    let counter = Arc::new(Wakes::default());
    let waker = Arc::clone(&counter).into();
    let cx = std::task::Context::from_waker(&waker);
    let woken = || counter.0.load(std::sync::atomic::Ordering::SeqCst);
    let [ended, cancelled] = [(); 2].map(|()| context(States::default()));
    for context in [&ended, &cancelled] {
        assert!(context.poll_cancelled(&cx).is_pending());
    }
    ended.end();
    assert_eq!((woken(), ended.is_cancelled()), (0, true));
    cancelled.cancel();
    assert_eq!((woken(), cancelled.is_cancelled()), (1, true));
    assert!(cancelled.poll_cancelled(&cx).is_ready());
}
