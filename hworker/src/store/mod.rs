//! Typed operations on what is in Redis, one function per script: the only module that knows keys, Lua and the
//! redis crate. What to do when a call fails is decided by the callers.

mod calls;
mod limits;
mod lua;
mod net;
mod queue;
mod reply;
mod script;

pub(crate) use calls::*;
pub(crate) use limits::*;
use lua::Script;
pub(crate) use net::*;
pub(crate) use queue::Queue;
