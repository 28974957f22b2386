//! Which job types a worker knows.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::{NO_KEYS, QueueSetting};
use crate::context::{Needs, States};
use crate::encryption::Encrypted;
use crate::error::Problems;
use crate::job::{Definition, Job, Registration, missing_states};
use crate::limit::DeclaredLimits;

/// The job types that a worker runs: by default every `#[hworker::job]` that the program links.
///
/// ```
/// #[hworker::job]
/// async fn ping() {}
///
/// let registry = hworker::Registry::new().with::<ping>();
/// assert_eq!(registry.names().collect::<Vec<_>>(), ["ping"]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Registry {
    definitions: Vec<&'static Definition>,
}

impl Registry {
    /// A registry that knows no job type.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Every job type that the program links.
    #[must_use]
    pub fn collect() -> Self {
        let mut definitions: Vec<_> = inventory::iter::<Registration>
            .into_iter()
            .map(|registration| registration.0)
            .collect();
        definitions.sort_by_key(|definition| {
            (definition.name, definition.place.file, definition.place.line)
        });
        Self { definitions }
    }

    /// Adds a job type.
    #[must_use]
    pub fn with<J: Job>(mut self) -> Self {
        self.add(J::DEFINITION);
        self
    }

    /// Adds a job type unless the very same is there already.
    pub(crate) fn add(&mut self, definition: &'static Definition) {
        // By what they say: a constant has no address of its own, and another crate may refer to a copy.
        let same =
            |known: &&Definition| known.name == definition.name && known.place == definition.place;
        if !self.definitions.iter().any(same) {
            self.definitions.push(definition);
        }
    }

    /// The names of the job types, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.definitions.iter().map(|definition| definition.name)
    }

    /// The queues that the job types name.
    pub(crate) fn queues(&self) -> BTreeSet<&'static str> {
        self.definitions.iter().map(|definition| definition.queue).collect()
    }

    /// Job types by name and alias, for dispatch: sorted, since to compare a name with a few costs less than to hash it.
    pub(crate) fn by_name(&self) -> BTreeMap<&'static str, &'static Definition> {
        let names = |definition: &&'static Definition| {
            let definition = *definition;
            std::iter::once(definition.name)
                .chain(definition.aliases.iter().copied())
                .map(move |name| (name, definition))
        };
        self.definitions.iter().flat_map(names).collect()
    }

    /// Finds everything that is wrong before a worker starts.
    pub(crate) fn verify(&self, states: &States, queues: &[QueueSetting], problems: &mut Problems) {
        let mut wrong = |problem: String| problems.0.push(problem);
        if self.definitions.is_empty() {
            wrong(
                "no job is registered: put `#[hworker::job]` on a function, and if it is in another crate, link that \
                 crate with `use its_name as _;` in the worker's main file"
                    .into(),
            );
        }

        let mut named: BTreeMap<&str, Vec<&Definition>> = BTreeMap::new();
        for definition in &self.definitions {
            for name in std::iter::once(&definition.name).chain(definition.aliases) {
                named.entry(name).or_default().push(definition);
            }
        }
        for (name, definitions) in named.iter().filter(|(_, definitions)| definitions.len() > 1) {
            let places: Vec<_> =
                definitions.iter().map(|d| format!("{} ({})", d.place, d.place.module)).collect();
            wrong(format!(
                "{} jobs are called `{name}`: {}; give one of them another name with `name = \"...\"`",
                definitions.len(),
                places.join(", ")
            ));
        }

        for definition in &self.definitions {
            let mut needs = Needs::default();
            (definition.needs)(&mut needs);
            for missing in missing_states(&needs, states) {
                wrong(format!(
                    "job `{}` ({}) takes `State<{missing}>`, which the worker was not given: build it with \
                     `hworker::Worker::builder().state(..)`",
                    definition.name, definition.place
                ));
            }
        }

        let known = self.queues();
        let needs_none = |queue: &QueueSetting| queue.extra || queue.excluded || queue.is_every();
        let unnamed = |queue: &&QueueSetting| !needs_none(queue) && !known.contains(&*queue.name);
        for QueueSetting { name: queue, .. } in queues.iter().filter(unnamed) {
            wrong(format!(
                "no registered job names the queue `{queue}`; the queues that are named: {}; for jobs that are enqueued \
                 with `.queue(\"{queue}\")` write `+{queue}`, or `.extra_queue(\"{queue}\")`",
                listed(&known)
            ));
        }
    }

    /// The job types.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = &'static Definition> {
        self.definitions.iter().copied()
    }

    /// The limits of all job types, and what does not fit together among them.
    pub(crate) fn limits(&self, problems: &mut Problems) -> DeclaredLimits {
        let types = self.definitions.iter().map(|definition| (definition.name, definition.limits));
        DeclaredLimits::of(types, &mut problems.0)
    }

    /// Finds job types whose arguments nobody could read here.
    pub(crate) fn verify_keys(&self, any: bool, problems: &mut Problems) {
        let encrypted =
            self.definitions.iter().filter(|definition| definition.encrypted != Encrypted::No);
        for definition in encrypted.filter(|_| !any) {
            problems.0.push(format!(
                "the arguments of job `{}` ({}) are encrypted, but {NO_KEYS}",
                definition.name, definition.place
            ));
        }
    }

    /// Finds queues that are to be spread and that nobody uses: most likely another was meant.
    pub(crate) fn verify_shards<'a>(
        &self,
        spread: impl Iterator<Item = &'a str>,
        queues: &[QueueSetting],
        problems: &mut Problems,
    ) {
        let known = self.queues();
        let extra = |name: &str| queues.iter().any(|queue| queue.extra && queue.name == name);
        for queue in spread.filter(|name| !known.contains(name) && !extra(name)) {
            problems.0.push(format!(
                "the queue `{queue}` has shards, but no registered job names it; the queues that are named: {}; where that \
                 is meant so, write `+{queue}` for its shards",
                listed(&known)
            ));
        }
    }
}

fn listed(queues: &BTreeSet<&str>) -> String {
    queues.iter().copied().collect::<Vec<_>>().join(", ")
}
