async fn thumbnail(path: String) -> Result<Thumb, ImageError> {
    draw(path)
}
/// The arguments of the job [`thumbnail`](fn@thumbnail), and how to enqueue it.
#[derive(
    ::hworker::__private::serde::Serialize,
    ::hworker::__private::serde::Deserialize
)]
#[serde(crate = ":: hworker :: __private :: serde")]
struct thumbnail {
    /// The argument `path`.
    #[serde(
        bound(
            serialize = "for < 'read > String : :: hworker :: __private :: Argument < 'read >",
            deserialize = "for < 'read > String : :: hworker :: __private :: Argument < 'read >"
        )
    )]
    path: String,
}
#[automatically_derived]
impl thumbnail {
    /// The name of the job on the wire.
    const NAME: &'static ::core::primitive::str = "thumbnail";
    /// The job with these arguments, not enqueued yet: for all that can differ from call to call.
    fn with(path: String) -> ::hworker::__private::Enqueue<Self> {
        ::hworker::__private::Enqueue::new(Self { path: path })
    }
    /// Enqueues the job with these arguments, to run as soon as a worker has a free slot.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    fn enqueue(
        path: String,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::Handle<Self>,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(path).enqueue()
    }
    /// Enqueues the job with these arguments, to run after `delay`.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    fn enqueue_in(
        delay: ::core::time::Duration,
        path: String,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::Handle<Self>,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(path).delay(delay).enqueue()
    }
    /// Enqueues the job with these arguments, to run at `time`.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    fn enqueue_at(
        time: ::std::time::SystemTime,
        path: String,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::Handle<Self>,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(path).at(time).enqueue()
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
impl ::hworker::__private::Job for thumbnail {
    type Output = <Result<Thumb, ImageError> as ::hworker::__private::Returns>::Value;
    type Failure = <Result<Thumb, ImageError> as ::hworker::__private::Returns>::Error;
    type Handle = ::hworker::__private::Handle<Self>;
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
            ..::hworker::__private::Policy::DEFAULT
        },
        encrypted: ::hworker::__private::Encrypted::No,
        redact: &[],
        parameters: "[{\"name\":\"path\",\"type\":\"String\"}]",
        schema: ::hworker::__private::schema!(
            "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"}},\"required\":[\"path\"]}",
            ["path" : String,], []
        ),
        keep_ms: ::core::option::Option::Some(3600000u64),
        blocking: false,
        isolate: ::core::option::Option::None,
        on_failed: ::core::option::Option::None,
        needs: |needs| {},
        decode: ::hworker::__private::decode::<Self>,
        limit_values: ::hworker::__private::limit_values::<Self>,
        unique_key: ::hworker::__private::unique_key::<Self>,
        start: |invocation| {
            let args = invocation.args::<thumbnail>()?;
            ::core::result::Result::Ok(
                ::hworker::__private::Body::from_future(async move {
                    use ::hworker::__private::{
                        IsNested as _, IsOutcome as _, IsResult as _, IsValue as _,
                    };
                    let returned = thumbnail(args.path).await;
                    (&&&&::hworker::__private::tag(&returned))
                        .form()
                        .kept_with_error(returned)
                }),
            )
        },
    };
}
const _: () = {
    ::hworker::__private::inventory::submit! {
        ::hworker::__private::Registration::of:: < thumbnail > ()
    }
};
