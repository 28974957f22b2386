//! Names of arguments, functions and items that generated code uses itself.
#![deny(warnings)]
#![allow(clippy::too_many_arguments, clippy::self_named_constructors)]

use ::std::time::{Duration, SystemTime};

#[allow(deprecated, reason = "the names with underscores are meant")]
#[hworker::job]
async fn arguments(
    delay: u64,
    time: u64,
    client: u64,
    args: u64,
    self_: u64,
    r#type: u64,
    job: u64,
    context: u64,
    invocation: u64,
    returned: u64,
    needs: u64,
    name: &str,
    with: &[u64],
    result: u64,
    state: u64,
    injected_0: u64,
    parameter_0: u64,
    __self: u64,
    __field0: u64,
    __serializer: u64,
) -> u64 {
    let _ = (name, with, result, state, injected_0, parameter_0, __self, __field0, __serializer);
    delay + time + client + args + self_ + r#type + job + context + invocation + returned + needs
}

macro_rules! named {
    ($($name:ident)*) => { $(
        #[allow(deprecated, reason = "likewise")]
        #[hworker::job]
        async fn $name($name: u8, _context: hworker::Context) -> u8 {
            $name
        }
    )* };
}
named!(args invocation returned needs start enqueue with call job std core serde r#type _low);

/// Jobs have names beside which items of these names stand.
mod shadowing {
    #![allow(dead_code, non_camel_case_types)]
    pub struct Serialize;
    pub struct Definition;
    pub struct Registration;
    pub struct __INVENTORY;
    pub fn start() {}
    pub fn tag() {}

    #[hworker::job]
    pub async fn beside(argument: u8) -> Result<u8, String> {
        Ok(argument)
    }
}

#[rustfmt::skip]
fn main() {
    drop(arguments::enqueue_in(
        Duration::ZERO, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, "11", vec![12], 13, 14, 15, 16, 17, 18, 19,
    ));
    drop(arguments::enqueue_at(
        SystemTime::now(), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, "11", vec![12], 13, 14, 15, 16, 17, 18, 19,
    ));
    assert_eq!(r#type::NAME, "type");
    assert_eq!(_low::NAME, "_low");
    drop(shadowing::beside::enqueue(1));
}
