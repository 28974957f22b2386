//! From a job with its arguments to one that runs again and again.

use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};

use super::by_name::NO_VERSION;
use super::{Enqueue, EnqueueByName};
use crate::calendar::Timing;
use crate::cron::{Schedule, Template};
use crate::envelope::describe;
use crate::job::Job;
use crate::time::millis;

const NOT_ONCE: &str = "a job that runs by a schedule has no time of its own, no id and no `retry_until`, and is not put to the front";

const NOT_BY_CRON: &str = "the runs of a cron entry are not for each worker";

const NOT_BY_TO: &str = "the runs of a cron entry are on the queue of its control: for workers with a tag it is `client.control(\"mail@gpu\")`";

impl<J: Job> Enqueue<J> {
    /// Has the job run by a cron expression, with these arguments: five fields, `minute hour day month weekday`, or a sixth for the seconds in
    /// front. [`CronControl::upsert`](crate::CronControl::upsert) takes it.
    ///
    /// ```no_run
    /// # #[hworker::job] async fn report(customer: u64) { let _ = customer; }
    /// # async fn demo(client: hworker::Client) -> Result<(), hworker::Error> {
    /// let weekdays = report::with(7).cron("0 9 * * MON-FRI").timezone("Europe/Berlin");
    /// client.control("default").cron("report-7").upsert(weekdays).await?;
    /// # Ok(()) }
    /// ```
    pub fn cron(self, expression: impl Into<String>) -> Schedule {
        let timing = Timing { cron: Some(expression.into()), ..Timing::default() };
        Schedule::new(timing, self.template())
    }

    /// Has the job run at this interval, with these arguments. Its times are counted from 1970, so all processes have the same.
    pub fn every(self, period: Duration) -> Schedule {
        let timing = Timing { every: Some(millis(period)), ..Timing::default() };
        Schedule::new(timing, self.template())
    }

    fn template(self) -> Template {
        let is_once = self.due.is_some() || self.front || self.retry_until.is_some();
        let mut template = Template::of(J::DEFINITION, to_raw_value(&self.job));
        if let Some(notes) = self.notes {
            match notes.meta() {
                Ok(meta) => template.meta = meta,
                Err(why) => template.problems.push(why),
            }
            template.tags = notes.tags;
            template.problems.extend(notes.problems);
        }
        if self.to.is_some() {
            template.problems.push(NOT_BY_TO.into());
        }
        if self.workers.is_some() {
            template.problems.push(NOT_BY_CRON.into());
        }
        let asked = self.known.unwrap_or_default();
        if is_once || asked.id.is_some() {
            template.problems.push(NOT_ONCE.into());
        }
        if let Some(Err(why)) = asked.unique.as_ref().map(crate::unique::Unique::check) {
            template.problems.push(why);
        }
        Template {
            max_attempts: self.max_attempts,
            timeout: self.timeout,
            backoff: self.backoff,
            expires_in: self.expires_in,
            priority: self.priority,
            unique: asked.unique,
            queue: self.queue.map(std::borrow::Cow::into_owned),
            ..template
        }
    }
}

impl EnqueueByName {
    /// As [`Enqueue::cron`].
    pub fn cron(self, expression: impl Into<String>) -> Schedule {
        let timing = Timing { cron: Some(expression.into()), ..Timing::default() };
        Schedule::new(timing, self.template())
    }

    /// As [`Enqueue::every`].
    pub fn every(self, period: Duration) -> Schedule {
        let timing = Timing { every: Some(millis(period)), ..Timing::default() };
        Schedule::new(timing, self.template())
    }

    fn template(self) -> Template {
        let mut problems = Vec::new();
        if self.due.is_some() || self.front || self.id.is_some() {
            problems.push(NOT_ONCE.into());
        }
        if self.to.is_some() {
            problems.push(NOT_BY_TO.into());
        }
        if self.workers.is_some() {
            problems.push(NOT_BY_CRON.into());
        }
        if self.args_v == Some(0) {
            problems.push(NO_VERSION.into());
        }
        if self.name.is_empty() {
            problems.push("the name of the job type is empty".into());
        }
        let args = RawValue::from_string(self.args);
        let args = args.map_err(|error| {
            problems.push(format!("the arguments are no JSON: {}", describe(&error)));
        });
        Template {
            job: self.name.into(),
            args: args.ok(),
            args_v: self.args_v.filter(|version| *version > 1),
            tags: self.tags,
            max_attempts: self.max_attempts,
            priority: self.priority,
            unique: self.unique,
            problems,
            ..Template::default()
        }
    }
}
