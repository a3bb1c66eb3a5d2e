//! What holds for every request, before and after its handler: the right name, the right to change something, a
//! bounded body, and problem details for every refusal, also those of the libraries.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::body;
use super::origin::{check_host, check_origin};
use super::problem::{MEDIA_TYPE, Problem};
use crate::config::Secret;

/// Longest request target, in bytes: names of streams and runs are far shorter.
const MAX_TARGET_BYTES: usize = 8 * 1024;
/// Tells nothing but that somebody is there: never needs a token.
const LIVENESS: &str = "/livez";

/// Who may do what.
#[derive(Debug)]
pub(super) struct Guard {
    /// The token, when there is one.
    pub(super) token: Option<Secret>,
    /// Whether reading needs it too.
    pub(super) protects_reads: bool,
}

pub(super) async fn guard(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let refused = may_pass(&guard, &request).err();
    let mut response = match with_body(request, refused).await {
        Ok(request) => finish(next.run(request).await, &method, &path),
        Err(response) => response,
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Everything that can be said before the body is read.
fn may_pass(guard: &Guard, request: &Request) -> Result<(), Problem> {
    let (uri, headers) = (request.uri(), request.headers());
    let length = uri.path_and_query().map_or(0, |target| target.as_str().len());
    if length > MAX_TARGET_BYTES {
        let detail = format!("the URL is {length} bytes long, and at most {MAX_TARGET_BYTES} are taken");
        return Err(Problem::new(StatusCode::URI_TOO_LONG, detail));
    }
    check_host(request.version(), uri, headers, guard.token.is_some())?;
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if reads && (!guard.protects_reads || uri.path() == LIVENESS) {
        return Ok(());
    }
    if !reads {
        check_origin(headers)?;
    }
    check_token(guard, headers)
}

fn check_token(guard: &Guard, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(token) = &guard.token else { return Ok(()) };
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let given = match (all.next(), all.next()) {
        (Some(one), None) => one.as_bytes(),
        _ => b"",
    };
    let detail = match given.split_at_checked(7) {
        Some((scheme, given)) if scheme.eq_ignore_ascii_case(b"bearer ") => {
            let (given, token) = (given.trim_ascii(), token.expose().trim().as_bytes());
            // Compared in constant time, so that answers do not tell how much of a guess was right.
            if given.len() == token.len() && openssl::memcmp::eq(given, token) {
                return Ok(());
            }
            "the token is wrong"
        }
        _ if guard.protects_reads => {
            "this needs the header Authorization: Bearer TOKEN, with the token of the agent's http.token_file"
        }
        _ => "changes need the header Authorization: Bearer TOKEN, with the token of http.token_file",
    };
    Err(Problem::new(StatusCode::UNAUTHORIZED, detail)
        .header(header::WWW_AUTHENTICATE, "Bearer realm=\"soakd\""))
}

/// The request with its body read. A body is read also when the request is refused: the connection stays usable, and
/// the client gets the answer and not a reset.
async fn with_body(request: Request, refused: Option<Problem>) -> Result<Request, Response> {
    let headers = request.headers();
    let announced: Option<u64> =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let waits = headers.get(header::EXPECT).is_some_and(|value| value.as_bytes() == b"100-continue");
    let refused = match announced {
        Some(length) if length > body::MAX_BYTES as u64 && waits => {
            Some(refused.unwrap_or_else(body::too_large))
        }
        _ => refused,
    };
    if waits && let Some(problem) = refused {
        // The client has not begun to send and will not.
        return Err(closing(problem.into_response()));
    }
    let (parts, body) = request.into_parts();
    match (body::read(body).await, refused) {
        (Ok(bytes), None) => Ok(Request::from_parts(parts, Body::from(bytes))),
        (Ok(_), Some(problem)) => Err(problem.into_response()),
        (Err(not_taken), refused) => {
            let response = refused.unwrap_or(not_taken.problem).into_response();
            Err(if not_taken.read_to_the_end { response } else { closing(response) })
        }
    }
}

/// Tells the client that the connection ends with this answer.
fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Turns refusals that the libraries wrote into problem details, and answers OPTIONS.
fn finish(response: Response, method: &Method, path: &str) -> Response {
    let status = response.status();
    let written = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes() == MEDIA_TYPE.as_bytes() || kind == "application/json");
    if !(status.is_client_error() || status.is_server_error()) || written {
        return response;
    }
    let allow = response.headers().get(header::ALLOW).cloned();
    let mut response = match (status, &allow) {
        (StatusCode::METHOD_NOT_ALLOWED, Some(_)) if *method == Method::OPTIONS => {
            StatusCode::NO_CONTENT.into_response()
        }
        (StatusCode::METHOD_NOT_ALLOWED, Some(allow)) => {
            let allowed = String::from_utf8_lossy(allow.as_bytes());
            Problem::new(status, format!("{method} is not possible on {path}, only {allowed}"))
                .into_response()
        }
        _ => Problem::new(status, status.canonical_reason().unwrap_or("the request was refused"))
            .into_response(),
    };
    if let Some(allow) = allow {
        response.headers_mut().insert(header::ALLOW, allow);
    }
    response
}
