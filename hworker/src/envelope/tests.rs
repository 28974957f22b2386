use super::*;

#[test]
fn a_rewrite_keeps_what_it_does_not_know_and_the_bytes_of_args() {
    let payload = br#"{"args": {"n":9007199254740993, "x":1.0e2,"l":[] },"job":"a","new":{"k":[1, 2]},"id":"7"}"#;
    let mut rewrite = Rewrite::of(payload).expect("an envelope");
    rewrite.set("attempt", &2);
    rewrite.set("attempt", &3);
    assert_eq!(
        String::from_utf8_lossy(&rewrite.to_bytes()),
        r#"{"args":{"n":9007199254740993, "x":1.0e2,"l":[] },"job":"a","new":{"k":[1, 2]},"id":"7","attempt":3}"#
    );
}

#[test]
fn the_short_way_reads_what_the_long_one_does_or_nothing() {
    let new = |args: &str, at: &str| {
        format!(r#"{{"v":1,"id":"7","job":"a","args":{args},"enqueued_at":{at}}}"#)
    };
    let plain = new(r#"{"enqueued_at":1,"x":"},\"enqueued_at\":2}"}"#, "1790000000000");
    let short = Envelope::as_new(&plain).expect("as it is written");
    let long: Envelope<'_> = serde_json::from_str(&plain).expect("an envelope");
    assert_eq!(short.args(), long.args());
    assert_eq!(format!("{short:?}"), format!("{long:?}"));
    let versioned = plain.replace(r#","args""#, r#","args_v":12,"args""#);
    let short = Envelope::as_new(&versioned).expect("as it is written");
    let long: Envelope<'_> = serde_json::from_str(&versioned).expect("an envelope");
    assert_eq!((short.args_version(), format!("{short:?}")), (12, format!("{long:?}")));
    for other in [
        new(r#"{},"attempt":5"#, "1"),
        new(r#"{},"args":{"b":1}"#, "1"),
        new("{}", "01"),
        new("{}", ""),
        new("{}", "-1"),
        new("{}", r#""1:2""#),
        new("{", "1"),
        new("{}", r#"1,"attempt":2"#),
        plain.replace(r#""7""#, r#""\u0037""#),
        plain.replace(r#""7""#, "\"\t\""),
        plain.replace(r#""7""#, "null"),
        plain.replace(r#""v":1"#, r#""v":2"#),
        plain.replace(r#","args""#, r#","args_v":02,"args""#),
        plain.replace(r#","args""#, r#","args_v":+2,"args""#),
        plain.replace(r#","args""#, r#","args_v":,"args""#),
        plain.replace(r#","args""#, r#","args_v":4294967296,"args""#),
        format!("{plain} "),
    ] {
        assert!(Envelope::as_new(&other).is_none(), "{other}");
    }
}

#[test]
fn a_rewrite_gives_an_id_where_there_is_none() {
    let first = Rewrite::of(br#"{"job":"a","args":{}}"#).expect("an envelope");
    let second = Rewrite::of(br#"{"job":"a","args":{},"id":null}"#).expect("an envelope");
    assert_ne!(first.id(), second.id());
    assert_eq!(
        Envelope::decode(&first.to_bytes()).expect("decodes").id.as_deref(),
        Some(first.id().as_str())
    );
}

#[test]
fn errors_give_way_to_the_limit() {
    let mut rewrite = Rewrite::of(br#"{"job":"a","args":{},"id":"1"}"#).expect("an envelope");
    for attempt in 1..=3 {
        rewrite.add_error(&AttemptError {
            attempt,
            started_at: None,
            at: 0,
            kind: "error".into(),
            message: "x".repeat(100),
            place: None,
            backtrace: None,
            worker: String::new(),
        });
    }
    let all = rewrite.to_bytes().len();
    assert_eq!(rewrite.bytes_within(all).len(), all);
    let fewer = rewrite.bytes_within(all - 1);
    let value: serde_json::Value = serde_json::from_slice(&fewer).expect("JSON");
    assert_eq!(value["errors"][0]["attempt"], 2);
    assert_eq!(rewrite.bytes_within(1), br#"{"job":"a","args":{},"id":"1","errors":[]}"#);
}

#[test]
fn only_the_last_errors_are_kept() {
    let mut payload = br#"{"job":"a","args":{},"id":"1"}"#.to_vec();
    for attempt in 1..=13 {
        let mut rewrite = Rewrite::of(&payload).expect("an envelope");
        rewrite.add_error(&AttemptError {
            attempt,
            started_at: None,
            at: 0,
            kind: "error".into(),
            message: String::new(),
            place: None,
            backtrace: None,
            worker: String::new(),
        });
        payload = rewrite.to_bytes();
    }
    let value: serde_json::Value = serde_json::from_slice(&payload).expect("JSON");
    let attempts: Vec<_> =
        value["errors"].as_array().expect("errors").iter().map(|e| e["attempt"].as_u64()).collect();
    assert_eq!(attempts, (4..=13).map(Some).collect::<Vec<_>>());
}

#[test]
fn what_is_refused_is_described_without_its_values() {
    for (payload, expected) in [
        (&b"{"[..], "EOF while parsing an object at line 1 column 1"),
        (b"\xff", "not UTF-8: invalid utf-8 sequence of 1 bytes from index 0"),
        (br#"["id",1]xyz"#, "invalid"),
        (br#"{"job":"a","args":{}} xyz"#, "trailing characters at line 1 column 23"),
        (br#"{"args":{}}"#, "missing field `job` at line 1 column 11"),
        (
            br#"{"job":"a","args":{},"attempt":"s3cret"}"#,
            "invalid type: string, expected u32 at line 1 column 39",
        ),
        (br#"{"job":"a","job":"b","args":{}}"#, "duplicate field `job`"),
        (br#"{"job":"a","args":{},"attempt":0}"#, "the field `attempt` counts from 1"),
        (br#"{"job":"a","args":{},"args_v":0}"#, "the field `args_v` counts from 1"),
        (br#"[1,"id","a",{}]"#, "an envelope is a JSON object"),
        (
            br#"{"job":"a","args":["s3cret"]}"#,
            "the arguments do not fit the job: they are not an object",
        ),
    ] {
        let error = Envelope::decode(payload).expect_err("refused");
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[test]
fn what_a_type_says_of_a_value_is_not_repeated() {
    #[derive(Debug)]
    struct Picky;
    impl<'de> Deserialize<'de> for Picky {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let value = String::deserialize(from)?;
            Err(serde::de::Error::custom(format!("{value} is no card number")))
        }
    }
    let error = serde_json::from_str::<Vec<Picky>>(r#"["s3cret"]"#).expect_err("refused");
    assert_eq!(describe(&error), "its type refuses the value at line 1 column 10");
    let error = serde_json::from_str::<u8>("true").expect_err("refused");
    assert_eq!(describe(&error), "invalid type: boolean, expected u8 at line 1 column 4");
}

#[test]
fn ids_are_unique_and_sort_by_time() {
    let ids: Vec<_> = (0..1000).map(|_| JobId::fresh()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn of_many_errors_the_last_are_kept() {
    // Another producer may write as many as fit into a payload: none of them is kept for longer than it takes to read it.
    let zeros = "0,".repeat(100_000);
    let payload = format!(r#"{{"job":"a","args":{{}},"id":"7","errors":[{zeros}1,2,3]}}"#);
    let mut rewrite = Rewrite::of(payload.as_bytes()).expect("an envelope");
    let error = AttemptError {
        attempt: 4,
        started_at: None,
        at: 5,
        kind: "error".into(),
        message: "no".into(),
        place: None,
        backtrace: None,
        worker: "w".into(),
    };
    rewrite.add_error(&error);
    let written = String::from_utf8(rewrite.to_bytes()).expect("text");
    let errors = r#""errors":[0,0,0,0,0,0,1,2,3,{"attempt":4,"at":5,"kind":"error","message":"no","worker":"w"}]"#;
    assert!(written.contains(errors), "{written}");
    let small = String::from_utf8(rewrite.bytes_within(100)).expect("text");
    assert!(small.len() <= 100 && !small.contains("[0"), "{small}");
}

#[test]
fn what_a_later_version_wrote_can_be_rewritten_or_is_none() {
    let newer = |payload: &[u8]| Header::of_newer(payload).map(|header| header.job);
    assert_eq!(newer(br#" {"v":2,"job":"x","args":7}"#).as_deref(), Some("x"));
    for none in
        [&br#"[2,"x"]"#[..], b"{\"v\":2,\"job\":\"x\",\"args\":\"\xff\"}", br#"{"v":1,"job":"x"}"#]
    {
        assert_eq!(newer(none), None, "{}", String::from_utf8_lossy(none));
    }
}

#[test]
fn an_id_can_be_an_argument() {
    let id = JobId::fresh();
    let json = serde_json::to_string(&id).unwrap();
    assert_eq!(json, format!("\"{id}\""));
    assert_eq!(serde_json::from_str::<JobId>(&json).unwrap(), id);
    assert_eq!(serde_json::from_str::<JobId>(r#""a\u0000b""#).unwrap(), JobId::from("a\0b"));
    assert!(serde_json::from_str::<JobId>("7").is_err());
    assert_eq!(id.as_str().parse::<JobId>(), Ok(id));
}

#[test]
fn an_id_is_shown_on_one_line() {
    let id = JobId::from("a\nERROR b\u{1b}[31m\u{e9}");
    assert_eq!(id.to_string(), "a\\nERROR b\\u{1b}[31m\u{e9}");
    assert_eq!(id.as_str(), "a\nERROR b\u{1b}[31m\u{e9}");
}
