//! Files of the page. Their address has a hash of what is in them, so that a browser may keep them for ever.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::problem::Problem;
use crate::fnv;

const STYLE: &str = include_str!("assets/app.css");
const SCRIPT: &str = include_str!("assets/app.js");
const ICON: &str = include_str!("assets/icon.svg");

static HASH: LazyLock<String> =
    LazyLock::new(|| format!("{:016x}", fnv::hash([STYLE, SCRIPT, ICON].concat().as_bytes())));

pub(super) fn router() -> Router {
    Router::new().route("/assets/{hash}/{file}", get(file))
}

/// Where a file is, below this path.
pub(super) fn path(mount: &str, file: &str) -> String {
    format!("{mount}/assets/{}/{file}", *HASH)
}

async fn file(Path((hash, file)): Path<(String, String)>) -> Response {
    let (text, kind) = match &*file {
        "app.css" => (STYLE, "text/css; charset=utf-8"),
        "app.js" => (SCRIPT, "text/javascript; charset=utf-8"),
        "icon.svg" => (ICON, "image/svg+xml"),
        _ => return Problem::not_found(format!("there is no file {file}")).into_response(),
    };
    // A page of another version, as during a deploy, gets what there is, and does not keep it.
    let keep = if hash == *HASH { "private, max-age=31536000, immutable" } else { "no-store" };
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, keep)], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_together_are_small() {
        assert!(STYLE.len() + SCRIPT.len() + ICON.len() < 60_000);
        assert!(SCRIPT.lines().count() <= 400);
    }
}
