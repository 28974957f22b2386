async fn send(to: String, name: Option<&str>) {}
/// The arguments of the job [`send`](fn@send), and how to enqueue it.
#[derive(
    ::hworker::__private::serde::Serialize,
    ::hworker::__private::serde::Deserialize
)]
#[serde(crate = ":: hworker :: __private :: serde")]
struct send {
    /// The argument `to`.
    #[serde(
        bound(
            serialize = "for < 'read > String : :: hworker :: __private :: Argument < 'read >",
            deserialize = "for < 'read > String : :: hworker :: __private :: Argument < 'read >"
        )
    )]
    to: String,
}
#[automatically_derived]
impl send {
    /// The name of the job on the wire.
    const NAME: &'static ::core::primitive::str = "send";
    /// The job with these arguments, not enqueued yet: for all that can differ from call to call.
    fn with(
        to: String,
        name: impl ::core::marker::Sized,
    ) -> ::hworker::__private::Enqueue<Self> {
        ::hworker::__private::Enqueue::new(Self { to: to })
    }
    /// Enqueues the job with these arguments, to run as soon as a worker has a free slot.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    fn enqueue(
        to: String,
        name: impl ::core::marker::Sized,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::JobId,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(to, name).enqueue()
    }
    /// Enqueues the job with these arguments, to run after `delay`.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    fn enqueue_in(
        delay: ::core::time::Duration,
        to: String,
        name: impl ::core::marker::Sized,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::JobId,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(to, name).delay(delay).enqueue()
    }
    /// Enqueues the job with these arguments, to run at `time`.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    fn enqueue_at(
        time: ::std::time::SystemTime,
        to: String,
        name: impl ::core::marker::Sized,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::JobId,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(to, name).at(time).enqueue()
    }
    /// Enqueues all jobs of an iterator, and gives how many they are: they are taken from it while others are on their way, so a million of them
    /// need not fit into memory. `hworker::Bulk` has more to choose.
    ///
    /// # Errors
    /// `Error::Stopped` says how many are enqueued, where not all are; with every other error none is.
    fn enqueue_many<I>(
        jobs: I,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::core::primitive::u64,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send
    where
        I: ::core::iter::IntoIterator<Item = ::hworker::__private::Enqueue<Self>>,
        I::IntoIter: ::core::marker::Send,
    {
        ::hworker::__private::enqueue_many(jobs)
    }
}
#[automatically_derived]
impl ::hworker::__private::Job for send {
    type Output = ();
    type Failure = ();
    type Handle = ::hworker::__private::JobId;
    const NAME: &'static ::core::primitive::str = Self::NAME;
    const DEFINITION: &'static ::hworker::__private::Definition = &::hworker::__private::Definition {
        name: Self::NAME,
        aliases: &[],
        version: 1,
        upgrade: ::core::option::Option::None,
        queue: "",
        priority: ::hworker::__private::Priority::Normal,
        limits: &[],
        unique: ::core::option::Option::None,
        crons: &[],
        place: ::hworker::__private::Place {
            module: "",
            file: "",
            line: 0,
        },
        policy: ::hworker::__private::Policy::DEFAULT,
        encrypted: ::hworker::__private::Encrypted::No,
        redact: &[],
        parameters: "[]",
        schema: ::hworker::__private::schema!("{}", [], []),
        keep_ms: ::core::option::Option::None,
        blocking: false,
        on_failed: ::core::option::Option::None,
        needs: |_| {},
        decode: ::hworker::__private::decode::<Self>,
        limit_values: ::hworker::__private::limit_values::<Self>,
        unique_key: ::hworker::__private::unique_key::<Self>,
        start: |_| loop {},
    };
}
::core::compile_error! {
    "a job's arguments are stored, so they cannot borrow here: use an owned type such as `String`, `Vec<T>` or `T`; only a whole parameter may be `&str`, `&[T]` or `&T`"
}
