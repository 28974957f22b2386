//! What is asked of what was enqueued.

use std::fmt::{self, Write as _};
use std::time::{Duration, SystemTime};

use crate::client::{Client, Recorded, Recorder};
use crate::encryption::{self, Owner, What, is_sealed};
use crate::envelope::{Envelope, JobId, meta, tags};
use crate::job::Job;
use crate::priority::Priority;
use crate::store::Due;
use crate::time::{local_unix_ms, parse_duration};

/// A job that was enqueued.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Enqueued<J> {
    /// Its id.
    pub id: JobId,
    /// Its arguments, as a worker reads them.
    pub args: J,
    /// Its queue.
    pub queue: String,
    /// How long it waits before it may start; none for now.
    pub delay: Option<Duration>,
    /// Its priority.
    pub priority: Priority,
    /// Its tags.
    pub tags: Vec<String>,
    /// What is noted beside its arguments.
    pub meta: serde_json::Map<String, serde_json::Value>,
}

impl<J: Job> Enqueued<J> {
    pub(super) fn of(recorder: &Recorder) -> Vec<Self> {
        let all = recorder.state().recorded.clone();
        all.iter().filter(|job| job.job == J::NAME).map(Self::read).collect()
    }

    fn read(job: &Recorded) -> Self {
        let text = String::from_utf8_lossy(&job.envelope);
        let args = args(&job.client, job, &text)
            .and_then(|args| serde_json::from_str(&args).map_err(|why| why.to_string()));
        Self {
            id: job.id.clone(),
            args: args
                .unwrap_or_else(|why| panic!("the arguments of job {} {}: {why}", job.job, job.id)),
            queue: job.queue.clone(),
            delay: delay(job.due),
            priority: job.priority,
            tags: tags(&text),
            meta: meta(&text),
        }
    }
}

/// The arguments of a job, decrypted.
fn args(client: &Client, job: &Recorded, text: &str) -> Result<String, String> {
    let envelope = Envelope::decode_text(text)?;
    let args = envelope.args();
    if !is_sealed(args) {
        return Ok(args.to_owned());
    }
    let owner = Owner { what: What::Args, job: &job.job, id: job.id.as_str() };
    let opened = encryption::open(client.keys(), args, owner);
    opened.map(|opened| opened.as_str().to_owned()).map_err(|_| "no key opens them".to_owned())
}

fn delay(due: Option<Due>) -> Option<Duration> {
    let now = local_unix_ms(SystemTime::now());
    due.map(|due| Duration::from_millis(due.by_clock(now).saturating_sub(now)))
}

/// A condition of a field, with its text.
type Field<J> = (&'static str, Box<dyn Fn(&J) -> bool>);

/// What [`assert_enqueued!`](crate::assert_enqueued) asks.
#[must_use = "nothing is asked until `assert` or `refute`"]
pub struct Asked<J> {
    fields: Vec<Field<J>>,
    queue: Option<String>,
    within: Option<Duration>,
    priority: Option<Priority>,
    tag: Option<String>,
    count: Option<usize>,
}

impl<J> Default for Asked<J> {
    fn default() -> Self {
        Self {
            fields: Vec::new(),
            queue: None,
            within: None,
            priority: None,
            tag: None,
            count: None,
        }
    }
}

impl<J: Job> Asked<J> {
    /// A field of the arguments is so.
    #[doc(hidden)]
    pub fn field(mut self, text: &'static str, is_so: impl Fn(&J) -> bool + 'static) -> Self {
        self.fields.push((text, Box::new(is_so)));
        self
    }

    /// It is on this queue.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// It may start within this time, as `5s`.
    ///
    /// # Panics
    /// Where it is no duration.
    #[track_caller]
    pub fn within(mut self, time: &str) -> Self {
        self.within = Some(parse_duration(time).unwrap_or_else(|why| panic!("within: {why}")));
        self
    }

    /// It has this priority.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// It has this tag.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// There are so many of them. Without it, there is one or more.
    pub fn count(mut self, count: usize) -> Self {
        self.count = Some(count);
        self
    }

    fn is(&self, job: &Enqueued<J>) -> bool {
        self.fields.iter().all(|(_, is_so)| is_so(&job.args))
            && self.queue.as_ref().is_none_or(|queue| *queue == job.queue)
            && self.within.is_none_or(|within| job.delay.unwrap_or_default() <= within)
            && self.priority.is_none_or(|priority| priority == job.priority)
            && self.tag.as_ref().is_none_or(|tag| job.tags.contains(tag))
    }

    fn found(&self) -> usize {
        Enqueued::<J>::of(&recorder()).iter().filter(|job| self.is(job)).count()
    }

    /// # Panics
    /// Where no such job was enqueued, or not so many.
    #[track_caller]
    pub fn assert(self) {
        let found = self.found();
        let is_so = self.count.map_or(found > 0, |count| found == count);
        assert!(is_so, "{}", self.told(found));
    }

    /// # Panics
    /// Where such a job was enqueued.
    #[track_caller]
    pub fn refute(self) {
        let found = self.found();
        assert!(found == 0, "{}", self.told(found));
    }

    /// What was asked, and what there is. A test that asks for arguments may see them.
    fn told(&self, found: usize) -> String {
        let mut text = format!("{found} enqueued {self:?}. What was enqueued:");
        let recorded = recorder().state().recorded.clone();
        if recorded.is_empty() {
            text.push_str(" nothing");
        }
        for job in &recorded {
            let envelope = String::from_utf8_lossy(&job.envelope);
            let args = args(&job.client, job, &envelope).unwrap_or_else(|why| format!("[{why}]"));
            let delay = delay(job.due).map(|delay| format!(" in {delay:?}")).unwrap_or_default();
            let _ = write!(text, "\n  {} {args} on {}{delay}", job.job, job.queue);
        }
        text
    }
}

impl<J: Job> fmt::Debug for Asked<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<_> = self.fields.iter().map(|(text, _)| *text).collect();
        write!(f, "{} {{ {} }}", J::NAME, fields.join(", "))?;
        self.queue.iter().try_for_each(|queue| write!(f, ", queue = {queue:?}"))?;
        self.within.iter().try_for_each(|within| write!(f, ", within = {within:?}"))?;
        self.priority.iter().try_for_each(|priority| write!(f, ", priority = {priority:?}"))?;
        self.tag.iter().try_for_each(|tag| write!(f, ", tag = {tag:?}"))?;
        self.count.iter().try_for_each(|count| write!(f, ", count = {count}"))
    }
}

