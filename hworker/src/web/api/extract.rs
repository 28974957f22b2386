//! What requests carry; what cannot be read is told as a problem.

use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use serde_json::value::RawValue;

use crate::web::problem::Problem;

/// A body that is an object in JSON, sent as `application/json`.
pub(in crate::web) struct Json<T>(pub(in crate::web) T);

/// What stands behind the question mark of an address.
pub(in crate::web) struct Query<T>(pub(in crate::web) T);

/// What stands in the path.
pub(in crate::web) struct Path<T>(pub(in crate::web) T);

impl<S: Send + Sync, T: serde::de::DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let told =
            |refused: JsonRejection| Problem::of_rejection(refused.status(), refused.body_text());
        let read = axum::Json::<Box<RawValue>>::from_request(request, state).await;
        let axum::Json(body) = read.map_err(told)?;
        // From a list serde would take the fields in their order.
        if !body.get().starts_with('{') {
            return Err(Problem::invalid(
                "the body is an object by name, as in `{\"reset\":true}`",
            ));
        }
        let read = axum::Json::from_bytes(body.get().as_bytes());
        read.map(|axum::Json(body)| Self(body)).map_err(told)
    }
}

impl<S: Send + Sync, T: serde::de::DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Query::from_request_parts(parts, state).await;
        read.map(|axum::extract::Query(query)| Self(query))
            .map_err(|refused| Problem::of_rejection(refused.status(), refused.body_text()))
    }
}

impl<S: Send + Sync, T: serde::de::DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Path::from_request_parts(parts, state).await;
        read.map(|axum::extract::Path(path)| Self(path))
            .map_err(|refused| Problem::of_rejection(refused.status(), refused.body_text()))
    }
}

/// Who asks, as the guard found him.
impl<S: Send + Sync> FromRequestParts<S> for crate::web::guard::Asked {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::unauthorized)
    }
}
