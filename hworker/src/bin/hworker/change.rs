//! Changes: the question, the audit, the progress, and what came of it.

use std::sync::atomic::{AtomicBool, Ordering};

use hworker::{Action, AuditEntry, Changed};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::Context;
use crate::args::Select;
use crate::select::{Of, Selected};
use crate::stop::Stop;

/// Something may have been changed.
pub(crate) static CHANGES: AtomicBool = AtomicBool::new(false);

/// So many are changed by one call.
const AT_ONCE: usize = 100;

/// What came of a change, as it is printed.
#[derive(Debug, Default, Serialize)]
struct Report {
    action: String,
    done: usize,
    missing: usize,
    changed: usize,
    conflicts: usize,
}

/// What came of something that stands in the audit.
pub(crate) struct Audited<T> {
    pub(crate) done: Result<T, Stop>,
    /// That the audit does not say how it ended.
    pub(crate) warning: Option<String>,
}

impl<T> Audited<T> {
    /// The same once the warning is on stderr.
    pub(crate) fn told(self) -> Result<T, Stop> {
        if let Some(warning) = self.warning {
            crate::output::tell(&warning);
        }
        self.done
    }
}

impl Context {
    /// Who is at the terminal, as the audit has it.
    pub(crate) fn who() -> String {
        let name = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
        let user = name("USER").or_else(|| name("LOGNAME")).unwrap_or_else(|| "unknown".into());
        let host = name("HOSTNAME")
            .or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok())
            .unwrap_or_default();
        format!("{user}@{}", host.trim())
    }

    /// Does something that stands in the audit before, and with what came of it after.
    pub(crate) async fn audited<T>(
        &self,
        action: &str,
        queue: &str,
        what: &str,
        doing: impl Future<Output = Result<(T, String), Stop>>,
    ) -> Result<T, Stop> {
        self.audited_silently(action, queue, what, Box::pin(doing)).await.told()
    }

    /// The same, which prints nothing.
    pub(crate) async fn audited_silently<T>(
        &self,
        action: &str,
        queue: &str,
        what: &str,
        doing: impl Future<Output = Result<(T, String), Stop>>,
    ) -> Audited<T> {
        CHANGES.store(true, Ordering::Relaxed);
        let entry = AuditEntry::new(Self::who(), action, queue, what);
        if let Err(error) = self.client.audit(&entry).await {
            return Audited { done: Err(error.into()), warning: None };
        }
        let done = doing.await;
        let result = match &done {
            Ok((_, result)) => result.clone(),
            Err(_) => "failed".to_owned(),
        };
        // What is done is done.
        let told = self.client.audit(&entry.with_result(result)).await;
        let warning = told.err().map(|error| format!("its result is not in the audit: {error}"));
        Audited { done: done.map(|(value, _)| value), warning }
    }

    /// Changes the jobs that are meant.
    pub(crate) async fn change(
        &self,
        verb: &str,
        select: &Select,
        of: Of,
        action: Action,
    ) -> Result<(), Stop> {
        let selected = self.select(select, of).await?;
        self.change_selected(verb, &selected, action, select.dry_run).await
    }

    pub(crate) async fn change_selected(
        &self,
        verb: &str,
        selected: &Selected,
        action: Action,
        dry_run: bool,
    ) -> Result<(), Stop> {
        if !self.confirm(verb, selected, dry_run).await? {
            return Ok(());
        }
        let queue = selected.jobs.first().map_or("", |job| &job.queue);
        let report = self
            .audited(verb, queue, &selected.what, async {
                let missing = selected.missing;
                let mut report = Report { action: verb.to_owned(), missing, ..Report::default() };
                let bar = progress(verb, selected.jobs.len());
                for jobs in selected.jobs.chunks(AT_ONCE) {
                    let changed = selected.queue.change(jobs, &action).await;
                    let changed = changed.map_err(|error| match report.done {
                        0 => Stop::from(error),
                        done => Stop::from(error).after(&format!("done {done}")),
                    })?;
                    for changed in changed {
                        match changed {
                            Changed::Done => report.done += 1,
                            Changed::Missing => report.missing += 1,
                            Changed::Conflict => report.conflicts += 1,
                            _ => report.changed += 1,
                        }
                        bar.inc(1);
                    }
                }
                bar.finish_and_clear();
                let conflicts = match report.conflicts {
                    0 => String::new(),
                    conflicts => format!(", conflicts {conflicts}"),
                };
                let result = format!(
                    "done {}, missing {}, changed {}{conflicts}",
                    report.done, report.missing, report.changed
                );
                Ok((report, result))
            })
            .await?;
        let lines = [
            ("done", report.done.to_string()),
            ("missing", some(report.missing, "they have started, or somebody else changed them")),
            ("changed", some(report.changed, "they failed again; look again")),
            ("conflicts", some(report.conflicts, "others hold their keys; see `hworker locks ls`")),
        ];
        self.output.one(&report, &lines)?;
        match report.missing + report.changed + report.conflicts {
            0 => Ok(()),
            _ if report.done == 0 => Err(Stop::not_found("nothing done")),
            _ => Err(Stop::failed("done in part")),
        }
    }
}

fn some(count: usize, why: &str) -> String {
    if count == 0 { String::new() } else { format!("{count}: {why}") }
}

/// A bar on stderr, where that is a terminal and there is something to wait for.
fn progress(verb: &str, count: usize) -> ProgressBar {
    if count <= AT_ONCE {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(count as u64);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    bar.with_message(verb.to_owned())
}
