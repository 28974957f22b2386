//! What is done with a job that has `isolate` where none can have it.

use std::sync::Arc;

use super::Isolated;
use crate::context::Context;
use crate::error::Error;
use crate::job::Isolation;
use crate::worker::state::{Core, Job};

pub(crate) async fn run(core: &Core, _: &Job, _: &Context, _: Isolation) -> Isolated {
    match core.children.as_deref() {
        Some(pool) => match *pool {},
        None => Isolated::NoProcess("this system has none".to_owned()),
    }
}

pub(crate) async fn serve(_: Arc<Core>) -> Result<(), Error> {
    Ok(())
}
