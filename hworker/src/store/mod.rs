//! Typed operations on what is in Redis, one function per script: the only module that knows keys, Lua and the
//! redis crate. What to do when a call fails is decided by the callers.

mod bounds;
mod calls;
mod lua;
mod net;
mod queue;
mod reply;
mod script;

pub(crate) use bounds::*;
pub(crate) use calls::*;
use lua::Script;
pub(crate) use net::*;
pub(crate) use queue::Queue;
