//! A job that the server has handed into this worker's inbox, which counts as its lease: the body may start before the lease
//! that follows is known. That saves the server a script, and the job its time, between the arrival of a job and its start.
//!
//! What makes it safe: nothing else takes the inbox meanwhile, or what takes it finds this job here. So the calls that take it
//! are counted, and a job starts so only if none was sent since before the wait that brought it, and none was under way then.
//! The next of them brings it under its lease, and it is known again by its bytes. If it does not, the leases that the server
//! holds for this worker are searched for it; where it is not among them either, it was lost, and its body is cancelled.

use std::sync::{Arc, OnceLock};

use super::admit::Job;
use super::leases::Running;
use crate::store::{End, Lease};

/// By what a job is this worker's.
#[derive(Debug)]
pub(super) enum Hold {
    Lease(Lease),
    /// It was started from the inbox, under this number; its lease follows.
    Inbox {
        number: u64,
        lease: OnceLock<Lease>,
    },
}

impl Hold {
    pub(super) fn in_inbox(number: u64) -> Self {
        Self::Inbox { number, lease: OnceLock::new() }
    }

    /// The lease, once it is known.
    pub(super) fn lease(&self) -> Option<&Lease> {
        match self {
            Self::Lease(lease) => Some(lease),
            Self::Inbox { lease, .. } => lease.get(),
        }
    }

    fn is_of(&self, handed: &Handed) -> bool {
        matches!(self, Self::Inbox { number, .. } if *number == handed.number)
    }

    pub(super) fn bind(&self, to: &Lease) {
        if let Self::Inbox { lease, .. } = self {
            // There is one at most, and it is looked for while there is none.
            let _ = lease.set(to.clone());
        }
    }
}

/// What is known of the inbox.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Calls that take it: how many were sent, and how many of them can take nothing any more.
    sent: u64,
    answered: u64,
    /// How many sessions have begun. What was sent before the last one is settled with that, whenever its answer comes.
    sessions: u64,
    /// Of the supervisor's, those that give it back: how many were sent and not answered. They ask for no session, so a new one
    /// does not outdo them.
    returns: u64,
    /// How many jobs were handed over so far.
    numbers: u64,
    handed: Option<Handed>,
    /// The lease that was last found by looking for it: the answer that brings it may be still to come.
    found: Option<Lease>,
}

/// The job that was handed over, until its lease is known.
#[derive(Debug)]
pub(super) struct Handed {
    number: u64,
    payload: Vec<u8>,
    pub(super) phase: Phase,
}

/// How far it is.
#[derive(Debug)]
pub(super) enum Phase {
    /// It is to be started.
    Waiting,
    /// Its body runs.
    Running(Running),
    /// Its body has ended, or was given up; how it is to be settled, once that is decided.
    Ending { job: Arc<Job>, end: Option<End> },
}

impl Inbox {
    pub(super) fn is_empty(&self) -> bool {
        self.handed.is_none()
    }

    pub(super) fn calm(&self) -> Option<u64> {
        let calm = self.sent == self.answered && self.returns == 0 && self.handed.is_none();
        calm.then_some(self.sent)
    }

    /// A call that takes it is about to be sent: by the loop that fetches, or by the supervisor where that does not come to it. Says in
    /// which session.
    pub(super) fn sent(&mut self) -> u64 {
        self.sent += 1;
        self.sessions
    }

    /// The same on the connection that waits: not while a job is here, for which the loop that fetches sends one, and which this one
    /// would take from it.
    pub(super) fn sent_beside(&mut self) -> Option<u64> {
        self.is_empty().then(|| self.sent())
    }

    pub(super) fn answered(&mut self, session: u64) {
        if session == self.sessions {
            self.answered += 1;
        }
    }

    /// A session begins: what was sent under an older one takes nothing any more, and the inbox is empty, so nothing starts from it
    /// that has not.
    pub(super) fn begin(&mut self) {
        self.sessions += 1;
        self.answered = self.sent;
        self.found = None;
        if !self.has_started() {
            self.handed = None;
        }
    }

    /// The number of what was handed over.
    pub(super) fn number(&self) -> Option<u64> {
        self.handed.as_ref().map(|handed| handed.number)
    }

    pub(super) fn hand(&mut self, payload: Vec<u8>, calm: u64) {
        if self.calm() == Some(calm) {
            self.numbers += 1;
            self.handed = Some(Handed { number: self.numbers, payload, phase: Phase::Waiting });
        }
    }

    pub(super) fn waiting(&self) -> Option<(u64, Vec<u8>)> {
        let handed = self.handed.as_ref()?;
        matches!(handed.phase, Phase::Waiting).then(|| (handed.number, handed.payload.clone()))
    }

    /// That of this job, if it is still here.
    fn of(&mut self, job: &Job) -> Option<&mut Handed> {
        self.handed.as_mut().filter(|handed| job.hold.is_of(handed))
    }

    pub(super) fn start(&mut self, running: Running) -> bool {
        match self.of(&running.job) {
            Some(Handed { phase: phase @ Phase::Waiting, .. }) => {
                *phase = Phase::Running(running);
                true
            }
            _ => false,
        }
    }

    /// The attempt ends, if it has not; gives what ran.
    pub(super) fn end(&mut self, job: &Job) -> Option<Running> {
        let Handed { phase, .. } = self.of(job)?;
        let Phase::Running(running) = phase else { return None };
        let job = Arc::clone(&running.job);
        match std::mem::replace(phase, Phase::Ending { job, end: None }) {
            Phase::Running(running) => Some(running),
            Phase::Waiting | Phase::Ending { .. } => None,
        }
    }

