//! The ingestor's own small HTTP server: look at it, slow it down, stop it, let it go on. Loopback only.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::EmbeddedError;
use super::ingestor::{IngestorHandle, IngestorStatus};
use super::speed::Speed;
use crate::core::rate::Rate;

/// The largest body that says anything here is about forty bytes.
const MAX_BODY_BYTES: usize = 4096;
/// How long open connections may finish their answers at a stop.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// The bound server: nobody is answered before [`Server::run`].
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    handle: IngestorHandle,
}

impl Server {
    /// Binds a free loopback port.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn new(handle: IngestorHandle) -> Result<Self, EmbeddedError> {
        let failed = |reason| EmbeddedError::Http { address: "127.0.0.1".to_owned(), reason };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, handle })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop`, then lets open answers finish for half a second.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn run(self, stop: CancellationToken) -> Result<(), EmbeddedError> {
        let address = self.address;
        let failed = |reason| EmbeddedError::Http { address: address.to_string(), reason };
        let listener = tokio::net::TcpListener::from_std(self.listener).map_err(failed)?;
        let server = axum::serve(listener, router(self.handle))
            .with_graceful_shutdown(stop.clone().cancelled_owned())
            .into_future();
        // A graceful end waits for ever on a client that sent half a request.
        let deadline = async {
            stop.cancelled().await;
            tokio::time::sleep(CLOSE_TIMEOUT).await;
        };
        tokio::select! {
            served = server => served.map_err(failed),
            () = deadline => Ok(()),
        }
    }
}

fn router(handle: IngestorHandle) -> Router {
    Router::new()
        .route("/", get(look))
        .route("/speed", put(set_speed))
        .route("/stop", post(stop))
        .route("/go", post(go))
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .layer(middleware::from_fn(loopback_only))
        .with_state(handle)
}

/// What `GET /` shows.
#[derive(Debug, Serialize)]
struct View {
    what: &'static str,
    topic: String,
    group: String,
    keys: usize,
    rows: u64,
    rows_not_kept: u64,
    max_keys: usize,
    max_bytes: usize,
    speed: SpeedView,
    gap_records: u64,
    gaps: u64,
    read_errors: u64,
    commit_errors: u64,
    partitions: Vec<PartitionView>,
}

#[derive(Debug, Serialize)]
struct PartitionView {
    partition: u32,
    next_offset: u64,
    committed_offset: Option<u64>,
    gap_records: u64,
}

/// A speed as it is shown; `null` is no limit.
#[derive(Debug, Serialize)]
struct SpeedView {
    records_per_second: Option<f64>,
    stopped: bool,
}

impl From<Speed> for SpeedView {
    fn from(speed: Speed) -> Self {
        Self { records_per_second: speed.limit.map(Rate::per_second), stopped: speed.stopped }
    }
}

async fn look(State(handle): State<IngestorHandle>) -> Json<View> {
    Json(view(&handle, handle.status()))
}

fn view(handle: &IngestorHandle, status: IngestorStatus) -> View {
    let settings = handle.settings();
    View {
        what: "the embedded ingestor of soakd demo: an upsert table in memory; gap_records expired before they were read",
        topic: settings.topic.clone(),
        group: settings.group.clone(),
        keys: status.keys,
        rows: status.rows,
        rows_not_kept: status.rows_not_kept,
        max_keys: settings.limits.max_keys,
        max_bytes: settings.limits.max_bytes,
        speed: status.speed.into(),
        gap_records: status.gap_records(),
        gaps: status.gaps(),
        read_errors: status.read_errors,
        commit_errors: status.commit_errors,
        partitions: status
            .partitions
            .into_iter()
            .map(|(partition, progress)| PartitionView {
                partition,
                next_offset: progress.next_offset,
                committed_offset: progress.committed_offset,
                gap_records: progress.gap_records,
            })
            .collect(),
    }
}

/// The body of `PUT /speed`. The field must be there: `{}` by a typing error must not mean "no limit".
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpeedBody {
    #[serde(deserialize_with = "Option::deserialize")]
    records_per_second: Option<f64>,
}

async fn set_speed(
    State(handle): State<IngestorHandle>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<SpeedView>, Refusal> {
    let json = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(is_json);
    if !json {
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send the body with the header Content-Type: application/json",
        ));
    }
    let bytes = to_bytes(body, MAX_BODY_BYTES).await.map_err(|_| {
        Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is larger than {MAX_BODY_BYTES} bytes, or its end did not come"),
        )
    })?;
    let limit = read_limit(&bytes)?;
    Ok(Json(handle.change_speed(|speed| Speed { limit, ..speed }).into()))
}

fn read_limit(body: &[u8]) -> Result<Option<Rate>, Refusal> {
    // In two steps, so that text which is no JSON (400) and JSON which says nothing here (422) differ.
    let value: serde_json::Value = serde_json::from_slice(body)
        .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, format!("the body is not json: {error}")))?;
    let unusable = |detail: String| Refusal {
        field: Some("records_per_second"),
        ..Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    };
    let body: SpeedBody = serde_json::from_value(value).map_err(|error| {
        unusable(format!("{error}: send {{\"records_per_second\": 500}}, or null for no limit"))
    })?;
    let Some(records_per_second) = body.records_per_second else { return Ok(None) };
    let rate = Rate::from_per_second(records_per_second).map_err(|error| unusable(error.to_string()))?;
    if rate.is_zero() {
        return Err(unusable("0 is no speed: use POST /stop to stop, or null for no limit".to_owned()));
    }
    Ok(Some(rate))
}

async fn stop(State(handle): State<IngestorHandle>) -> Json<SpeedView> {
    Json(handle.change_speed(|speed| Speed { stopped: true, ..speed }).into())
}

async fn go(State(handle): State<IngestorHandle>) -> Json<SpeedView> {
    Json(handle.change_speed(|speed| Speed { stopped: false, ..speed }).into())
}

async fn not_found(request: Request) -> Refusal {
    let detail = format!(
        "there is no {:?}: there are GET /, PUT /speed, POST /stop and POST /go",
        request.uri().path()
    );
    Refusal::new(StatusCode::NOT_FOUND, detail)
}

async fn not_allowed(method: Method) -> Refusal {
    let detail = format!("{method} is not for this: there are GET /, PUT /speed, POST /stop and POST /go");
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, detail)
}

/// Keeps out what a foreign web page in a local browser could send: loopback binding alone does not.
async fn loopback_only(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !is_loopback(host) {
        let detail = format!("the Host {host:?} is no loopback name: use 127.0.0.1 or localhost");
        return Refusal::new(StatusCode::FORBIDDEN, detail).into_response();
    }
    let own = |origin: &str| origin.strip_prefix("http://").is_some_and(|origin| origin == host);
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    if changes && headers.get(header::ORIGIN).is_some_and(|origin| !origin.to_str().is_ok_and(own)) {
        let detail = "the Origin is another page: only this server's own may change the speed";
        return Refusal::new(StatusCode::FORBIDDEN, detail).into_response();
    }
    next.run(request).await
}

fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    name.eq_ignore_ascii_case("localhost")
        || name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn is_json(content_type: &str) -> bool {
    content_type.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// An error as RFC 9457 wants it.
#[derive(Debug, Serialize)]
struct Refusal {
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'static str>,
}

impl Refusal {
    fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            title: status.canonical_reason().unwrap_or("error"),
            status: status.as_u16(),
            detail: detail.into(),
            field: None,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        (status, [(header::CONTENT_TYPE, "application/problem+json")], Json(self)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r7_zero_is_refused_and_null_is_no_limit() {
        assert_eq!(read_limit(br#"{"records_per_second": null}"#).unwrap(), None);
        let limit = read_limit(br#"{"records_per_second": 2.5}"#).unwrap();
        assert_eq!(limit, Some(Rate::from_per_second(2.5).unwrap()));
        for (body, status) in [
            (r#"{"records_per_second": 0}"#, 422),
            (r#"{"records_per_second": -1}"#, 422),
            (r#"{"records_per_second": 1e300}"#, 422),
            (r#"{"records_per_second": "5"}"#, 422),
            (r#"{"records_per_secnd": 5}"#, 422),
            (r#"{"records_per_second": 5, "stopped": true}"#, 422),
            ("{}", 422),
            ("[]", 422),
            ("5", 422),
            ("", 400),
            ("{", 400),
            ("\u{fffd}", 400),
        ] {
            assert_eq!(read_limit(body.as_bytes()).unwrap_err().status, status, "{body}");
        }
    }

    #[test]
    fn only_loopback_names_are_answered() {
        for name in ["localhost", "localhost:1", "LOCALHOST:80", "127.0.0.1:9640", "127.1.2.3", "[::1]:5"] {
            assert!(is_loopback(name), "{name}");
        }
        for name in ["", "evil.example", "localhost.evil.example:1", "127.0.0.1.evil.example", "10.0.0.1:80"]
        {
            assert!(!is_loopback(name), "{name}");
        }
    }
}
