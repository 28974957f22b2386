//! The schemas that workers write down: what the types of arguments say of themselves, where they say it.

use std::collections::HashMap;

use hworker::JobType;
use hworker_tests::{DOCUMENTED_KEY, InProcess, TestServer};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::SOON;
use crate::cli::call;

mod home {
    /// Where somebody lives.
    #[derive(super::Serialize, super::Deserialize, super::JsonSchema)]
    pub(super) struct Place {
        pub(super) city: String,
        pub(super) zip: Option<u32>,
    }
}

mod work {
    #[derive(super::Serialize, super::Deserialize, super::JsonSchema)]
    pub(super) struct Place {
        pub(super) floor: i8,
    }
}

/// Names itself.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Tree {
    name: String,
    #[serde(default)]
    below: Vec<Tree>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Pair<T> {
    first: T,
    second: T,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Speed {
    Slow,
    Fast,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    speed: Speed,
    /// The argument of this name is another.
    #[serde(default)]
    list: u8,
    note: Option<String>,
}

/// Has no schema.
#[derive(Serialize, Deserialize)]
struct Plain {
    x: u8,
}

#[hworker::job]
#[allow(clippy::too_many_arguments)]
async fn typed(
    to: &home::Place,
    places: &[work::Place],
    #[serde(rename = "type", default)] kind: Option<Speed>,
    tree: Tree,
    pair: Pair<home::Place>,
    list: Vec<u64>,
    text: &str,
    plain: Plain,
    plains: HashMap<String, Plain>,
    #[serde(flatten)] options: Options,
) {
    let _ = (to, places, kind, tree, pair, list, text, plain, plains, options);
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Rest {
    #[serde(flatten)]
    more: HashMap<String, u8>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum Either {
    One(u8),
    Neither,
}

#[hworker::job]
async fn flattened(
    own: String,
    #[serde(flatten)] rest: Rest,
    #[serde(flatten)] either: Option<Either>,
    #[serde(flatten)] plain: Plain,
) {
    let _ = (own, rest, either, plain);
}

#[hworker::job(encrypted)]
async fn secret(to: home::Place) {
    let _ = to;
}

/// Its schema is larger than an entry may be.
#[derive(Serialize, Deserialize)]
struct Large;

impl JsonSchema for Large {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Large".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "description": "x".repeat(64 * 1024) })
    }
}

#[hworker::job]
async fn large(large: Large, n: u8) {
    let _ = (large, n);
}

#[derive(Serialize, Deserialize)]
struct Panics;

impl JsonSchema for Panics {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Panics".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        panic!("no schema")
    }
}

#[hworker::job]
async fn panics(panics: Panics, n: u8) {
    let _ = (panics, n);
}

/// The schemas that a worker of these job types has written down.
async fn written(server: &TestServer) -> HashMap<String, Value> {
    let client = server.client_with_keys(&[DOCUMENTED_KEY]);
    let worker = server.worker().client(&client);
    let worker = worker.register::<typed>().register::<flattened>().register::<secret>();
    let _worker = InProcess::run(worker.register::<large>().register::<panics>());
    server.eventually("its types are written down", SOON, || {
        server.redis().len("hworker-meta:jobs") == 5
    });
    let types = server.client().job_types().await.expect("job types");
    let schema = |job: JobType| (job.name, serde_json::from_str(&job.schema).expect("JSON"));
    types.into_iter().map(schema).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_has_a_schema_gives_it() {
    // Types of one name, a type that names itself, a generic one, fields that are flattened, and types that have no schema.
    // Guard: the order of `IsDeep` and `IsShallow`; one `SchemaGenerator` for all arguments.
    let server = TestServer::start();
    let written = written(&server).await;
    let typed = &written["typed"];
    let properties = &typed["properties"];
    let unsigned = json!({ "type": "integer", "format": "uint64", "minimum": 0 });
    for (name, expected) in [
        ("to", json!({ "$ref": "#/$defs/Place" })),
        ("places", json!({ "type": "array", "items": { "$ref": "#/$defs/Place2" } })),
        ("type", json!({ "anyOf": [{ "$ref": "#/$defs/Speed" }, { "type": "null" }] })),
        ("tree", json!({ "$ref": "#/$defs/Tree" })),
        ("pair", json!({ "$ref": "#/$defs/Pair" })),
        ("list", json!({ "type": "array", "items": unsigned })),
        ("text", json!({ "type": "string" })),
        ("plain", json!({})),
        ("plains", json!({ "type": "object" })),
        ("speed", json!({ "$ref": "#/$defs/Speed" })),
        ("note", json!({ "type": ["string", "null"] })),
    ] {
        assert_eq!(properties[name], expected, "{name}: {typed:#}");
    }
    assert_eq!(properties.as_object().map(serde_json::Map::len), Some(11), "{typed:#}");
    let required =
        json!(["to", "places", "tree", "pair", "list", "text", "plain", "plains", "speed"]);
    assert_eq!(typed["required"], required);
    assert!(typed.get("additionalProperties").is_none());
    let definitions = &typed["$defs"];
    assert_eq!(definitions["Place"]["description"], "Where somebody lives.");
    assert_eq!(definitions["Place2"]["properties"]["floor"]["format"], "int8");
    assert_eq!(definitions["Tree"]["properties"]["below"]["items"]["$ref"], "#/$defs/Tree");
    assert_eq!(definitions["Pair"]["properties"]["first"]["$ref"], "#/$defs/Place");

    // What is enqueued fits.
    let place = || home::Place { city: "Ulm".into(), zip: None };
    let tree = Tree { name: "a".into(), below: vec![Tree { name: "b".into(), below: vec![] }] };
    let options = Options { speed: Speed::Fast, list: 1, note: None };
    let pair = Pair { first: place(), second: place() };
    let floors = vec![work::Place { floor: -1 }];
    let plains = HashMap::from([("x".to_owned(), Plain { x: 1 })]);
    let mut args = serde_json::to_value(super::schema::typed {
        to: place(),
        places: floors,
        kind: None,
        tree,
        pair,
        list: vec![],
        text: "x".into(),
        plain: Plain { x: 1 },
        plains,
        options,
    })
    .expect("JSON");
    args["list"] = json!([u64::MAX]);
    let validator = jsonschema::validator_for(typed).expect("a schema");
    assert!(validator.is_valid(&args), "{args:#}");
    args["to"]["zip"] = json!("89073");
    assert!(!validator.is_valid(&args));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_told_is_left_open() {
    // A map and an enum that are flattened, encrypted arguments, a schema that is too large, and one whose making panics.
    // Guard: `Deep::flattened`, `JobType::of`, `guarded` in `Schema::deep`.
    let server = TestServer::start();
    let written = written(&server).await;
    let with = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required });
    let small = json!({ "type": "integer" });
    for (name, expected) in [
        ("flattened", with(json!({ "own": { "type": "string" } }), json!(["own"]))),
        ("secret", with(json!({ "to": {} }), json!(["to"]))),
        ("large", with(json!({ "large": {}, "n": small }), json!(["large", "n"]))),
        ("panics", with(json!({ "panics": {}, "n": small }), json!(["panics", "n"]))),
    ] {
        assert_eq!(written[name], expected, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ts12_enqueue_is_checked_down_to_the_fields() {
    // Guard: `schema::check` follows references inside of a schema.
    let server = TestServer::start();
    let _written = written(&server).await;
    let args = |zip: &str, speed: &str| {
        json!({
            "to": { "city": "Ulm", "zip": zip }, "places": [], "tree": { "name": "a", "below": [{ "name": 7 }] },
            "pair": { "first": { "city": "a" }, "second": { "city": "b" } }, "list": [], "text": "", "plain": { "x": 1 },
            "plains": {}, "speed": speed,
        })
        .to_string()
    };
    let wrong = call(&server, &["enqueue", "typed", "--args", &args("s3cret", "s1ow")]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    for pointer in ["/to/zip", "/tree/below/0/name", "/speed"] {
        assert!(wrong.err.contains(pointer), "{pointer}: {}", wrong.err);
    }
    assert!(!wrong.err.contains("s3cret") && !wrong.err.contains("s1ow"), "{}", wrong.err);
}
