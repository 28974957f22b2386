//! Attributes on the function, above and below `#[hworker::job]`.
#![deny(warnings)]

#[cfg(any())]
#[hworker::job]
async fn left_out_above(x: Missing) {}

#[hworker::job]
#[cfg(any())]
async fn left_out_below(x: Missing) {}

#[hworker::job]
#[cfg_attr(all(), cfg(any()))]
async fn left_out_conditionally(x: Missing) {}

#[hworker::job]
#[deprecated = "use `current`"]
pub async fn old(n: u8) {
    let _ = n;
}

#[deprecated(since = "1.0.0", note = "gone soon")]
pub struct OldArgument;

#[hworker::job]
#[allow(deprecated)]
async fn with_an_old_type(#[serde(skip)] n: Vec<Old>) {
    let _ = n;
}

#[deprecated]
#[derive(Default)]
pub struct Old;

#[hworker::job]
#[expect(unused_variables, reason = "it is")]
#[must_use]
#[inline]
#[doc(hidden)]
#[doc = "Documented."]
pub fn current(n: u8) -> u8 {
    1
}

/// Documentation and `allow` on parameters.
#[hworker::job]
async fn parameters(
    /// What to do.
    what: String,
    #[allow(unused_variables)] unused: u8,
    #[serde(rename = "else", alias = "other", default = "ten")]
    #[allow(unused_variables)]
    otherwise: u8,
    #[serde(with = "as_text")] wrapped: NotSerde,
) {
    println!("{what} {}", wrapped.0);
}

fn ten() -> u8 {
    10
}

pub struct NotSerde(u8);

mod as_text {
    use hworker::__private::serde::{Deserialize, Deserializer, Serializer};

    use super::NotSerde;

    pub fn serialize<S: Serializer>(value: &NotSerde, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u8(value.0)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<NotSerde, D::Error> {
        u8::deserialize(from).map(NotSerde)
    }
}

fn main() {
    drop(parameters::with(String::new(), 1, 2, NotSerde(3)));
    drop(current::with(1));
    #[allow(deprecated)]
    {
        drop(old::enqueue(1));
        let _ = OldArgument;
    }
}
