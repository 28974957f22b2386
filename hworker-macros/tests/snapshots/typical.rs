/// Greets somebody.
pub async fn send_welcome(to: String, user_id: u64) -> Result<(), MailError> {
    mail(to, user_id).await
}
/// The arguments of the job [`send_welcome`](fn@send_welcome), and how to enqueue it.
#[derive(
    ::hworker::__private::serde::Serialize,
    ::hworker::__private::serde::Deserialize
)]
#[serde(crate = ":: hworker :: __private :: serde")]
pub struct send_welcome {
    /// The argument `to`.
    #[serde(
        bound(
            serialize = "for < 'read > String : :: hworker :: __private :: Argument < 'read >",
            deserialize = "for < 'read > String : :: hworker :: __private :: Argument < 'read >"
        )
    )]
    pub to: String,
    /// The argument `user_id`.
    #[serde(
        bound(
            serialize = "for < 'read > u64 : :: hworker :: __private :: Argument < 'read >",
            deserialize = "for < 'read > u64 : :: hworker :: __private :: Argument < 'read >"
        )
    )]
    pub user_id: u64,
}
#[automatically_derived]
impl send_welcome {
    /// The name of the job on the wire.
    pub const NAME: &'static ::core::primitive::str = "send_welcome";
    /// The job with these arguments, not enqueued yet: for all that can differ from call to call.
    pub fn with(to: String, user_id: u64) -> ::hworker::__private::Enqueue<Self> {
        ::hworker::__private::Enqueue::new(Self { to: to, user_id: user_id })
    }
    /// Enqueues the job with these arguments, to run as soon as a worker has a free slot.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    pub fn enqueue(
        to: String,
        user_id: u64,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::JobId,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(to, user_id).enqueue()
    }
    /// Enqueues the job with these arguments, to run after `delay`.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    pub fn enqueue_in(
        delay: ::core::time::Duration,
        to: String,
        user_id: u64,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::JobId,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(to, user_id).delay(delay).enqueue()
    }
    /// Enqueues the job with these arguments, to run at `time`.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    pub fn enqueue_at(
        time: ::std::time::SystemTime,
        to: String,
        user_id: u64,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::JobId,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(to, user_id).at(time).enqueue()
    }
    /// Enqueues all jobs of an iterator, and gives how many they are: they are taken from it while others are on their way, so a million of them
    /// need not fit into memory. `hworker::Bulk` has more to choose.
    ///
    /// # Errors
    /// `Error::Stopped` says how many are enqueued, where not all are; with every other error none is.
    pub fn enqueue_many<I>(
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
impl ::hworker::__private::Job for send_welcome {
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
        crons: &[],
        place: ::hworker::__private::Place {
            module: ::core::module_path!(),
            file: ::core::file!(),
            line: ::core::line!(),
        },
        policy: ::hworker::__private::Policy {
            timeout_ms: 120000u64,
            on_panic: ::hworker::__private::OnFault::Retry,
            ..::hworker::__private::Policy::DEFAULT
        },
        encrypted: ::hworker::__private::Encrypted::No,
        redact: &[],
        parameters: "[{\"name\":\"to\",\"type\":\"String\"},{\"name\":\"user_id\",\"type\":\"u64\"}]",
        schema: ::hworker::__private::schema!(
            "{\"type\":\"object\",\"properties\":{\"to\":{\"type\":\"string\"},\"user_id\":{\"type\":\"integer\"}},\"required\":[\"to\",\"user_id\"]}",
            ["to" : String, "user_id" : u64,], []
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
            let args = invocation.args::<send_welcome>()?;
            ::core::result::Result::Ok(
                ::hworker::__private::Body::from_future(async move {
                    use ::hworker::__private::{
                        IsNested as _, IsOutcome as _, IsResult as _, IsValue as _,
                    };
                    let returned = send_welcome(args.to, args.user_id).await;
                    (&&&&::hworker::__private::tag(&returned)).form().returned(returned)
                }),
            )
        },
    };
}
const _: () = {
    ::hworker::__private::inventory::submit! {
        ::hworker::__private::Registration::of:: < send_welcome > ()
    }
};