#[track_caller]
fn recorder() -> std::sync::Arc<Recorder> {
    Recorder::here()
        .unwrap_or_else(|| panic!("this is no test of `#[hworker::test]`, nor a task of one"))
}

/// Panics where no such job was enqueued in this test of [`#[hworker::test]`](macro@crate::test).
///
/// Fields of the arguments are compared by `==`; those that are left out may have any value. Behind them may stand `queue = "mail"`,
/// `within = "5s"` (it may start by then), `priority = Priority::High`, `tag = "a"`, `count = 2` (exactly; else one or more).
///
/// ```
/// # #[hworker::job] async fn welcome(user: u64, lang: String) { let _ = (user, lang); }
/// # use std::time::Duration;
/// # use hworker::{assert_enqueued, refute_enqueued};
/// #[hworker::test]
/// async fn it_welcomes() {
///     welcome::with(7, "en".into()).delay(Duration::from_secs(3)).enqueue().await.expect("enqueued");
///     assert_enqueued!(welcome { user: 7, .. }, within = "5s", count = 1);
///     refute_enqueued!(welcome { lang: "fr" });
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! assert_enqueued {
    ($job:path { $($field:ident : $value:expr),* $(, ..)? $(,)? } $(, $option:ident = $given:expr)* $(,)?) => {
        $crate::asked!($job { $($field: $value),* } $(, $option = $given)*).assert()
    };
    ($job:path $(, $option:ident = $given:expr)* $(,)?) => {
        $crate::asked!($job {} $(, $option = $given)*).assert()
    };
}

/// Panics where such a job was enqueued in this test; see [`assert_enqueued!`].
#[macro_export]
macro_rules! refute_enqueued {
    ($job:path { $($field:ident : $value:expr),* $(, ..)? $(,)? } $(, $option:ident = $given:expr)* $(,)?) => {
        $crate::asked!($job { $($field: $value),* } $(, $option = $given)*).refute()
    };
    ($job:path $(, $option:ident = $given:expr)* $(,)?) => {
        $crate::asked!($job {} $(, $option = $given)*).refute()
    };
}

/// What both ask.
#[doc(hidden)]
#[macro_export]
macro_rules! asked {
    ($job:path { $($field:ident : $value:expr),* } $(, $option:ident = $given:expr)*) => {{
        let asked = $crate::testing::Asked::<$job>::default();
        $(
            let asked = {
                let value = $value;
                asked.field(concat!(stringify!($field), ": ", stringify!($value)), move |job| job.$field == value)
            };
        )*
        asked $(.$option($given))*
    }};
}
