//! What a job takes besides its arguments: its context and the worker's states.

use std::any::{TypeId, type_name};
use std::ops::Deref;

use super::Context;
use crate::error::BoxError;

/// What the parameters of jobs need from the worker, collected when it starts.
#[derive(Debug, Default)]
pub struct Needs {
    pub(crate) states: Vec<(TypeId, String)>,
}

impl Needs {
    /// The worker must have been given a value of type `T`.
    pub fn state<T: 'static>(&mut self) {
        let need = (TypeId::of::<T>(), shown_type::<T>());
        if !self.states.contains(&need) {
            self.states.push(need);
        }
    }
}

/// A parameter of a job that is not an argument: [`State`](crate::State), [`Context`], or a type of the user's under `#[inject]`.
///
/// ```
/// use hworker::{BoxError, Context, Inject, Needs, State};
///
/// #[derive(Clone)]
/// struct Pool;
/// struct Connection(Pool);
///
/// impl Inject for Connection {
///     fn needs(needs: &mut Needs) {
///         State::<Pool>::needs(needs);
///     }
///     fn inject(context: &Context) -> Result<Self, BoxError> {
///         let State(pool) = State::<Pool>::inject(context)?;
///         Ok(Connection(pool))
///     }
/// }
///
/// #[hworker::job]
/// async fn tidy(#[inject] connection: Connection) {
///     let Connection(_pool) = connection;
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be given to a job",
    label = "`hworker::Inject` is not implemented for this type",
    note = "arguments need no `#[inject]`; take a pool or client as `State<T>`",
    note = "a parameter whose type is called `State` or `Context` is taken for hworker's"
)]
pub trait Inject: Sized {
    /// Names what the worker must have been given, so that a missing piece is an error when the worker starts.
    fn needs(needs: &mut Needs) {
        let _ = needs;
    }

    /// Makes the value for one attempt.
    ///
    /// # Errors
    /// Any error; the attempt then ends with it, as if the body had returned it.
    fn inject(context: &Context) -> Result<Self, BoxError>;
}

impl Inject for Context {
    fn inject(context: &Context) -> Result<Self, BoxError> {
        Ok(context.clone())
    }
}

/// A value that the worker was given once and every job may take: a pool, a client, settings.
///
/// Each job gets a clone, so put what is not cheap to clone into an `Arc`. The worker gets it from
/// [`WorkerBuilder::state`](crate::WorkerBuilder::state), and refuses to start where one is missing.
///
/// ```
/// #[derive(Clone)]
/// struct Mailer { from: String }
///
/// #[hworker::job]
/// async fn greet(to: String, mailer: hworker::State<Mailer>) {
///     println!("{} -> {to}", mailer.from);
/// }
/// ```
#[derive(Debug, Clone)]
pub struct State<T>(pub T);

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone + Send + Sync + 'static> Inject for State<T> {
    fn needs(needs: &mut Needs) {
        needs.state::<T>();
    }

    fn inject(context: &Context) -> Result<Self, BoxError> {
        let found = context.states().get::<T>();
        found.map(Self).ok_or_else(|| {
            let name = shown_type::<T>();
            format!("the worker has no state of type {name}: give it one with `.state(..)`").into()
        })
    }
}

/// The name of a type as a program can write it: those of this crate without the modules that they are in, which are private.
pub(crate) fn shown_type<T: ?Sized>() -> String {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let parts = type_name::<T>().split_inclusive(|c| !is_path(c));
    let shown = parts.map(|part| match part.strip_prefix("hworker::") {
        Some(inside) if !inside.starts_with("embedded::") => {
            format!("hworker::{}", inside.rsplit("::").next().unwrap_or(inside))
        }
        _ => part.to_owned(),
    });
    shown.collect()
}
