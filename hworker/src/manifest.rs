//! The manifest: what workers write down of their job types, for tools that do not link them, and what a test compares with a file.

mod changes;
#[cfg(any(feature = "cli", feature = "web"))]
mod check;
mod file;
mod rust_types;

use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::encryption::Encrypted;
use crate::error::Error;
use crate::fnv;
use crate::job::Definition;
use crate::store::{Fault, MetaKey, server_time};

pub use changes::TypeChange;
#[cfg(feature = "web")]
pub(crate) use check::HIDDEN;
pub use file::check_manifest;

/// A larger entry is none: anybody may have written it.
const ENTRY_BYTES: u64 = 64 * 1024;

/// More types are not read.
const TYPES: usize = 2000;

/// An entry that no worker wrote for so long is gone, in ms.
const UNSEEN_FOR: u64 = 30 * 86_400_000;

/// A job type as the workers that know it describe it; [`Client::job_types`](crate::Client::job_types) gives them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
#[allow(clippy::struct_excessive_bools, reason = "each is a field of the manifest")]
pub struct JobType {
    /// Its name on the wire.
    pub name: String,
    /// Older names whose jobs it also runs.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The version of its arguments.
    #[serde(default = "first")]
    pub version: u32,
    /// Whether it upgrades arguments of older versions. Else they are read as they are.
    #[serde(default)]
    pub upgrades: bool,
    /// Its arguments, without those that are flattened into them.
    #[serde(default)]
    pub parameters: Vec<Parameter>,
    /// The queue that it goes to, unless a call says otherwise.
    #[serde(default)]
    #[cfg_attr(feature = "web", schema(required = true))]
    pub queue: String,
    /// How long an attempt may run, in milliseconds.
    #[serde(default)]
    #[cfg_attr(feature = "web", schema(required = true))]
    pub timeout_ms: u64,
    /// How many attempts a job has.
    #[serde(default)]
    #[cfg_attr(feature = "web", schema(required = true))]
    pub max_attempts: u32,
    /// Whether its arguments are encrypted, so that only programs with the key can enqueue it.
    #[serde(default)]
    pub encrypted: bool,
    /// Whether it runs on a thread for blocking work.
    #[serde(default)]
    pub blocking: bool,
    /// Whether it runs in a process of its own.
    #[serde(default)]
    pub isolated: bool,
    /// The arguments that no tool shows.
    #[serde(default)]
    pub redact: Vec<String>,
    /// Where it is written, as `file:line`.
    #[serde(default)]
    pub place: String,
    /// The JSON Schema of its arguments, as JSON, of draft 2020-12.
    #[serde(default)]
    #[cfg_attr(feature = "web", schema(required = true))]
    pub schema: String,
    /// Changes with all that is above, but not with the place.
    #[serde(default)]
    #[cfg_attr(feature = "web", schema(required = true))]
    pub fingerprint: String,
    /// When a worker last wrote it, in milliseconds since 1970 by the worker's clock.
    #[serde(default)]
    #[cfg_attr(feature = "web", schema(required = true))]
    pub seen: u64,
}

/// An argument of a job type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Parameter {
    /// The name under which it is stored.
    pub name: String,
    /// Its Rust type, as it is written; nothing where the arguments are encrypted.
    #[serde(rename = "type")]
    pub ty: String,
    /// Whether it may be left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Other names under which it is read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
}

impl Parameter {
    fn all(definition: &Definition) -> Vec<Self> {
        serde_json::from_str(definition.parameters).unwrap_or_default()
    }

    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }
}

fn first() -> u32 {
    1
}

impl JobType {
    /// With all that is known of its arguments, where the entry has room for it. Of encrypted arguments no more is told than their names
    /// and JSON types: nobody can enqueue them by hand, and their types may say much in words.
    pub(crate) fn of(definition: &Definition, seen: u64) -> Self {
        let deep = Self::deep_schema(definition).map(|schema| Self::with(definition, schema, seen));
        deep.filter(|job| job.entry().len() as u64 <= ENTRY_BYTES)
            .unwrap_or_else(|| Self::with(definition, definition.schema.shallow().to_owned(), seen))
    }

    fn deep_schema(definition: &Definition) -> Option<String> {
        match definition.encrypted {
            Encrypted::No => definition.schema.deep(),
            _ => None,
        }
    }

    fn with(definition: &Definition, schema: String, seen: u64) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let mut parameters = Parameter::all(definition);
        if definition.encrypted != Encrypted::No {
            for parameter in &mut parameters {
                parameter.ty.clear();
            }
        }
        let mut this = Self {
            name: definition.name.to_owned(),
            aliases: owned(definition.aliases),
            version: definition.version,
            upgrades: definition.upgrade.is_some(),
            parameters,
            queue: definition.queue.to_owned(),
            timeout_ms: definition.policy.timeout_ms,
            max_attempts: definition.policy.max_attempts,
            encrypted: definition.encrypted != Encrypted::No,
            blocking: definition.blocking,
            isolated: definition.isolate.is_some(),
            redact: owned(definition.redact),
            place: String::new(),
            schema,
            fingerprint: String::new(),
            seen: 0,
        };
        this.fingerprint = format!("{:016x}", fnv::hash(this.entry().as_bytes()));
        this.place = definition.place.to_string();
        this.seen = seen;
        this
    }

    fn entry(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads an entry. `None` for anything else.
    fn parse(name: &[u8], entry: &[u8]) -> Option<Self> {
        let this: Self = serde_json::from_slice(entry).ok()?;
        (this.name.as_bytes() == name && crate::keys::is_name(&this.queue)).then_some(this)
    }

    /// Whether jobs of this name are of this type.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }
}

impl Client {
    /// The job types that workers have written down, by name: those of every worker of the last 30 days.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    pub async fn job_types(&self) -> Result<Vec<JobType>, Error> {
        let manifest = self.manifest().await;
        Ok(manifest.map_err(|fault| fault.into_error("read the job types"))?.0)
    }

    /// The job types in the manifest, and the names of those that no worker wrote for long.
    async fn manifest(&self) -> Result<(Vec<JobType>, Vec<String>), Fault> {
        let (meta, on) = self.meta(MetaKey::Jobs).await?;
        let now = server_time(&on).await?;
        let entries = meta.jobs(&on, TYPES, ENTRY_BYTES).await?;
        let types = entries.iter().filter_map(|(name, entry)| JobType::parse(name, entry));
        let is_known = |job: &JobType| now.saturating_sub(job.seen) < UNSEEN_FOR;
        let (mut known, unseen): (Vec<_>, Vec<_>) = types.partition(is_known);
        known.sort_by(|one, other| one.name.cmp(&other.name));
        Ok((known, unseen.into_iter().map(|job| job.name).collect()))
    }

    /// Writes job types to the manifest, and takes those out that no worker wrote for long.
    pub(crate) async fn write_manifest(&self, types: &[JobType]) -> Result<(), Fault> {
        let entries = types.iter().map(|job| (job.name.as_str(), job.entry()));
        let entries: Vec<_> =
            entries.filter(|(_, entry)| entry.len() as u64 <= ENTRY_BYTES).collect();
        let (meta, on) = self.meta(MetaKey::Jobs).await?;
        if !entries.is_empty() {
            meta.add_jobs(&on, &entries).await?;
        }
        let (_, unseen) = self.manifest().await?;
        let unseen: Vec<_> = unseen.iter().map(String::as_str).collect();
        if unseen.is_empty() { Ok(()) } else { meta.remove_jobs(&on, &unseen).await }
    }
}
