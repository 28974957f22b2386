//! What requests carry as the OpenAPI document describes it: names, and numbers, whose bounds are checked where they are read.

#![allow(dead_code, reason = "the document alone is made of the names")]

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
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
        struct InFull;
        impl Visitor<'_> for InFull {
            type Value = u64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
                Ok(number)
            }

            // `5.0` is a whole number in JSON Schema, and some programs write it so.
            fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
                let is_whole = number.fract() == 0.0 && (0.0..=SAFE as f64).contains(&number);
                is_whole
                    .then_some(number as u64)
                    .ok_or_else(|| E::invalid_type(Unexpected::Float(number), &self))
            }
        }
        let number = from.deserialize_u64(InFull)?;
        if (LEAST..=MOST).contains(&number) {
            return Ok(Self(number));
        }
        Err(D::Error::custom(format_args!("{number} is not from {LEAST} to {MOST}")))
    }
}

/// Reads how many of something there may be.
pub(crate) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let number = Option::<Number<1, 4_294_967_295>>::deserialize(from)?;
    Ok(number.map(|number| u32::try_from(number.0).unwrap_or(u32::MAX)))
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

/// An id that a caller gives a job, of at most 200 bytes. Those that begin with `cron:` belong to cron entries.
#[derive(ToSchema)]
#[schema(pattern = r"^(?!cron:)[^\x00-\x1f\x7f-\x9f#]{1,200}$")]
pub(crate) struct OwnId(String);

/// The name of a cron entry, of at most 150 bytes.
#[derive(ToSchema)]
#[schema(pattern = r"^[^\x00-\x1f\x7f-\x9f#]{1,150}$")]
pub(crate) struct EntryName(String);

/// The name of a limit or a job type, with `@` behind it where each worker has one, or `=` and a key; `*` is the limit of the whole queue.
#[derive(ToSchema)]
#[schema(pattern = r"^([A-Za-z0-9._:-]{1,200}(@|=[^\s\x00-\x1f\x7f-\x9f+=~#*@]{0,64})?|[*])$")]
pub(crate) struct LimitName(String);

/// The name of a limit whose jobs can be held up: of any but that of the whole queue.
#[derive(ToSchema)]
#[schema(pattern = r"^[A-Za-z0-9._:-]{1,200}(@|=[^\s\x00-\x1f\x7f-\x9f+=~#*@]{0,64})?$")]
pub(crate) struct LimitOfJobs(String);

/// How many jobs may start in a time, and how many more at once after a quiet time: `100/m`, `10/30s`, `10/s+20`.
#[derive(ToSchema)]
#[schema(
    pattern = r"^[1-9][0-9]{0,8}/(([1-9][0-9]{0,5})?m?s|([1-9][0-9]{0,3})?m|([1-9][0-9]?|[1-6][0-9]{2})?h|([12]?[1-9]|[123]0)?d)([+][0-9]{1,9})?$"
)]
pub(crate) struct RateText(String);

/// By which a job can be looked for, of at most 64 bytes.
#[derive(ToSchema)]
#[schema(pattern = r"^[^\x00-\x1f\x7f-\x9f]{1,64}$")]
pub(crate) struct Tag(String);

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

/// The id of a batch.
#[derive(ToSchema)]
#[schema(pattern = "^[0-9a-f]{32}$")]
pub(crate) struct BatchName(String);

/// The id of a worker, as a list gives it.
#[derive(ToSchema)]
#[schema(min_length = 1)]
pub(crate) struct WorkerId(String);
