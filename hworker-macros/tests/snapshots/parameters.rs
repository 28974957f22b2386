pub(crate) async fn report(
    who: &str,
    ids: &[u64],
    limits: &Limits,
    mut page: u32,
    r#type: Option<String>,
    State(pool): State<Pool>,
    context: &hworker::Context,
    tenant: Tenant,
) -> hworker::Outcome {
    body
}
/// The arguments of the job [`report`](fn@report), and how to enqueue it.
#[derive(
    ::hworker::__private::serde::Serialize,
    ::hworker::__private::serde::Deserialize
)]
#[serde(crate = ":: hworker :: __private :: serde")]
pub(crate) struct report {
    #[serde(
        bound(
            serialize = "for < 'read > :: std :: string :: String : :: hworker :: __private :: Argument < 'read >",
            deserialize = "for < 'read > :: std :: string :: String : :: hworker :: __private :: Argument < 'read >"
        )
    )]
    /// Who asked.
    pub(crate) who: ::std::string::String,
    /// The argument `ids`.
    #[serde(
        bound(
            serialize = "for < 'read > :: std :: vec :: Vec < u64 > : :: hworker :: __private :: Argument < 'read >",
            deserialize = "for < 'read > :: std :: vec :: Vec < u64 > : :: hworker :: __private :: Argument < 'read >"
        )
    )]
    pub(crate) ids: ::std::vec::Vec<u64>,
    /// The argument `limits`.
    #[serde(
        bound(
            serialize = "for < 'read > Limits : :: hworker :: __private :: Argument < 'read >",
            deserialize = "for < 'read > Limits : :: hworker :: __private :: Argument < 'read >"
        )
    )]
    pub(crate) limits: Limits,
    /// The argument `page`.
    #[serde(default)]
    pub(crate) page: u32,
    /// The argument `type`.
    #[serde(
        bound(
            serialize = "for < 'read > Option < String > : :: hworker :: __private :: Argument < 'read >",
            deserialize = "for < 'read > Option < String > : :: hworker :: __private :: Argument < 'read >"
        )
    )]
    pub(crate) r#type: Option<String>,
}
#[automatically_derived]
impl report {
    /// The name of the job on the wire.
    pub(crate) const NAME: &'static ::core::primitive::str = "report";
    /// The job with these arguments, not enqueued yet: for all that can differ from call to call.
    pub(crate) fn with(
        who: impl ::core::convert::Into<::std::string::String>,
        ids: ::std::vec::Vec<u64>,
        limits: Limits,
        page: u32,
        r#type: Option<String>,
    ) -> ::hworker::__private::Enqueue<Self> {
        ::hworker::__private::Enqueue::new(Self {
            who: ::core::convert::Into::into(who),
            ids: ids,
            limits: limits,
            page: page,
            r#type: r#type,
        })
    }
    /// Enqueues the job with these arguments, to run as soon as a worker has a free slot.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    pub(crate) fn enqueue(
        who: impl ::core::convert::Into<::std::string::String>,
        ids: ::std::vec::Vec<u64>,
        limits: Limits,
        page: u32,
        r#type: Option<String>,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::JobId,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(who, ids, limits, page, r#type).enqueue()
    }
    /// Enqueues the job with these arguments, to run after `delay`.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    pub(crate) fn enqueue_in(
        delay: ::core::time::Duration,
        who: impl ::core::convert::Into<::std::string::String>,
        ids: ::std::vec::Vec<u64>,
        limits: Limits,
        page: u32,
        r#type: Option<String>,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::JobId,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(who, ids, limits, page, r#type).delay(delay).enqueue()
    }
    /// Enqueues the job with these arguments, to run at `time`.
    ///
    /// # Errors
    /// `Error::Uncertain` where nobody can know, `Error::NotDurable` where it was enqueued, but is not as safe as was asked; every
    /// other error means that it was not enqueued.
    pub(crate) fn enqueue_at(
        time: ::std::time::SystemTime,
        who: impl ::core::convert::Into<::std::string::String>,
        ids: ::std::vec::Vec<u64>,
        limits: Limits,
        page: u32,
        r#type: Option<String>,
    ) -> impl ::core::future::Future<
        Output = ::core::result::Result<
            ::hworker::__private::JobId,
            ::hworker::__private::Error,
        >,
    > + ::core::marker::Send + 'static {
        Self::with(who, ids, limits, page, r#type).at(time).enqueue()
    }
    /// Enqueues all jobs of an iterator, and gives how many they are: they are taken from it while others are on their way, so a million of them
    /// need not fit into memory. `hworker::Bulk` has more to choose.
    ///
    /// # Errors
    /// `Error::Stopped` says how many are enqueued, where not all are; with every other error none is.
    pub(crate) fn enqueue_many<I>(
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
impl ::hworker::__private::Job for report {
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
            ..::hworker::__private::Policy::DEFAULT
        },
        encrypted: ::hworker::__private::Encrypted::No,
        redact: &[],
        parameters: "[{\"name\":\"who\",\"type\":\"String\"},{\"name\":\"ids\",\"type\":\"Vec<u64>\"},{\"name\":\"limits\",\"type\":\"Limits\"},{\"name\":\"page\",\"type\":\"u32\",\"optional\":true},{\"name\":\"type\",\"type\":\"Option<String>\",\"optional\":true}]",
        schema: ::hworker::__private::schema!(
            "{\"type\":\"object\",\"properties\":{\"who\":{\"type\":\"string\"},\"ids\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},\"limits\":{},\"page\":{\"type\":\"integer\"},\"type\":{\"type\":[\"string\",\"null\"]}},\"required\":[\"who\",\"ids\",\"limits\"]}",
            ["who" : ::std::string::String, "ids" : ::std::vec::Vec < u64 >, "limits" :
            Limits, "page" : u32, "type" : Option < String >,], []
        ),
        keep_ms: ::core::option::Option::None,
        blocking: false,
        isolate: ::core::option::Option::None,
        on_failed: ::core::option::Option::None,
        needs: |needs| {
            <State<Pool> as ::hworker::__private::Inject>::needs(needs);
            <hworker::Context as ::hworker::__private::Inject>::needs(needs);
            <Tenant as ::hworker::__private::Inject>::needs(needs);
        },
        decode: ::hworker::__private::decode::<Self>,
        limit_values: ::hworker::__private::limit_values::<Self>,
        unique_key: ::hworker::__private::unique_key::<Self>,
        start: |invocation| {
            let args = invocation.args::<report>()?;
            let injected_0 = invocation.inject::<State<Pool>>()?;
            let injected_1 = invocation.inject::<hworker::Context>()?;
            let injected_2 = invocation.inject::<Tenant>()?;
            ::core::result::Result::Ok(
                ::hworker::__private::Body::from_future(async move {
                    use ::hworker::__private::{
                        IsNested as _, IsOutcome as _, IsResult as _, IsValue as _,
                    };
                    let returned = report(
                            &args.who,
                            &args.ids,
                            &args.limits,
                            args.page,
                            args.r#type,
                            injected_0,
                            &injected_1,
                            injected_2,
                        )
                        .await;
                    (&&&&::hworker::__private::tag(&returned)).form().returned(returned)
                }),
            )
        },
    };
}
const _: () = {
    ::hworker::__private::inventory::submit! {
        ::hworker::__private::Registration::of:: < report > ()
    }
};
