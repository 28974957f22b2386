//! What is looked at when. There is never more than one look under way.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::look::{self, Detail, Overview};
use super::panel::Panel;
use super::state::State;
use crate::Context;
use crate::args::Top;
use crate::stop::Stop;

/// Looks at all queues are at least so far apart.
const SHORTEST: Duration = Duration::from_millis(100);

/// What a look gave.
pub(super) enum Looked {
    Overview(Result<Overview, Stop>),
    Detail(Detail),
}

pub(super) struct Looks<'a> {
    context: &'a Context,
    which: &'a Top,
    under_way: Option<Pin<Box<dyn Future<Output = Looked> + 'a>>>,
    is_of_all: bool,
    /// When all queues are looked at again.
    due: Instant,
}

impl<'a> Looks<'a> {
    pub(super) fn new(context: &'a Context, which: &'a Top) -> Self {
        Self { context, which, under_way: None, is_of_all: false, due: Instant::now() }
    }

    /// Has all queues looked at as soon as possible.
    pub(super) fn begin_anew(&mut self) {
        self.under_way = None;
        self.due = Instant::now();
    }

    /// Has the selected queue looked at. A look at all queues goes on, as it is followed by this.
    pub(super) fn begin_detail(&mut self, state: &State) {
        if self.under_way.is_some() && self.is_of_all {
            return;
        }
        let Some(selected) = state.selected() else { return };
        let (context, queue) = (self.context, selected.line.name.clone());
        let with_failed = state.panel == Panel::Failed;
        let look = async move { Looked::Detail(look::detail(context, queue, with_failed).await) };
        self.is_of_all = false;
        self.under_way = Some(Box::pin(look));
    }

    /// Waits for the end of the look that is under way, or that is due next.
    ///
    /// # Cancel safety
    /// Cancel safe: the look goes on with the next call.
    pub(super) async fn next(&mut self) -> Looked {
        let look = match &mut self.under_way {
            Some(look) => look,
            none => {
                sleep_until(self.due).await;
                let (context, which) = (self.context, self.which);
                self.is_of_all = true;
                none.insert(Box::pin(async move {
                    Looked::Overview(look::overview(context, &which.names).await)
                }))
            }
        };
        let looked = look.await;
        self.under_way = None;
        if let Looked::Overview(_) = looked {
            self.due = Instant::now() + self.which.every.max(SHORTEST);
        }
        looked
    }
}