    pub(super) fn ended(&mut self, job: &Job, how: End) {
        if let Some(Handed { phase: Phase::Ending { end, .. }, .. }) = self.of(job) {
            *end = Some(how);
        }
    }

    pub(super) fn running(&self) -> Option<&Running> {
        match &self.handed.as_ref()?.phase {
            Phase::Running(running) => Some(running),
            Phase::Waiting | Phase::Ending { .. } => None,
        }
    }

    /// The number of what was handed over, if it has started.
    pub(super) fn lacking(&self) -> Option<u64> {
        self.number().filter(|_| self.has_started())
    }

    fn has_started(&self) -> bool {
        self.handed.as_ref().is_some_and(|handed| !matches!(handed.phase, Phase::Waiting))
    }

    pub(super) fn forget_unless_started(&mut self, number: u64) -> bool {
        if self.handed.as_ref().is_none_or(|handed| handed.number != number) {
            return false;
        }
        let started = self.has_started();
        if !started {
            self.handed = None;
        }
        started
    }

    /// The inbox is about to be given back, if it may be: nothing starts from it any more.
    pub(super) fn give_back(&mut self) -> bool {
        if self.has_started() {
            return false;
        }
        self.handed = None;
        // A wait that is under way is not in the calm in which it was sent.
        self.sent += 1;
        self.answered += 1;
        self.returns += 1;
        true
    }

    pub(super) fn given_back(&mut self) {
        self.returns -= 1;
    }

    /// It was found by looking for it.
    pub(super) fn was_found(&mut self, lease: Lease) {
        self.found = Some(lease);
    }

    pub(super) fn is_found(&self, lease: &Lease) -> bool {
        self.found.as_ref() == Some(lease)
    }

    /// Where the job that was handed over is among these; of equal ones the first.
    pub(super) fn find(&self, jobs: &[(Lease, Vec<u8>)]) -> Option<usize> {
        let handed = self.handed.as_ref()?;
        jobs.iter().position(|(_, payload)| *payload == handed.payload)
    }

    pub(super) fn take(&mut self) -> Option<Handed> {
        self.handed.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handed(inbox: &mut Inbox, payload: &str) -> Option<u64> {
        let calm = inbox.calm()?;
        inbox.hand(payload.into(), calm);
        inbox.waiting().map(|(number, _)| number)
    }

    #[test]
    fn nothing_starts_from_an_inbox_that_a_call_may_have_taken() {
        let mut inbox = Inbox::default();
        let before = inbox.calm().expect("nothing was sent");
        // One that is sent after the wait.
        let session = inbox.sent();
        assert_eq!(inbox.calm(), None);
        inbox.hand("a".into(), before);
        assert!(inbox.is_empty());
        // It may have taken what the wait brings, though it is answered by now.
        inbox.answered(session);
        inbox.hand("a".into(), before);
        assert!(inbox.is_empty() && inbox.calm().is_some());
        // One that was under way when the wait was sent, and whose connection ended.
        let session = inbox.sent();
        assert_eq!(handed(&mut inbox, "b"), None);
        inbox.begin();
        // Its answer comes all the same, or not.
        inbox.answered(session);
        assert_eq!(handed(&mut inbox, "b"), Some(1));
        assert_eq!(inbox.calm(), None, "one at a time");
    }

    #[test]
    fn what_was_handed_over_is_not_taken_on_the_connection_that_waits() {
        let mut inbox = Inbox::default();
        assert_eq!(inbox.sent_beside(), Some(0));
        inbox.answered(0);
        assert_eq!(handed(&mut inbox, "a"), Some(1));
        assert_eq!(inbox.sent_beside(), None);
        let jobs = [(Lease::Token(1), b"a".to_vec())];
        inbox.sent();
        assert!(inbox.find(&jobs).is_some() && inbox.take().is_some());
        assert_eq!(inbox.sent_beside(), Some(0));
    }

    #[test]
    fn what_has_not_started_is_forgotten_when_others_find_it() {
        let mut inbox = Inbox::default();
        for forgets in [
            |inbox: &mut Inbox| inbox.begin(),
            |inbox: &mut Inbox| {
                assert!(inbox.give_back());
                inbox.begin();
                assert_eq!(inbox.calm(), None, "it may be under way still, whatever the session");
                inbox.given_back();
            },
            |inbox: &mut Inbox| {
                let number = inbox.number().unwrap_or_default();
                assert!(!inbox.forget_unless_started(number));
            },
        ] {
            let number = handed(&mut inbox, "a").expect("it may start");
            assert!(!inbox.forget_unless_started(number + 1), "another one");
            assert_eq!(inbox.number(), Some(number));
            forgets(&mut inbox);
            assert!(inbox.is_empty());
        }
    }

    #[test]
    fn it_is_known_by_its_bytes_and_equal_ones_are_others() {
        let mut inbox = Inbox::default();
        let jobs: Vec<_> = (0..).map(Lease::Token).zip(["x", "a", "a"].map(Vec::from)).collect();
        assert_eq!(inbox.find(&jobs), None);
        handed(&mut inbox, "a");
        assert_eq!(inbox.find(&jobs), Some(1));
        assert_eq!(inbox.find(&jobs[..1]), None);
    }
}
