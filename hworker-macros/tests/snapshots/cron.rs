async fn tick() {}
/// The arguments of the job [`tick`](fn@tick), and how to enqueue it.
#[derive(
    ::hworker::__private::serde::Serialize,
    ::hworker::__private::serde::Deserialize
)]
#[serde(crate = ":: hworker :: __private :: serde")]
struct tick {}
#[automatically_derived]
impl tick {
    /// The name of the job on the wire.
    const NAME: &'static ::core::primitive::str = "tick";
    /// The job with these arguments, not enqueued yet: for all that can differ from call to call.
    fn with() -> ::hworker::__private::Enqueue<Self> {
        ::hworker::__private::Enqueue::new(Self {})
    }
    /// Enqueues the job with these arguments, to run as soon as a worker has a free slot.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    fn enqueue() -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::JobId,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with().enqueue()
    }
    /// Enqueues the job with these arguments, to run after `delay`.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    fn enqueue_in(
        delay: ::core::time::Duration,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::JobId,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with().delay(delay).enqueue()
    }
    /// Enqueues the job with these arguments, to run at `time`.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    fn enqueue_at(
        time: ::std::time::SystemTime,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::JobId,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with().at(time).enqueue()
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
impl ::hworker::__private::Job for tick {
    type Output = ();
    type Failure = ();
    type Handle = ::hworker::__private::JobId;
    const NAME: &'static ::core::primitive::str = Self::NAME;
    const DEFINITION: &'static ::hworker::__private::Definition = &::hworker::__private::Definition {
        name: Self::NAME,
        aliases: &[],
        version: 1u32,
        upgrade: ::core::option::Option::None,
        queue: ::hworker::__private::DEFAULT_QUEUE,
        priority: ::hworker::__private::Priority::Normal,
        limits: &[],
        unique: ::core::option::Option::None,
        crons: &[
            ::hworker::__private::DeclaredCron {
                name: "tick",
                timing: || ::hworker::__private::cron::Timing {
                    cron: ::core::option::Option::Some(
                        ::std::string::String::from("0 9 * * MON-FRI"),
                    ),
                    timezone: ::core::option::Option::Some(
                        ::std::string::String::from("Europe/Berlin"),
                    ),
                    ..::core::default::Default::default()
                },
                args: || ::hworker::__private::cron::args(Self::with()),
            },
            ::hworker::__private::DeclaredCron {
                name: "often",
                timing: || ::hworker::__private::cron::Timing {
                    every: ::core::option::Option::Some(30000u64),
                    timezone: ::core::option::Option::Some(
                        ::std::string::String::from("Europe/Berlin"),
                    ),
                    count: ::core::option::Option::Some(3u32),
                    overlap: ::hworker::__private::cron::Overlap::Skip,
                    ..::core::default::Default::default()
                },
                args: || ::hworker::__private::cron::args(Self::with()),
            },
        ],
        place: ::hworker::__private::Place {
            module: ::core::module_path!(),
            file: ::core::file!(),
            line: ::core::line!(),
        },
        policy: ::hworker::__private::Policy {
            ..::hworker::__private::Policy::DEFAULT
        },
        encrypted: ::hworker::__private::Encrypted::No,
        redact: &[],
        parameters: "[]",
        schema: ::hworker::__private::schema!(
            "{\"type\":\"object\",\"properties\":{},\"required\":[]}", [], []
        ),
        keep_ms: ::core::option::Option::None,
        blocking: false,
        isolate: ::core::option::Option::None,
        on_failed: ::core::option::Option::None,
        needs: |needs| {},
        decode: ::hworker::__private::decode::<Self>,
        limit_values: ::hworker::__private::limit_values::<Self>,
        unique_key: ::hworker::__private::unique_key::<Self>,
        start: |invocation| {
            let args = invocation.args::<tick>()?;
            ::core::result::Result::Ok(
                ::hworker::__private::Body::from_future(async move {
                    use ::hworker::__private::{
                        IsNested as _, IsOutcome as _, IsResult as _, IsValue as _,
                    };
                    let returned = tick().await;
                    (&&&&::hworker::__private::tag(&returned)).form().returned(returned)
                }),
            )
        },
    };
}
const _: () = {
    ::hworker::__private::inventory::submit! {
        ::hworker::__private::Registration::of:: < tick > ()
    }
};
