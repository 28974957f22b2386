//! What is told where something cannot be done: as RFC 9457 says it for programs, as a page for people.

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{Error, Refusal};

/// Why something was not done, or may not have been.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Problem {
    /// `urn:hworker:problem:` and its kind: `invalid`, `unauthorized`, `forbidden`, `read-only`, `not-found`, `changed`, `conflict`, `served`,
    /// `limited`, `too-large`, `unreachable` (nothing was changed), `uncertain` (look before you try again), `internal` and others.
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// The kind in words.
    pub(super) title: &'static str,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub(super) status: u16,
    /// What happened, to which job or queue, and what to do.
    pub(super) detail: String,
    /// What is wrong in the body, place by place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) errors: Vec<Wrong>,
    /// The id that the job has if it is enqueued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
}

/// What is wrong at one place.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Wrong {
    /// A JSON pointer to it.
    pub(super) pointer: String,
    /// What is wrong there.
    pub(super) detail: String,
}

impl Problem {
    fn new(status: StatusCode, kind: &str, title: &'static str, detail: impl Into<String>) -> Self {
        let kind = format!("urn:hworker:problem:{kind}");
        let (status, detail) = (status.as_u16(), detail.into());
        Self { kind, title, status, detail, errors: Vec::new(), id: None }
    }

    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", "This cannot be done so", detail)
    }

    pub(super) fn wrong(self, errors: Vec<Wrong>) -> Self {
        Self { errors, ..self }
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    pub(super) fn changed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "changed", "Changed meanwhile", detail)
    }

    pub(super) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", "Another job holds the key", detail)
    }

    pub(super) fn unauthorized() -> Self {
        let detail = "say who you are: send `Authorization: Bearer <token>`, or name and password";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "Who are you?", detail)
    }

    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail)
    }

    pub(super) fn read_only() -> Self {
        let detail = "this server shows, and changes nothing";
        Self::new(StatusCode::FORBIDDEN, "read-only", "Read only", detail)
    }

    pub(super) fn limited(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "limited", "Too many requests", detail)
    }

    pub(super) fn misdirected() -> Self {
        let detail =
            "without a rule of access this server answers for localhost, 127.0.0.1 and [::1] alone";
        Self::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", "Wrong host", detail)
    }

    pub(super) fn unreachable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unreachable", "Server out of reach", detail)
    }

    fn uncertain(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "uncertain", "It may be done", detail)
    }

    pub(super) fn late(is_change: bool) -> Self {
        if is_change {
            return Self::uncertain("no answer within 10 s; look before you try again");
        }
        Self::unreachable("no answer within 10 s; nothing was changed")
    }

    /// What axum says of a request that it cannot read.
    pub(super) fn of_rejection(status: StatusCode, detail: String) -> Self {
        match status {
            StatusCode::PAYLOAD_TOO_LARGE => Self::new(status, "too-large", "Too large", detail),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                Self::new(status, "media-type", "Wrong type of body", detail)
            }
            StatusCode::METHOD_NOT_ALLOWED => Self::new(status, "method", "Wrong method", detail),
            _ => Self::invalid(detail),
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        match error {
            Error::Unavailable { .. } => Self::unreachable(detail),
            Error::Uncertain { id, .. } | Error::NotDurable { id, .. } => {
                Self { id: Some(id.to_string()), ..Self::uncertain(detail) }
            }
            Error::Unanswered { .. } | Error::Bulk { .. } | Error::Stopped { .. } => {
                Self::uncertain(detail)
            }
            Error::Full { .. } => Self::limited(detail),
            Error::Vetoed { .. } => Self::forbidden(detail),
            Error::Conflict { .. } => Self::conflict(detail),
            Error::NotFound { .. } => Self::not_found(detail),
            Error::Refused { source, .. } => match source.refusal() {
                Some(Refusal::TooLarge(_)) => {
                    Self::of_rejection(StatusCode::PAYLOAD_TOO_LARGE, detail)
                }
                Some(Refusal::Served(_)) => {
                    Self::new(StatusCode::CONFLICT, "served", "Workers serve it", detail)
                }
                Some(Refusal::Stands(_)) => Self::conflict(detail),
                None => Self::new(StatusCode::SERVICE_UNAVAILABLE, "refused", "Refused", detail),
            },
            Error::Protocol { .. } => Self::new(
                StatusCode::BAD_GATEWAY,
                "protocol",
                "The server is not understood",
                detail,
            ),
            Error::Encode { .. } | Error::Invalid { .. } | Error::Config(_) => {
                Self::invalid(detail)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status() == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("60"));
        }
        // For the page, which says it in its own way.
        response.extensions_mut().insert(self);
        response
    }
}
