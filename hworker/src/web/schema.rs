//! What requests carry as the OpenAPI document describes it: names, and numbers, whose bounds are checked where they are read.

#![allow(dead_code, reason = "the document alone is made of the names")]

use serde::de::{Deserialize, Deserializer, Error};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// A whole number from `LEAST` to `MOST`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number<const LEAST: u64, const MOST: u64>(pub(crate) u64);

/// The largest number that JavaScript, and other programs that have only floating-point numbers, write exactly.
const SAFE: u64 = (1 << 53) - 1;

/// A time or a span of it, in milliseconds; or a count.
pub(crate) type Whole = Number<0, SAFE>;

/// One that is not 0.
pub(crate) type Positive = Number<1, SAFE>;

/// How many there are on a page.
pub(crate) type OnPage = Number<1, 1000>;

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Number<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(from)?;
        if (LEAST..=MOST).contains(&number) {
            return Ok(Self(number));
        }
        Err(D::Error::custom(format_args!("{number} is not from {LEAST} to {MOST}")))
    }
}

impl<const LEAST: u64, const MOST: u64> PartialSchema for Number<LEAST, MOST> {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(LEAST))
            .maximum(Some(MOST))
            .into()
    }
}

impl<const LEAST: u64, const MOST: u64> ToSchema for Number<LEAST, MOST> {}

/// The name of a queue, with the tag of the workers that it is for behind an `@` if it has one.
#[derive(ToSchema)]
#[schema(pattern = "^[A-Za-z0-9._-]{1,100}(@[A-Za-z0-9._-]{1,100})?$")]
pub(crate) struct QueueName(String);

/// An id that a caller gives a job. Those that begin with `cron:` belong to cron entries.
#[derive(ToSchema)]
#[schema(pattern = r"^[^\x00-\x1f\x7f-\x9f#]{1,200}$")]
pub(crate) struct OwnId(String);

/// The name of a cron entry, of at most 150 bytes.
#[derive(ToSchema)]
#[schema(pattern = r"^[^\x00-\x1f\x7f-\x9f#]{1,150}$")]
pub(crate) struct EntryName(String);

/// The name of a limit or a job type, with `@` behind it where it is of all keys, or `=` and a key; `*` is the limit of the whole queue.
#[derive(ToSchema)]
#[schema(pattern = "^([*]|[A-Za-z0-9._:-]{1,200}(@|=.*)?)$")]
pub(crate) struct LimitName(String);

/// The digest of a broken payload, as a list gives it.
#[derive(ToSchema)]
#[schema(pattern = "^[0-9a-f]{16}$")]
pub(crate) struct Digest(String);

/// The name of a job type, or one that it had before.
#[derive(ToSchema)]
#[schema(min_length = 1)]
pub(crate) struct TypeName(String);

/// The id of a job.
#[derive(ToSchema)]
#[schema(min_length = 1)]
pub(crate) struct KnownId(String);

/// The id of a worker, as a list gives it.
#[derive(ToSchema)]
#[schema(min_length = 1)]
pub(crate) struct WorkerId(String);
