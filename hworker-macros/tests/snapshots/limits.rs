async fn sync(tenant: &str, plan_limit: u8) {}
/// The arguments of the job [`sync`](fn@sync), and how to enqueue it.
#[derive(
    ::hworker::__private::serde::Serialize,
    ::hworker::__private::serde::Deserialize
)]
#[serde(crate = ":: hworker :: __private :: serde")]
struct sync {
    /// The argument `tenant`.
    #[serde(
        bound(
            serialize = "for < 'read > :: std :: string :: String : :: hworker :: __private :: Argument < 'read >",
            deserialize = "for < 'read > :: std :: string :: String : :: hworker :: __private :: Argument < 'read >"
        )
    )]
    tenant: ::std::string::String,
    /// The argument `plan_limit`.
    #[serde(
        bound(
            serialize = "for < 'read > u8 : :: hworker :: __private :: Argument < 'read >",
            deserialize = "for < 'read > u8 : :: hworker :: __private :: Argument < 'read >"
        )
    )]
    plan_limit: u8,
}
#[automatically_derived]
impl sync {
    /// The name of the job on the wire.
    const NAME: &'static ::core::primitive::str = "sync";
    /// The job with these arguments, not enqueued yet: for all that can differ from call to call.
    fn with(
        tenant: impl ::core::convert::Into<::std::string::String>,
        plan_limit: u8,
    ) -> ::hworker::__private::Enqueue<Self> {
        ::hworker::__private::Enqueue::new(Self {
            tenant: ::core::convert::Into::into(tenant),
            plan_limit: plan_limit,
        })
    }
    /// Enqueues the job with these arguments, to run as soon as a worker has a free slot.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    fn enqueue(
        tenant: impl ::core::convert::Into<::std::string::String>,
        plan_limit: u8,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::JobId,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(tenant, plan_limit).enqueue()
    }
    /// Enqueues the job with these arguments, to run after `delay`.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    fn enqueue_in(
        delay: ::core::time::Duration,
        tenant: impl ::core::convert::Into<::std::string::String>,
        plan_limit: u8,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::JobId,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(tenant, plan_limit).delay(delay).enqueue()
    }
    /// Enqueues the job with these arguments, to run at `time`.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    fn enqueue_at(
        time: ::std::time::SystemTime,
        tenant: impl ::core::convert::Into<::std::string::String>,
        plan_limit: u8,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::JobId,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(tenant, plan_limit).at(time).enqueue()
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
impl ::hworker::__private::Job for sync {
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
        limits: &[
            ::hworker::__private::limit::Limit {
                name: "gpu",
                scope: ::hworker::__private::limit::Scope::Worker,
                at_once: ::hworker::__private::limit::AtOnce::Of(2u32),
                rate: ::core::option::Option::None,
                when_full: ::hworker::__private::limit::WhenFull::Wait,
                max_waiting: ::core::option::Option::None,
                halts: false,
            },
            ::hworker::__private::limit::Limit {
                name: "sync",
                scope: ::hworker::__private::limit::Scope::All,
                at_once: ::hworker::__private::limit::AtOnce::Of(50u32),
                rate: ::core::option::Option::Some(::hworker::__private::limit::Rate {
                    count: 100u32,
                    period_ms: 60000u64,
                    burst: 20u32,
                }),
                when_full: ::hworker::__private::limit::WhenFull::Wait,
                max_waiting: ::core::option::Option::None,
                halts: false,
            },
            ::hworker::__private::limit::Limit {
                name: "sync",
                scope: ::hworker::__private::limit::Scope::Key,
                at_once: ::hworker::__private::limit::AtOnce::OfArguments,
                rate: ::core::option::Option::None,
                when_full: ::hworker::__private::limit::WhenFull::KeepNewest,
                max_waiting: ::core::option::Option::Some(100u32),
                halts: false,
            },
        ],
        unique: ::core::option::Option::None,
        crons: &[],
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
        parameters: "[{\"name\":\"tenant\",\"type\":\"String\"},{\"name\":\"plan_limit\",\"type\":\"u8\"}]",
        schema: ::hworker::__private::schema!(
            "{\"type\":\"object\",\"properties\":{\"tenant\":{\"type\":\"string\"},\"plan_limit\":{\"type\":\"integer\"}},\"required\":[\"tenant\",\"plan_limit\"]}",
            ["tenant" : ::std::string::String, "plan_limit" : u8,], []
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
            let args = invocation.args::<sync>()?;
            ::core::result::Result::Ok(
                ::hworker::__private::Body::from_future(async move {
                    use ::hworker::__private::{
                        IsNested as _, IsOutcome as _, IsResult as _, IsValue as _,
                    };
                    let returned = sync(&args.tenant, args.plan_limit).await;
                    (&&&&::hworker::__private::tag(&returned)).form().returned(returned)
                }),
            )
        },
    };
    fn limit_values(&self) -> ::hworker::__private::limit::LimitValues {
        use ::hworker::__private::limit::{OfOption as _, OfValue as _};
        let job = self;
        ::hworker::__private::limit::LimitValues {
            key: ::hworker::__private::limit::key([
                (&::hworker::__private::limit::Key(&job.tenant)).part(),
                (&::hworker::__private::limit::Key(&shop::of(job))).part(),
            ]),
            limit: ::core::option::Option::Some(
                ::hworker::__private::limit::limit(
                    ::core::clone::Clone::clone(&job.plan_limit),
                ),
            ),
        }
    }
}
const _: () = {
    ::hworker::__private::inventory::submit! {
        ::hworker::__private::Registration::of:: < sync > ()
    }
};
