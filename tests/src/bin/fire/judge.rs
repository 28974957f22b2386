//! What only time shows: whether a lease ended as its body did, why a worker was declared dead, what nobody ends.

use crate::checker::Checker;
use crate::diary::{Outcome, What};
use crate::ledger::{Ended, Lease};
use crate::strikes::SECOND;
use crate::tally::Job;

/// A lease that nobody ended for so long is stuck: longer than the longest body and the slowest recovery.
const STUCK_AFTER: u64 = 60 * SECOND;

/// A lease whose body has not begun after this is one of which its worker does not know: it would have noticed within 2 s, or 5 s
/// where a request was lost on the way.
const IDLE_AFTER: u64 = 14 * SECOND;

/// An inbox that holds something for so long is stuck: those of the dead are looked at once a minute at least.
const SWEPT_AFTER: u64 = 80 * SECOND;

/// What ended is judged after this: the diaries have been read, and whoever was not run for a while has said so.
const JUDGED_AFTER: u64 = 10 * SECOND;

/// Later than everything that is waited for, once all processes have ended.
const ALL_IS_KNOWN_AFTER: u64 = 30 * SECOND;

/// And forgotten after this.
pub(crate) const FORGOTTEN_AFTER: u64 = 90 * SECOND;

/// What a body noted before the server's log shows its lease waits at most so long: the server may have been unable to write.
pub(crate) const EARLY_FOR: u64 = 20 * SECOND;

impl Checker {
    /// Looks at what time brings about.
    pub(crate) fn tick(&mut self, seen: u64) {
        self.seen = seen;
        for (process, note) in std::mem::take(&mut self.early) {
            let last = seen >= note.at + EARLY_FOR;
            if self.is_behind(process, &note) {
                self.early.push((process, note));
                continue;
            }
            if self.body_of(process, note, last) {
                continue;
            }
            if !last {
                self.early.push((process, note));
            } else if note.what == What::Begin {
                let detail = if note.token == 0 {
                    self.plain_story(process, note)
                } else {
                    format!("job {}, token {}, process {process}", note.n, note.token)
                };
                self.wrong("a body runs under its lease", detail);
            }
        }
        self.compare_plain(seen);
        let is_due = |(at, ..): &(u64, usize, String)| *at + JUDGED_AFTER < seen;
        while self.deaths.front().is_some_and(is_due) {
            let Some((at, process, worker)) = self.deaths.pop_front() else { break };
            if self.strikes.silenced(process, at).is_none() && !self.strikes.ends(process, at) {
                let detail = format!("worker {worker}, process {process}");
                self.wrong("only the silenced are declared dead", detail);
            }
        }
        while let Some((ended, lease)) = self.to_judge.front().copied()
            && ended + JUDGED_AFTER < seen
        {
            self.to_judge.pop_front();
            self.judge(lease);
            self.to_forget.push_back((ended, lease));
        }
        while let Some((ended, lease)) = self.to_forget.front().copied()
            && ended + FORGOTTEN_AFTER < seen
        {
            self.to_forget.pop_front();
            if let Some(hold) = self.holds.remove(&lease) {
                self.plain.forget(hold.n, lease);
            }
        }
    }

    /// All processes have ended, and everything was read.
    pub(crate) fn all_is_known(&mut self, seen: u64) {
        self.tick(seen + ALL_IS_KNOWN_AFTER);
        self.seen = seen;
    }

    /// Looks for leases that nobody ends, and inboxes that nobody empties.
    pub(crate) fn look_for_stuck(&mut self, seen: u64) {
        self.seen = seen;
        let mut stuck = Vec::new();
        let quiet = self.strikes.server_trouble(seen.saturating_sub(IDLE_AFTER), seen) == 0;
        for (lease, hold) in &mut self.holds {
            let process = self.lives[hold.life].process;
            let held_for = seen.saturating_sub(hold.granted);
            // One that nobody silenced, and that reaches the server, knows by then what it holds.
            let idle = quiet
                && hold.began.is_none()
                && held_for > IDLE_AFTER
                && self.strikes.silenced(process, seen).is_none();
            if hold.ended.is_none() && !hold.reported && (idle || held_for > STUCK_AFTER) {
                hold.reported = true;
                let (began, outcome) = (hold.began.is_some(), hold.outcome);
                stuck.push(format!(
                    "job {}, lease {lease:?} of process {process}, begun: {began}, ended: {outcome:?}",
                    hold.n
                ));
            }
        }
        let before = std::mem::take(&mut self.in_inboxes);
        for (n, inbox) in self.ledger.in_inboxes() {
            let key = (n, inbox.to_vec());
            let since = before.get(&key).copied().unwrap_or(seen);
            // Once: later it is as if it came into it then.
            let is_stuck = since + SWEPT_AFTER < seen;
            if is_stuck {
                stuck.push(format!("job {n} in {}", String::from_utf8_lossy(inbox)));
            }
            self.in_inboxes.insert(key, if is_stuck { u64::MAX - SWEPT_AFTER } else { since });
        }
        for detail in stuck {
            self.wrong("no lease is held for ever", detail);
        }
    }

    /// Holds the end of a lease against the end of its body.
    fn judge(&mut self, lease: Lease) {
        let Some(hold) = self.holds.get(&lease) else { return };
        let Some((how, _)) = hold.ended else { return };
        let (n, process, outcome) = (hold.n, self.lives[hold.life].process, hold.outcome);
        let began = hold.began.is_some();
        if self.fits(lease, began, outcome) || self.fits_in_another_order(n, process) {
            return;
        }
        let detail = format!(
            "job {n}, lease {lease:?} of process {process}: {how:?}, its body began: {began}, ended: {outcome:?}"
        );
        self.wrong("leases end as their bodies do", detail);
    }

    /// Whether a lease may end so with this body, or without one. One that has not ended may.
    pub(crate) fn fits(&mut self, lease: Lease, began: bool, outcome: Outcome) -> bool {
        let Some(hold) = self.holds.get(&lease) else { return true };
        let Some((how, ended)) = hold.ended else { return true };
        let (n, process) = (hold.n, self.lives[hold.life].process);
        match how {
            Ended::Acked => outcome == Outcome::Success,
            // A blocking body that is over its time may come to its end all the same.
            Ended::Retried => began,
            Ended::Failed => began || self.jobs.get(n).recoveries >= Job::CRASH_LIMIT,
            Ended::Broken | Ended::Parked => !began,
            Ended::Released => {
                !began
                    || outcome == Outcome::Snooze
                    // It goes to where the next worker ends it.
                    || self.edits.is_cancelled(n)
                    || self.why_given_back(process, ended).is_some()
            }
            // What blocks may come to its end all the same.
            Ended::Cancelled => true,
            Ended::Deleted => false,
            Ended::Recovered => self.strikes.silenced(process, ended).is_some(),
        }
    }
}
