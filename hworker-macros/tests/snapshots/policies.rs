async fn send(to: String) {}
/// The arguments of the job [`send`](fn@send), and how to enqueue it.
#[derive(
    crate::background::__private::serde::Serialize,
    crate::background::__private::serde::Deserialize
)]
#[serde(crate = "crate :: background :: __private :: serde")]
struct Send {
    /// The argument `to`.
    #[serde(
        bound(
            serialize = "for < 'read > String : crate :: background :: __private :: Argument < 'read >",
            deserialize = "for < 'read > String : crate :: background :: __private :: Argument < 'read >"
        )
    )]
    to: String,
}
#[automatically_derived]
impl Send {
    /// The name of the job on the wire.
    const NAME: &'static ::core::primitive::str = "mail:send";
    /// The job with these arguments, not enqueued yet: for all that can differ from call to call.
    fn with(to: String) -> crate::background::__private::Enqueue<Self> {
        crate::background::__private::Enqueue::new(Self { to: to })
    }
    /// Enqueues the job with these arguments, to run as soon as a worker has a free slot.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    fn enqueue(
        to: String,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            crate::background::__private::JobId,
            crate::background::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(to).enqueue()
    }
    /// Enqueues the job with these arguments, to run after `delay`.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    fn enqueue_in(
        delay: ::core::time::Duration,
        to: String,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            crate::background::__private::JobId,
            crate::background::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(to).delay(delay).enqueue()
    }
    /// Enqueues the job with these arguments, to run at `time`.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    fn enqueue_at(
        time: ::std::time::SystemTime,
        to: String,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            crate::background::__private::JobId,
            crate::background::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(to).at(time).enqueue()
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
            crate::background::__private::Error,
        >,
    > + ::core::marker::Send
    where
        I: ::core::iter::IntoIterator<
            Item = crate::background::__private::Enqueue<Self>,
        >,
        I::IntoIter: ::core::marker::Send,
    {
        crate::background::__private::enqueue_many(jobs)
    }
}
#[automatically_derived]
impl crate::background::__private::Job for Send {
    type Output = ();
    type Failure = ();
    type Handle = crate::background::__private::JobId;
    const NAME: &'static ::core::primitive::str = Self::NAME;
    const DEFINITION: &'static crate::background::__private::Definition = &crate::background::__private::Definition {
        name: Self::NAME,
        aliases: &["send", "mail"],
        version: 2u32,
        upgrade: ::core::option::Option::Some(older::upgrade),
        queue: "mail",
        priority: crate::background::__private::Priority::Normal,
        limits: &[],
        unique: ::core::option::Option::None,
        crons: &[],
        place: crate::background::__private::Place {
            module: ::core::module_path!(),
            file: ::core::file!(),
            line: ::core::line!(),
        },
        policy: crate::background::__private::Policy {
            timeout_ms: 5400000u64,
            max_attempts: 3u32,
            backoff: crate::background::__private::Backoff::Exponential {
                first_ms: 1000u64,
                cap_ms: 60000u64,
            },
            on_panic: crate::background::__private::OnFault::Fail,
            on_error: crate::background::__private::OnError::Decide(policy::decide),
            on_timeout: crate::background::__private::OnFault::Fail,
            on_crash: crate::background::__private::OnFault::Fail,
            ..crate::background::__private::Policy::DEFAULT
        },
        encrypted: crate::background::__private::encryption::YES,
        redact: &[],
        parameters: "[{\"name\":\"to\",\"type\":\"String\"}]",
        schema: crate::background::__private::schema!(
            "{\"type\":\"object\",\"properties\":{\"to\":{\"type\":\"string\"}},\"required\":[\"to\"]}",
            ["to" : String,], []
        ),
        keep_ms: ::core::option::Option::None,
        blocking: false,
        isolate: ::core::option::Option::None,
        on_failed: ::core::option::Option::Some(|failed, client| {
            crate::background::__private::envelope(jobs::alert::with(failed), client)
        }),
        needs: |needs| {},
        decode: crate::background::__private::decode::<Self>,
        limit_values: crate::background::__private::limit_values::<Self>,
        unique_key: crate::background::__private::unique_key::<Self>,
        start: |invocation| {
            let args = invocation.args::<Send>()?;
            ::core::result::Result::Ok(
                crate::background::__private::Body::from_future(async move {
                    use crate::background::__private::{
                        IsNested as _, IsOutcome as _, IsResult as _, IsValue as _,
                    };
                    let returned = send(args.to).await;
                    (&&&&crate::background::__private::tag(&returned))
                        .form()
                        .returned(returned)
                }),
            )
        },
    };
}
const _: () = {
    crate::background::__private::inventory::submit! {
        crate ::background::__private::Registration::of:: < Send > ()
    }
};
