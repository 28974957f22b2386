//! From what the attribute says of limits to the limits of the job: what belongs together is one limit.

use syn::ext::IdentExt;
use syn::{LitStr, Path};

use super::{AtOnce, Entry, Key, Rate, WhenFull};
use crate::args::Args;
use crate::errors::Errors;
use crate::params::Param;

/// The limits of a job.
#[derive(Default)]
pub(crate) struct Limits {
    /// In the order that the library relies on: per worker, for all, by key.
    pub(super) list: Vec<Limit>,
    /// The key, if there is a limit that has one.
    pub(super) key: Option<Key>,
}

/// One limit.
pub(super) struct Limit {
    pub(super) name: LitStr,
    pub(super) scope: Scope,
    pub(super) at_once: Option<AtOnce>,
    /// With its burst.
    pub(super) rate: Option<(Rate, u32)>,
    pub(super) when_full: WhenFull,
    pub(super) max_waiting: Option<u32>,
    pub(super) halts: bool,
}

/// Which jobs a limit counts together, in the order in which limits are listed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Worker,
    All,
    Key,
    OrderedKey,
}

impl Scope {
    fn has_key(self) -> bool {
        matches!(self, Self::Key | Self::OrderedKey)
    }
}

impl Limits {
    /// Those of a job, where `own` is its name, which is the name of a limit without one.
    pub(crate) fn new(args: &Args, params: &[Param], own: &LitStr, errors: &mut Errors) -> Self {
        let mut limits = Self::default();
        // `fair` comes last, as it adds nothing to a limit by key.
        let (fair, others): (Vec<_>, Vec<_>) =
            args.limits.iter().partition(|entry| entry.is_fair());
        for entry in others.into_iter().chain(fair) {
            let before = errors.count();
            entry.check_arguments(args, params, errors);
            limits.check_key(entry, errors);
            if entry.sound && errors.count() == before {
                limits.add(entry, own, errors);
            }
        }
        limits.list.sort_by_key(|limit| limit.scope);
        if !limits.list.iter().any(|limit| limit.scope.has_key()) {
            limits.key = None;
        }
        limits
    }

    /// A job waits in one list, that of its key, so it has one.
    fn check_key(&mut self, entry: &Entry, errors: &mut Errors) {
        let Some(key) = &entry.key else { return };
        if self.key.get_or_insert_with(|| key.clone()) != key {
            let message = "a job has one key, the same in each of its limits: this is another one";
            errors.at(entry.written("key"), message);
        }
    }

    fn add(&mut self, entry: &Entry, own: &LitStr, errors: &mut Errors) {
        let (scope, name) = (entry.scope(), entry.name.as_ref().unwrap_or(own));
        let same_jobs = |limit: &&mut Limit| {
            let same_scope = limit.scope == scope || limit.scope.has_key() && scope.has_key();
            same_scope && (limit.name.value() == name.value() || entry.is_fair())
        };
        if let Some(limit) = self.list.iter_mut().find(same_jobs) {
            return limit.join(entry, errors);
        }
        let count = |counted: fn(Scope) -> bool| {
            self.list.iter().filter(|limit| counted(limit.scope)).count()
        };
        let wrong = match scope {
            Scope::Worker if count(|scope| scope == Scope::Worker) > 0 => {
                "a job has at most one limit per worker"
            }
            Scope::Key | Scope::OrderedKey if count(Scope::has_key) > 0 => {
                "a job has at most one limit with a key: give both the same `name`, or none"
            }
            Scope::Worker => "",
            _ if count(|scope| scope != Scope::Worker) > 1 => {
                "a job has at most two limits that are not per worker"
            }
            _ => "",
        };
        if wrong.is_empty() {
            let mut limit = Limit::new(name.clone(), scope);
            limit.join(entry, errors);
            self.list.push(limit);
        } else {
            errors.at(&entry.word, wrong);
        }
    }
}

impl Limit {
    fn new(name: LitStr, scope: Scope) -> Self {
        let when_full = WhenFull::Wait;
        Self { name, scope, at_once: None, rate: None, when_full, max_waiting: None, halts: false }
    }

    /// Takes over what an entry of the same jobs says.
    fn join(&mut self, entry: &Entry, errors: &mut Errors) {
        let name = self.name.value();
        if let Some(rate) = entry.rate
            && self.rate.replace((rate, entry.burst)).is_some()
        {
            errors.at(entry.written("rate"), format!("the limit `{name}` has a rate already"));
        }
        let in_order = entry.ordered.then_some(AtOnce::Of(1));
        let Some(at_once) = entry.at_once.clone().or(in_order) else { return };
        if self.at_once.replace(at_once).is_some() {
            let message = format!("the limit `{name}` says already how many jobs run at once");
            match entry.written("limit") {
                Some(limit) => errors.at(limit, message),
                None => errors.at(&entry.word, message),
            }
        }
        self.scope = self.scope.max(entry.scope());
        self.when_full = entry.when_full;
        self.max_waiting = entry.max_waiting;
        self.halts = entry.given("after_failure").is_some();
    }
}

impl Entry {
    fn is_fair(&self) -> bool {
        self.word == "fair"
    }

    fn scope(&self) -> Scope {
        match (&self.key, self.per_worker, self.ordered) {
            (_, true, _) => Scope::Worker,
            (None, ..) => Scope::All,
            (Some(_), _, false) => Scope::Key,
            (Some(_), _, true) => Scope::OrderedKey,
        }
    }

    /// Whether the parameters that it names can be what they are to be.
    fn check_arguments(&self, args: &Args, params: &[Param], errors: &mut Errors) {
        self.key.iter().for_each(|key| key.check(args, params, errors));
        if let Some(AtOnce::OfArguments(path)) = &self.at_once
            && let Some(param) = named(path, params).filter(|param| param.pass.is_injected())
        {
            let name = param.name.unraw();
            errors.at(path, format!("a limit is made of arguments, and `{name}` is injected"));
        }
    }
}

impl Key {
    /// Whether the parameters that it names can be parts of a key.
    pub(crate) fn check(&self, args: &Args, params: &[Param], errors: &mut Errors) {
        for part in &self.0 {
            let Some(param) = named(part, params) else { continue };
            let name = param.name.unraw().to_string();
            if param.pass.is_injected() {
                errors.at(part, format!("a key is made of arguments, and `{name}` is injected"));
            } else if args.redact.iter().any(|redacted| redacted.value() == name) {
                let message =
                    "a key is shown to operators: an argument that is in `redact` cannot be one";
                errors.at(part, message);
            }
        }
    }
}

/// The parameter that has this name; else it is the path of a function.
pub(super) fn named<'a>(path: &Path, params: &'a [Param]) -> Option<&'a Param> {
    let name = path.get_ident()?.unraw();
    params.iter().find(|param| param.name.unraw() == name)
}
