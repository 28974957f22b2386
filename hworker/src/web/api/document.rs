//! What the OpenAPI document says beside the handlers.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, PathItem, Ref, RefOr, Required, Response, Server};
use utoipa::{Modify, OpenApi as _};

use crate::web::guard::Asked;
use crate::web::problem::{Problem, Wrong};
use crate::web::schema::{
    BatchName, Digest, EntryName, KnownId, LimitName, LimitOfJobs, OwnId, QueueName, RateText, Tag,
    TypeName, WorkerId,
};
use crate::web::site::Site;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "hworker",
        description = "Jobs, queues and workers. Times are in milliseconds since 1970 by the server's clock. Errors are `application/problem+json`. \
                       A write needs `Authorization: Bearer`, or `Sec-Fetch-Site: same-origin`.",
    ),
    components(schemas(
        Problem, Wrong, BatchName, Digest, EntryName, KnownId, LimitName, LimitOfJobs, OwnId, QueueName, RateText, Tag, TypeName, WorkerId
    )),
    modifiers(&Security),
    security(("token" = []), ("password" = [])),
)]
struct Head;

struct Security;

impl Modify for Security {
    fn modify(&self, document: &mut OpenApi) {
        let scheme = |scheme| SecurityScheme::Http(HttpBuilder::new().scheme(scheme).build());
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", scheme(HttpAuthScheme::Bearer));
        components.add_security_scheme("password", scheme(HttpAuthScheme::Basic));
    }
}

pub(super) fn head() -> OpenApi {
    Head::openapi()
}

/// What is true of every operation: an id of its own, the names in its path, and the problems with which it may answer; and of some bodies.
pub(super) fn complete(document: &mut OpenApi) {
    add_rules(document);
    let schema = Ref::from_schema_name("Problem");
    let problem = Response::builder()
        .description("What is wrong, and what to do")
        .content("application/problem+json", Content::new(Some(schema)))
        .build();
    for (path, item) in &mut document.paths.paths {
        item.parameters = Some(parameters(path));
        let PathItem { get, put, post, delete, patch, .. } = item;
        let operations =
            [("get", get), ("put", put), ("post", post), ("delete", delete), ("patch", patch)];
        for (method, operation) in operations {
            let Some(operation) = operation else { continue };
            let words =
                path.split(['/', '{', '}']).filter(|word| !matches!(*word, "" | "api" | "v1"));
            operation.operation_id =
                Some(words.fold(method.to_owned(), |id, word| id + "_" + word));
            for statuses in ["4XX", "5XX"] {
                operation.responses.responses.insert(statuses.into(), problem.clone().into());
            }
        }
    }
}

/// What fields of a body say of one another, in words of JSON Schema for which utoipa has no names.
fn add_rules(document: &mut OpenApi) {
    // Names in their order, whether maps keep another or not.
    let is =
        |field: &str, kind: Value| json!({ "properties": { field: kind }, "required": [field] });
    let integer = |field| is(field, json!({ "type": "integer" }));
    let text = |field| is(field, json!({ "type": "string" }));
    let (at, delay, due) = (integer("at"), integer("delay_ms"), integer("due"));
    let front = is("front", json!({ "const": true }));
    let edits = json!({ "anyOf": [is("args", json!({ "type": "object" })), is("tags", json!({ "type": "array" }))] });
    let rules = [
        (
            "NewJob",
            "not",
            json!({ "anyOf": [{ "allOf": [at, delay] }, { "allOf": [front, { "anyOf": [at, delay] }] }] }),
        ),
        ("Changes", "oneOf", json!([edits, due, delay, text("priority")])),
        ("Values", "anyOf", json!([integer("at_once"), text("rate"), integer("max_waiting")])),
    ];
    let schemas = &mut document.components.get_or_insert_default().schemas;
    for (name, word, rule) in rules {
        if let Some(RefOr::T(Schema::Object(body))) = schemas.get_mut(name) {
            body.extensions.get_or_insert_default().insert(word.to_owned(), rule);
        }
    }
}

/// The names in a path.
fn parameters(path: &str) -> Vec<RefOr<Parameter>> {
    let (mut found, mut before) = (Vec::new(), "");
    for part in path.split('/') {
        if let Some(name) = part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            let parameter = Parameter::builder()
                .name(name)
                .parameter_in(ParameterIn::Path)
                .required(Required::True)
                .schema(Some(Ref::from_schema_name(in_path(name, before, path))));
            found.push(parameter.build().into());
        }
        before = part;
    }
    found
}

/// What stands in this place of a path, which `before` leads to.
fn in_path(name: &str, before: &str, path: &str) -> &'static str {
    match (name, before) {
        ("queue", _) => "QueueName",
        ("digest", _) => "Digest",
        ("id", "workers") => "WorkerId",
        ("id", "batches") => "BatchName",
        ("id", _) => "KnownId",
        (_, "types") => "TypeName",
        (_, "cron") => "EntryName",
        (_, "limits") if path.ends_with("/pause") => "LimitOfJobs",
        _ => "LimitName",
    }
}

/// The document, with the path under which it is served.
#[allow(clippy::unused_async, reason = "a handler is async")]
pub(super) async fn serve(
    document: Arc<OpenApi>,
    (State(site), asked): (State<Arc<Site>>, Asked),
) -> impl IntoResponse {
    let mut document = OpenApi::clone(&document);
    let base = site.base(&asked);
    document.servers = Some(vec![Server::new(if base.is_empty() { "/" } else { &base })]);
    ([(CONTENT_TYPE, "application/json")], serde_json::to_vec(&document).unwrap_or_default())
}
